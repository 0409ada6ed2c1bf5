use syn::parse::ParseStream;
use syn::{Expr, Ident, Pat, Token};

use super::reader::Reader;

/// `event in events`
pub(crate) struct Each {
    /// What names one message.
    pub(crate) pattern: Pat,
    /// The parameter that holds them all.
    pub(crate) messages: Ident,
}

pub(super) fn read(it: &mut Reader<'_, '_>) -> Option<Each> {
    it.value("of the form `message in parameter`", parse)
}

fn parse(input: ParseStream<'_>) -> syn::Result<Each> {
    let pattern = Pat::parse_single(input)?;
    input.parse::<Token![in]>()?;
    let messages: Expr = input.parse()?;
    match &messages {
        Expr::Path(path) if path.path.get_ident().is_some_and(|name| name != "self") => Ok(Each {
            pattern,
            messages: path.path.require_ident()?.clone(),
        }),
        _ => Err(syn::Error::new_spanned(
            messages,
            "after `in` comes the name of a parameter, whose messages are claimed together",
        )),
    }
}
