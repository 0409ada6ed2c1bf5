//! Spans of time, as the attribute and the command line write them: every text is a span or a fault, and never anything else.

use std::time::Duration;

use idem::Retain;
use proptest::prelude::*;

use crate::{cases, text};

/// From large to small, in milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// What the documentation accepts: whole numbers with units, from large to small, no blanks.
fn accepted(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut millis = 0_u64;
    for (unit, length) in UNITS {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, behind) = rest.split_at(digits);
        let word = behind.len() - behind.trim_start_matches(char::is_alphabetic).len();
        if digits > 0 && &behind[..word] == unit {
            let number = number.parse().unwrap_or(u64::MAX);
            millis = millis.saturating_add(length.saturating_mul(number));
            rest = &behind[word..];
        }
    }
    (rest.is_empty() && !text.is_empty()).then(|| Duration::from_millis(millis))
}

/// Numbers and words in any order, nearly a span of time.
fn nearly() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        (0_u64..100).prop_map(|number| number.to_string()),
        any::<u128>().prop_map(|number| number.to_string()),
        Just(String::new()),
    ];
    let unit = prop::sample::select(vec![
        "d", "h", "m", "s", "ms", "D", "days", "w", "µs", "", " ", "h ", "-", ".", "٣",
    ]);
    prop::collection::vec((number, unit), 0..5).prop_map(|parts| {
        parts
            .into_iter()
            .map(|(number, unit)| number + unit)
            .collect()
    })
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn a_text_is_what_the_documentation_accepts_or_a_fault(text in prop_oneof![nearly(), text(20)]) {
        let parsed = idem_duration::parse(&text);
        prop_assert_eq!(parsed.as_ref().ok().copied(), accepted(&text));
        if let Err(fault) = parsed {
            prop_assert!(fault.advise("retain", "7d").contains("write `retain = \""));
            if let Some(meant) = fault.meant() {
                // The advice can be taken.
                prop_assert!(accepted(meant).is_some_and(|meant| !meant.is_zero()), "{}", meant);
            }
        }
    }

    #[test]
    fn what_is_written_is_read(millis in prop_oneof![any::<u64>(), 0_u64..100_000_000], nanos in 0_u32..1_000_000) {
        let whole = Duration::from_millis(millis);
        let text = idem_duration::write(whole + Duration::from_nanos(nanos.into()));
        prop_assert_eq!(idem_duration::parse(&text), Ok(whole));
        prop_assert_eq!(accepted(&text), Some(whole));
    }

    #[test]
    fn more_is_longer(number in any::<u64>(), more in any::<u64>()) {
        let parse = |number: u64, unit| idem_duration::parse(&format!("{number}{unit}")).unwrap();
        for (unit, length) in UNITS {
            let span = parse(number, unit);
            prop_assert_eq!(span, Duration::from_millis(number.saturating_mul(length)));
            prop_assert!(parse(number.max(more), unit) >= span);
        }
        for pair in UNITS.windows(2) {
            prop_assert!(parse(number, pair[0].0) >= parse(number, pair[1].0));
        }
    }

    #[test]
    fn a_window_is_read_as_it_is_written(text in prop_oneof![nearly(), Just("forever".to_owned())], redelivery in any::<u32>()) {
        let redelivery = Duration::from_secs(redelivery.into());
        match text.parse::<Retain>() {
            Ok(retain) => {
                prop_assert_eq!(retain.to_string().parse::<Retain>(), Ok(retain));
                prop_assert!(retain.exceeds(Duration::ZERO));
                prop_assert_eq!(retain.exceeds(redelivery), match retain {
                    Retain::Forever => true,
                    Retain::For(window) => redelivery < window,
                });
            }
            Err(fault) => {
                prop_assert!(accepted(&text).is_none_or(|window| window.is_zero()));
                prop_assert!(fault.to_string().ends_with("write `7d`, `36h` or `forever`"));
            }
        }
    }
}
