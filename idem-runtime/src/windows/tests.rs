use super::*;

const DAY: Duration = Duration::from_hours(24);

#[test]
fn a_consumer_without_a_window_has_the_default() {
    let windows = Windows::new().window("billing", 7 * DAY);
    assert_eq!(windows.retain_of("billing"), Some(Retain::For(7 * DAY)));
    assert_eq!(windows.retain_of("mail"), None);
    let windows = windows.default_window(Retain::Forever);
    assert_eq!(windows.retain_of("mail"), Some(Retain::Forever));
}

#[test]
fn business_keys_are_kept_for_ever_unless_told_otherwise() {
    let windows = Windows::new().default_window(DAY).window("billing", DAY);
    assert_eq!(windows.business_retain_of("billing"), Retain::Forever);
    let windows = windows.business_window("billing", 9 * DAY);
    assert_eq!(windows.business_retain_of("billing"), Retain::For(9 * DAY));
}

#[test]
fn a_window_exceeds_its_redelivery_window() {
    let windows = Windows::new().redelivery("billing", 4 * DAY);
    for (retain, is_right) in [
        (Retain::For(3 * DAY), false),
        (Retain::For(4 * DAY), false),
        (Retain::For(4 * DAY + Duration::from_millis(1)), true),
        (Retain::Forever, true),
    ] {
        for windows in [
            windows.clone().window("billing", retain),
            windows.clone().default_window(retain),
            windows.clone().business_window("billing", retain),
            Windows::new()
                .default_redelivery(4 * DAY)
                .window("mail", retain),
            Windows::new()
                .default_redelivery(4 * DAY)
                .default_window(retain),
        ] {
            assert_eq!(windows.check().is_ok(), is_right, "{windows:?}");
        }
    }
    // The consumer's own is what counts.
    let windows = windows
        .default_redelivery(9 * DAY)
        .window("billing", 5 * DAY);
    assert_eq!(windows.check(), Ok(()));
}

#[test]
fn no_window_at_all_is_too_short() {
    for windows in [
        Windows::new().default_window(Duration::ZERO),
        Windows::new().window("billing", Duration::ZERO),
        Windows::new().business_window("billing", Duration::ZERO),
    ] {
        let fault = windows.check().map_err(|fault| fault.to_string());
        assert!(fault.is_err_and(|fault| fault.contains("not be kept at all")));
    }
}

#[test]
fn the_fault_is_told_in_full() {
    let windows = Windows::new()
        .window("billing", 2 * DAY)
        .redelivery("billing", 4 * DAY);
    let fault = windows.check().map_err(|fault| fault.to_string());
    assert_eq!(
        fault.err().unwrap_or_default(),
        "the claims of the consumer `billing` would be kept for 2d, and the broker may redeliver for 4d: a message redelivered after its claim is gone runs a second time; keep them for longer than 4d"
    );
}

#[test]
fn days_are_kept_for_the_longest_window() {
    let windows = Windows::new();
    assert_eq!(windows.retain_of_days(), None);
    let windows = windows.window("billing", 7 * DAY).default_window(3 * DAY);
    assert_eq!(
        windows.retain_of_days(),
        Some(Retain::For(3 * DAY)),
        "others may use the table"
    );
    let windows = Windows {
        by_day: vec!["mail"],
        ..windows
    };
    assert_eq!(windows.retain_of_days(), Some(Retain::For(3 * DAY)));
    let windows = Windows {
        by_day: vec!["mail"],
        ..Windows::new()
    };
    assert_eq!(
        windows.retain_of_days(),
        Some(Retain::Forever),
        "nobody says"
    );
}
