use std::time::Duration;

use syn::{Expr, ExprLit, Lit, LitStr};

use super::reader::Reader;
use crate::errors::nearest;
use crate::types::text;

/// A span of time that claims are kept for, or that a broker redelivers for.
pub(crate) struct Window {
    /// Without one, for ever.
    pub(crate) length: Option<Duration>,
    /// Where it is written.
    pub(crate) value: LitStr,
}

/// Beyond it, a length is as good as `forever`, and databases run out of dates.
pub(crate) const CENTURY: Duration = Duration::from_hours(100 * 365 * 24);

const FOREVER: &str = "forever";

/// `retain` and `business_retain`.
pub(super) fn retain(it: &mut Reader<'_, '_>) -> Option<Window> {
    let name = it.name().to_string();
    let example = if name == "retain" { "7d" } else { "365d" };
    let value = string(it, example)?;
    let written = value.value();
    let fault = match written.to_lowercase().as_str() {
        FOREVER if written == FOREVER => {
            return Some(Window {
                length: None,
                value,
            });
        }
        "never" | "none" | "infinite" | "infinity" | "unlimited" | "always" | "ever" => {
            format!(
                "there is no `{name} = {written:?}`; to keep claims for ever, write `{name} = \"{FOREVER}\"`"
            )
        }
        word if nearest(word, [FOREVER]).is_some() => {
            format!("there is no `{name} = {written:?}`; did you mean `{name} = \"{FOREVER}\"`?")
        }
        _ => match idem_duration::parse(&written) {
            Ok(Duration::ZERO) => format!(
                "a claim that is kept for no time stops no redelivery; write `{name} = \"{example}\"`, or how long yours are to be kept"
            ),
            Ok(length) if length <= CENTURY => {
                return Some(Window {
                    length: Some(length),
                    value,
                });
            }
            Ok(_) => format!(
                "`{written}` is longer than a century; to keep claims for ever, write `{name} = \"{FOREVER}\"`"
            ),
            Err(fault) => advise(&fault, &written, &name, example),
        },
    };
    it.fault(value, fault);
    None
}

/// `redelivery`
pub(super) fn redelivery(it: &mut Reader<'_, '_>) -> Option<Window> {
    let (name, example) = ("redelivery", "4d");
    let value = string(it, example)?;
    let written = value.value();
    let endless = format!(
        "if the broker redelivers without end, claims have to be kept for ever: write `retain = \"{FOREVER}\"`, and leave `{name}` out"
    );
    let fault = match idem_duration::parse(&written) {
        Ok(Duration::ZERO) => format!(
            "if the broker delivered each message once, there would be nothing to remember; write how long yours may deliver it again, as in `{name} = \"{example}\"`"
        ),
        Ok(length) if length <= CENTURY => {
            return Some(Window {
                length: Some(length),
                value,
            });
        }
        Ok(_) => endless,
        Err(_) if nearest(&written.to_lowercase(), [FOREVER]).is_some() => endless,
        Err(fault) => advise(&fault, &written, name, example),
    };
    it.fault(value, fault);
    None
}

fn string(it: &mut Reader<'_, '_>, example: &str) -> Option<LitStr> {
    let name = it.name().to_string();
    it.string(
        &format!("the value of `{name}` stands in quotes"),
        |value| format!("{name} = \"{}\"", quoted(value, example)),
    )
}

/// `7d` and `forever` only lack their quotes, and `7` its unit too.
fn quoted(value: &Expr, example: &str) -> String {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) if number.suffix().is_empty() => {
            with_unit(number.base10_digits()).unwrap_or_else(|| example.to_owned())
        }
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) => match idem_duration::parse(&number.to_string()) {
            Ok(_) => number.to_string(),
            Err(fault) => fault.meant().unwrap_or(example).to_owned(),
        },
        // Also `Retain::Forever`.
        Expr::Path(_) if text(value).to_lowercase().ends_with(FOREVER) => FOREVER.to_owned(),
        _ => example.to_owned(),
    }
}

fn advise(fault: &idem_duration::Fault, written: &str, name: &str, example: &str) -> String {
    match with_unit(written.trim()) {
        Some(meant) => format!("{fault}; write `{name} = \"{meant}\"`"),
        None => fault.advise(name, example),
    }
}

/// A number alone: nobody keeps claims for seven seconds, and `604800` counts those of a week.
fn with_unit(number: &str) -> Option<String> {
    let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
    let days = number <= 366;
    let unit = if days { 24 * 60 * 60 } else { 1 };
    let length = Duration::from_secs(number.saturating_mul(unit));
    Some(idem_duration::write(length))
}
