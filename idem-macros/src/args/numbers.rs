use proc_macro2::{Literal, Span};
use syn::{Expr, ExprLit, ExprUnary, Lit, UnOp, parse_quote_spanned};

use super::reader::Reader;

/// `retries = 3`
pub(crate) struct Retries {
    pub(crate) number: Literal,
    /// Where the argument starts and ends.
    pub(crate) spans: [Span; 2],
}

/// Each one holds the message back.
const MOST_RETRIES: u64 = 10;

pub(super) fn retries(it: &mut Reader<'_, '_>) -> Option<Retries> {
    let value = it.literal()?;
    let number = match &value {
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) if number.suffix().is_empty() => number,
        _ => {
            it.fault(
                value,
                format!("`retries` is a number from 1 to {MOST_RETRIES}; write `retries = 3`"),
            );
            return None;
        }
    };
    let fault = match number.base10_parse() {
        Ok(0) => "without retries the handler runs once, as it does without the argument; leave `retries` out".to_owned(),
        Ok(retries) if retries <= MOST_RETRIES => {
            let mut literal = Literal::u64_unsuffixed(retries);
            literal.set_span(number.span());
            return Some(Retries {
                number: literal,
                spans: [it.name().span(), number.span()],
            });
        }
        _ => format!(
            "every retry holds a connection and keeps the messages behind it waiting; write `retries = {MOST_RETRIES}` or less, and let the broker redeliver after that"
        ),
    };
    it.fault(number, fault);
    None
}

/// The first version: 1, or what is written.
pub(super) fn gapless(it: &mut Reader<'_, '_>) -> Option<Expr> {
    if it.is_at_end() {
        return Some(parse_quote_spanned!(it.name().span()=> 1));
    }
    let value = it.literal()?;
    if is_version(&value) {
        return Some(value);
    }
    it.fault(
        value,
        "`gapless` says which version comes first, as a number; write `gapless = 0`, or `gapless` alone if it is 1",
    );
    None
}

fn is_version(value: &Expr) -> bool {
    let (sign, number) = match value {
        Expr::Unary(ExprUnary {
            op: UnOp::Neg(_),
            expr,
            ..
        }) => ("-", &**expr),
        _ => ("", value),
    };
    match number {
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) if number.suffix().is_empty() => format!("{sign}{}", number.base10_digits())
            .parse::<i64>()
            .is_ok(),
        _ => false,
    }
}
