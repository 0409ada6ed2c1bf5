use std::time::Duration;

use syn::{Expr, ExprLit, Lit};

use super::reader::Reader;
use crate::errors::nearest;
use crate::types::text;

/// What a delivery does when the same message is in flight.
pub(crate) enum InFlight {
    Wait,
    Fail,
    Within(Duration),
}

const WORDS: [&str; 2] = ["wait", "fail"];

/// By then every broker delivers the message again, and the connection that waits is missing elsewhere.
const LONGEST: Duration = Duration::from_hours(1);

pub(super) fn read(it: &mut Reader<'_, '_>) -> Option<InFlight> {
    let value = it.string("the value of `in_flight` stands in quotes", |value| {
        format!("in_flight = \"{}\"", quoted(value))
    })?;
    let written = value.value();
    let fault = match written.as_str() {
        "wait" => return Some(InFlight::Wait),
        "fail" => return Some(InFlight::Fail),
        time if time.starts_with(|c: char| c.is_ascii_digit()) => match idem_duration::parse(time) {
            Ok(Duration::ZERO) => {
                "to wait for no time is to fail; write `in_flight = \"fail\"`".to_owned()
            }
            Ok(time) if time <= LONGEST => return Some(InFlight::Within(time)),
            Ok(_) => "a delivery waits for one hour at most, since brokers deliver the message again long before; write `in_flight = \"1h\"` or less, or leave it out".to_owned(),
            Err(fault) => fault.advise("in_flight", "5s"),
        },
        // As SQL and other libraries say it.
        "nowait" | "no_wait" | "no wait" | "skip" | "error" | "reject" => {
            format!("there is no `in_flight = {written:?}`; to fail at once, write `in_flight = \"fail\"`")
        }
        word => match nearest(word, WORDS) {
            Some(meant) => {
                format!("there is no `in_flight = {word:?}`; did you mean `in_flight = \"{meant}\"`?")
            }
            None => format!(
                "there is no `in_flight = {word:?}`; write `\"fail\"` to fail at once, a time such as `\"5s\"` to wait no longer, or `\"wait\"` to wait as without it"
            ),
        },
    };
    it.fault(value, fault);
    None
}

/// `fail` and `5s` only lack their quotes, and `5` its unit too.
fn quoted(value: &Expr) -> String {
    match value {
        Expr::Path(word) => nearest(&text(word), WORDS).unwrap_or("fail").to_owned(),
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) if number.suffix().is_empty() => format!("{}s", number.base10_digits()),
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) => number.to_string(),
        _ => "5s".to_owned(),
    }
}
