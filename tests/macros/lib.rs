//! `#[idempotent]` as the contract's handlers have it where they are claimed in the table by days: with a `time` that they do not name.

use proc_macro::{Literal, TokenStream, TokenTree};

/// `#[idempotent(.., time = "crate::db::time_of(&KEY)")]`. A handler with `version` stays as it is, since it goes with no `time`.
#[proc_macro_attribute]
pub fn by_day(arguments: TokenStream, handler: TokenStream) -> TokenStream {
    idempotent(&arguments, handler, "")
}

/// As [`macro@by_day`], and with `from_plain`.
#[proc_macro_attribute]
pub fn by_day_from_plain(arguments: TokenStream, handler: TokenStream) -> TokenStream {
    idempotent(&arguments, handler, ", from_plain")
}

fn idempotent(arguments: &TokenStream, handler: TokenStream, more: &str) -> TokenStream {
    let time = value_of("key", arguments)
        .filter(|_| !arguments.to_string().contains("version ="))
        .map(|key| {
            // A value is an expression in a string. It has to name what is delivered, as the key does.
            let time = Literal::string(&format!("crate::db::time_of(&{key})"));
            format!(", time = {time}{more}")
        });
    let attribute = format!(
        "#[::idem::idempotent({arguments}{})]",
        time.unwrap_or_default()
    );
    let attribute: Result<TokenStream, _> = attribute.parse();
    attribute.into_iter().flatten().chain(handler).collect()
}

/// What is in the string of `name = "…"`.
fn value_of(name: &str, arguments: &TokenStream) -> Option<String> {
    let tokens: Vec<TokenTree> = arguments.clone().into_iter().collect();
    let value = tokens.windows(3).find_map(|window| match window {
        [TokenTree::Ident(found), _, TokenTree::Literal(value)] => {
            (found.to_string() == name).then(|| value.to_string())
        }
        _ => None,
    })?;
    let text = value.strip_prefix('"')?.strip_suffix('"')?;
    Some(text.replace("\\\"", "\""))
}
