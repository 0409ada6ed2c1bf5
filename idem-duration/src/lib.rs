//! Spans of time as [`idem`](https://docs.rs/idem-sqlx)'s attribute and its command line write them: `500ms`, `5s`, `1m30s`, `7d`.
//!
//! One parser for both, so that they accept the same and say the same about the rest.
//!
//! ```
//! use std::time::Duration;
//!
//! assert_eq!(idem_duration::parse("1m30s"), Ok(Duration::from_secs(90)));
//! assert_eq!(idem_duration::write(Duration::from_secs(90)), "1m30s");
//!
//! let fault = idem_duration::parse("90 sec").unwrap_err();
//! assert_eq!(fault.to_string(), "there is no unit `sec`: a time is in `ms`, `s`, `m`, `h` or `d`");
//! assert!(fault.advise("retain", "7d").ends_with("write `retain = \"1m30s\"`"));
//! ```

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// From large to small, in milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("d", DAY),
    ("h", 60 * 60 * 1000),
    ("m", 60 * 1000),
    ("s", 1000),
    ("ms", 1),
];

const DAY: u64 = 24 * 60 * 60 * 1000;

/// Reads a span of time: whole numbers with units, from large to small. What is longer than the number can say, in milliseconds, is as
/// long as it can.
///
/// # Errors
///
/// When the text is anything else, even if one can guess what it means: [`Fault::meant`] is that guess.
pub fn parse(text: &str) -> Result<Duration, Fault> {
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

/// Writes a span of time as [`parse`] reads it. What is shorter than a millisecond is left out, and nothing is `0s`.
#[must_use]
pub fn write(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut parts = Vec::new();
    for (unit, length) in UNITS {
        if rest >= length {
            parts.push(format!("{}{unit}", rest / length));
            rest %= length;
        }
    }
    parts.concat()
}

/// Why a text is no span of time. Its text says what is wrong; what to write depends on where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    what: String,
    meant: Option<String>,
}

impl Fault {
    /// The span of time that was most likely meant, as it should be written.
    #[must_use]
    pub fn meant(&self) -> Option<&str> {
        self.meant.as_deref()
    }

    /// The whole message about an argument of the attribute; `example` is a span of time that suits it.
    #[must_use]
    pub fn advise(&self, argument: &str, example: &str) -> String {
        let meant = self.meant().unwrap_or(example);
        format!("{self}; write `{argument} = \"{meant}\"`")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for Fault {}

/// The milliseconds of a unit. People are used to longer names and to longer units, which are understood and wrong.
fn length(unit: &str, wrong: &mut Option<String>) -> Option<u64> {
    let (name, length) = match unit.to_lowercase().as_str() {
        "y" | "yr" | "yrs" | "year" | "years" => ("", 365 * DAY),
        "mo" | "mon" | "month" | "months" => ("", 30 * DAY),
        "w" | "wk" | "wks" | "week" | "weeks" => ("", 7 * DAY),
        "d" | "day" | "days" => UNITS[0],
        "h" | "hr" | "hrs" | "hour" | "hours" => UNITS[1],
        "m" | "min" | "mins" | "minute" | "minutes" => UNITS[2],
        "s" | "sec" | "secs" | "second" | "seconds" => UNITS[3],
        "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => UNITS[4],
        _ => return None,
    };
    if unit != name {
        wrong.get_or_insert_with(|| unknown(unit));
    }
    Some(length)
}

fn unknown(unit: &str) -> String {
    format!("there is no unit `{unit}`: a time is in `ms`, `s`, `m`, `h` or `d`")
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
    fn what_is_written_is_read() {
        for (millis, text) in [
            (0, "0s"),
            (1, "1ms"),
            (90_000, "1m30s"),
            (36 * 60 * 60 * 1000, "1d12h"),
            (365 * DAY, "365d"),
            (93_784_005, "1d2h3m4s5ms"),
        ] {
            let duration = Duration::from_millis(millis);
            assert_eq!(write(duration), text);
            assert_eq!(parse(text), Ok(duration));
        }
        assert_eq!(
            parse(&write(Duration::MAX)),
            Ok(Duration::from_millis(u64::MAX))
        );
        assert_eq!(write(Duration::from_micros(1_999)), "1ms");
    }

    #[test]
    fn faults_say_what_was_meant() {
        for (text, fault, meant) in [
            ("5", "has no unit", "5s"),
            ("1m30", "has no unit", "1m30s"),
            ("5 sec", "there is no unit `sec`", "5s"),
            ("2minutes", "there is no unit `minutes`", "2m"),
            ("7 days", "there is no unit `days`", "7d"),
            ("2w", "there is no unit `w`", "14d"),
            ("3 months", "there is no unit `months`", "90d"),
            ("1y6h", "there is no unit `y`", "365d6h"),
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
