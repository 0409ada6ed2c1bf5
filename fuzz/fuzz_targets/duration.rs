//! Spans of time, windows and days: every text is a value or an error, and what is written is read.
#![no_main]

use std::time::Duration;

use idem_runtime::{Retain, Time};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match idem_duration::parse(text) {
        Ok(span) => {
            let written = idem_duration::write(span);
            assert_eq!(idem_duration::parse(&written), Ok(span), "{written}");
        }
        Err(fault) => {
            assert!(!fault.advise("retain", "7d").is_empty());
            if let Some(meant) = fault.meant() {
                let meant = idem_duration::parse(meant).expect("the advice can be taken");
                assert!(!meant.is_zero());
            }
        }
    }
    match text.parse::<Retain>() {
        Ok(retain) => {
            assert!(retain.exceeds(Duration::ZERO));
            assert_eq!(retain.to_string().parse(), Ok(retain));
        }
        Err(fault) => assert!(!fault.to_string().is_empty()),
    }
    if let Ok(day) = text.day() {
        assert!(text.is_ascii());
        assert_eq!(day.to_string().len(), 10);
    }
});
