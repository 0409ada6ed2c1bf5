use proc_macro2::{Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, ExprLit, Ident, Lit, LitStr, Token};

use crate::errors::{Errors, nearest};

/// One row per argument: its name and how it is written.
const ARGUMENTS: [(&str, &str); 3] = [
    ("key", "key = \"event.id\""),
    ("consumer", "consumer = \"billing\""),
    ("allow_pool", "allow_pool"),
];

/// The longest name of a consumer, as in `idem_runtime::MAX_CONSUMER_BYTES`; a test compares the two.
const MAX_CONSUMER_BYTES: usize = 255;

/// The arguments as they were written. An argument that is there but wrong is reported, and not missed on top.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) key: Argument<Expr>,
    pub(crate) consumer: Argument<LitStr>,
    pub(crate) allow_pool: Argument<()>,
    /// The first value that stands without a name.
    positional: Option<TokenTree>,
}

#[derive(Default)]
pub(crate) enum Argument<T> {
    #[default]
    Missing,
    Wrong,
    Given(T),
}

impl<T> Argument<T> {
    fn set(&mut self, name: &Ident, value: Option<T>, errors: &mut Errors) {
        if !matches!(self, Argument::Missing) {
            errors.at(
                name,
                format!("`{name}` is given twice; keep the one you mean"),
            );
            return;
        }
        *self = value.map_or(Argument::Wrong, Argument::Given);
    }

    pub(crate) fn given(&self) -> Option<&T> {
        match self {
            Argument::Given(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Argument::Missing)
    }
}

pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Args {
    let mut args = Args::default();
    let parser = |input: ParseStream<'_>| {
        while !input.is_empty() {
            if let Err(error) = args.parse_one(input, errors) {
                errors.push(error);
            }
            skip_to_comma(input)?;
        }
        Ok(())
    };
    if let Err(error) = parser.parse2(tokens) {
        errors.push(error);
    }
    args
}

impl Args {
    fn parse_one(&mut self, input: ParseStream<'_>, errors: &mut Errors) -> syn::Result<()> {
        if !input.peek(Ident::peek_any) {
            let value: TokenTree = input.parse()?;
            if matches!(value, TokenTree::Literal(_)) {
                self.positional.get_or_insert(value);
                return Ok(());
            }
            return Err(syn::Error::new_spanned(
                value,
                format!("expected an argument by its name: `{}`", forms()),
            ));
        }
        let name = Ident::parse_any(input)?;
        match name.to_string().as_str() {
            "key" => {
                let value = value(input, &name, errors).and_then(|value| key(value, errors));
                self.key.set(&name, value, errors);
            }
            "consumer" => {
                let value = value(input, &name, errors).and_then(|value| consumer(value, errors));
                self.consumer.set(&name, value, errors);
            }
            "allow_pool" => {
                if input.peek(Token![=]) {
                    errors.at(
                        &name,
                        "`allow_pool` takes no value; write `allow_pool` alone to permit a pool among the parameters, or leave it out",
                    );
                }
                self.allow_pool.set(&name, Some(()), errors);
            }
            other => self.unknown(other, &name, errors),
        }
        Ok(())
    }

    fn unknown(&mut self, name: &str, at: &Ident, errors: &mut Errors) {
        let meant = nearest(name, ARGUMENTS.map(|(name, _)| name));
        match meant {
            Some(meant) => errors.at(
                at,
                format!("there is no argument `{name}`; did you mean `{meant}`?"),
            ),
            None => errors.at(
                at,
                format!("there is no argument `{name}`; there are `{}`", forms()),
            ),
        }
        match meant {
            Some("key") if self.key.is_missing() => self.key = Argument::Wrong,
            Some("consumer") if self.consumer.is_missing() => self.consumer = Argument::Wrong,
            Some("allow_pool") => self.allow_pool = Argument::Given(()),
            _ => {}
        }
    }

    /// Reports what is missing, in a form that can be pasted: `example` is an expression over a parameter of the handler, which starts at
    /// `item`.
    pub(crate) fn check_present(&self, example: &str, item: Span, errors: &mut Errors) {
        let (key, consumer) = (self.key.is_missing(), self.consumer.is_missing());
        if let Some(value) = &self.positional {
            errors.at(value, positional(value, key, consumer, example));
            return;
        }
        let fault = match (key, consumer) {
            (true, true) => format!(
                "`#[idempotent]` has to know what identifies a message and who consumes it; write `#[idempotent(key = \"{example}\", consumer = \"billing\")]`"
            ),
            (true, false) => format!(
                "`key` is missing: what is equal in all deliveries of one message and differs between messages; add `key = \"{example}\"`"
            ),
            (false, true) => "`consumer` is missing: the name under which this handler remembers its messages, so that other handlers may process them too; add `consumer = \"billing\"`".to_owned(),
            (false, false) => return,
        };
        errors.at_attribute(item, fault);
    }
}

/// The advice for a value without a name, which is most likely meant for what is missing.
fn positional(value: &TokenTree, key: bool, consumer: bool, example: &str) -> String {
    let form = match (key, consumer) {
        (true, false) => format!("`key = {value}`"),
        (false, true) => format!("`consumer = {value}`"),
        _ => format!("`key = \"{example}\", consumer = \"billing\"`"),
    };
    format!("every argument has a name, so that key and consumer are not confused; write {form}")
}

fn forms() -> String {
    ARGUMENTS.map(|(_, form)| form).join("`, `")
}

/// The expression after `=`.
fn value(input: ParseStream<'_>, name: &Ident, errors: &mut Errors) -> Option<Expr> {
    let form = ARGUMENTS
        .iter()
        .find(|(argument, _)| name == argument)
        .map_or("", |(_, form)| form);
    if !input.peek(Token![=]) {
        errors.at(
            name,
            format!("`{name}` takes its value after `=`; write `{form}`"),
        );
        return None;
    }
    let equals: Token![=] = input.parse().ok()?;
    if input.is_empty() || input.peek(Token![,]) {
        errors.at(
            equals,
            format!("the value of `{name}` is missing; write `{form}`"),
        );
        return None;
    }
    match input.parse() {
        Ok(value) => Some(value),
        Err(error) => {
            errors.push(syn::Error::new(
                error.span(),
                format!("`{name}` is not an expression ({error}); write `{form}`"),
            ));
            None
        }
    }
}

/// A string holds the expression; anything else is the expression.
fn key(value: Expr, errors: &mut Errors) -> Option<Expr> {
    let Expr::Lit(ExprLit {
        lit: Lit::Str(text),
        ..
    }) = &value
    else {
        return Some(value);
    };
    if text.value().trim().is_empty() {
        errors.at(
            text,
            "the key is empty, and every message would be the same; name what identifies a message, as in `key = \"event.id\"`",
        );
        return None;
    }
    match text.parse() {
        Ok(expression) => Some(expression),
        Err(error) => {
            errors.at(
                text,
                format!("`key` is not an expression ({error}); write `key = \"event.id\"`"),
            );
            None
        }
    }
}

fn consumer(value: Expr, errors: &mut Errors) -> Option<LitStr> {
    let Expr::Lit(ExprLit {
        lit: Lit::Str(name),
        ..
    }) = value
    else {
        errors.at(
            value,
            "the consumer is a name in quotes, since claims are found by it after every restart; write `consumer = \"billing\"`",
        );
        return None;
    };
    let text = name.value();
    let fault = if text.is_empty() {
        "the consumer's name is empty, and handlers that share a name share their claims; give it one of its own, as in `consumer = \"billing\"`".to_owned()
    } else if text.len() > MAX_CONSUMER_BYTES {
        format!(
            "the consumer's name has {} bytes and may have {MAX_CONSUMER_BYTES}, since it stands in every claim; choose a shorter one, as in `consumer = \"billing\"`",
            text.len()
        )
    } else if let Some(found) = text.chars().find(|c| c.is_whitespace() || c.is_control()) {
        format!(
            "the consumer's name holds {found:?}, which is easily mistyped in a second place; use no blanks and no control characters: write `consumer = {:?}`",
            text.split(|c: char| c.is_whitespace() || c.is_control())
                .filter(|word| !word.is_empty())
                .collect::<Vec<_>>()
                .join(".")
        )
    } else {
        return Some(name);
    };
    errors.at(name, fault);
    None
}

/// After an argument, whatever is left of it was reported already.
fn skip_to_comma(input: ParseStream<'_>) -> syn::Result<()> {
    while !input.is_empty() {
        if input.parse::<Option<Token![,]>>()?.is_some() {
            return Ok(());
        }
        input.parse::<TokenTree>()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_runtimes() {
        let runtime = include_str!("../../idem-runtime/src/consumer.rs");
        assert!(runtime.contains(&format!(
            "pub const MAX_CONSUMER_BYTES: usize = {MAX_CONSUMER_BYTES};"
        )));
    }
}
