//! Spans of time as arguments write them: `500ms`, `5s`, `1m30s`, `7d`.

use std::time::Duration;

/// From large to small, in milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("d", 24 * 60 * 60 * 1000),
    ("h", 60 * 60 * 1000),
    ("m", 60 * 1000),
    ("s", 1000),
    ("ms", 1),
];

/// Why a text is no duration.
#[derive(Debug, PartialEq)]
pub(crate) struct Fault {
    what: String,
    /// What was most likely meant.
    meant: Option<String>,
}

impl Fault {
    /// The whole message about an argument; `example` is a duration that suits it.
    pub(crate) fn advise(&self, argument: &str, example: &str) -> String {
        let meant = self.meant.as_deref().unwrap_or(example);
        format!("{}; write `{argument} = \"{meant}\"`", self.what)
    }
}

/// Whole numbers with units, from large to small. What is longer than a number can say is as long as one can.
pub(crate) fn parse(text: &str) -> Result<Duration, Fault> {
    let mut rest = text.trim();
    let mut millis = 0_u64;
    let mut smallest = u64::MAX;
    // The first thing that is wrong but understood.
    let mut wrong = None;
    while !rest.is_empty() {
        let (number, behind) = split(rest, |c| c.is_ascii_digit());
        let (unit, behind) = split(behind.trim_start(), char::is_alphabetic);
        rest = behind.trim_start();
        let length = if unit.is_empty() && rest.is_empty() {
            wrong.get_or_insert_with(|| format!("`{text}` has no unit"));
            Some(1000)
        } else {
            length(unit, &mut wrong)
        };
        let Some(length) = length.filter(|_| !number.is_empty()) else {
            let what = if number.is_empty() || unit.is_empty() {
                format!(
                    "`{text}` is no span of time: whole numbers with their units, as in `500ms`, `5s` or `1m30s`"
                )
            } else {
                unknown(unit)
            };
            return Err(Fault { what, meant: None });
        };
        if length >= smallest {
            wrong.get_or_insert_with(|| {
                format!("the units of `{text}` do not go from large to small")
            });
        }
        smallest = length;
        let number: u64 = number.parse().unwrap_or(u64::MAX);
        millis = millis.saturating_add(number.saturating_mul(length));
    }
    if text.is_empty() || text.contains(char::is_whitespace) {
        wrong.get_or_insert_with(|| format!("`{text}` is no span of time without blanks"));
    }
    let duration = Duration::from_millis(millis);
    match wrong {
        Some(what) => Err(Fault {
            what,
            meant: (millis > 0).then(|| write(duration)),
        }),
        None => Ok(duration),
    }
}

/// The milliseconds of a unit. People are used to longer names, which are understood and wrong.
fn length(unit: &str, wrong: &mut Option<String>) -> Option<u64> {
    let name = match unit.to_lowercase().as_str() {
        "d" | "day" | "days" => "d",
        "h" | "hr" | "hrs" | "hour" | "hours" => "h",
        "m" | "min" | "mins" | "minute" | "minutes" => "m",
        "s" | "sec" | "secs" | "second" | "seconds" => "s",
        "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => "ms",
        _ => return None,
    };
    if unit != name {
        wrong.get_or_insert_with(|| unknown(unit));
    }
    UNITS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, length)| *length)
}

fn unknown(unit: &str) -> String {
    format!("there is no unit `{unit}`: a time is in `ms`, `s`, `m`, `h` or `d`")
}

/// A duration as [`parse`] reads it.
fn write(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut parts = Vec::new();
    for (unit, length) in UNITS {
        if rest >= length {
            parts.push(format!("{}{unit}", rest / length));
            rest %= length;
        }
    }
    parts.concat()
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !belongs(c)).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in [
            ("500ms", 500),
            ("5s", 5_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
            ("1m30s", 90_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("0s", 0),
            ("99999999999999999999999h", u64::MAX),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn faults_say_what_was_meant() {
        for (text, fault, meant) in [
            ("5", "has no unit", "5s"),
            ("1m30", "has no unit", "1m30s"),
            ("5 sec", "there is no unit `sec`", "5s"),
            ("2minutes", "there is no unit `minutes`", "2m"),
            ("5parsec", "there is no unit `parsec`", "1s"),
            ("5 s", "without blanks", "5s"),
            ("1.5s", "whole numbers with their units", "1s"),
            ("30s1m", "do not go from large to small", "1m30s"),
            ("1s1s", "do not go from large to small", "2s"),
            ("", "is no span of time", "1s"),
        ] {
            let parsed = parse(text);
            let message = parsed.map_err(|fault| fault.advise("wait", "1s"));
            let message = message.err().unwrap_or_default();
            assert!(message.contains(fault), "{message}");
            assert!(
                message.ends_with(&format!("; write `wait = \"{meant}\"`")),
                "{message}"
            );
        }
    }

    #[test]
    fn odd_texts_are_faults() {
        for text in ["s", "-5s", "5s-", "5s,", "٣s", "5µs", "5 5s", "\0", "1e3s"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
