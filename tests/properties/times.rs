//! The day of a message: of a time, or of an id that begins with one. Any other text is an error.

use std::time::{Duration, UNIX_EPOCH};

use idem::{Day, InvalidTime, Time};
use proptest::prelude::*;

use crate::{cases, text};

const LAST_SECOND: i64 = 253_402_300_799;

/// By another crate's calendar.
fn calendar(seconds: i64) -> Result<String, InvalidTime> {
    if !(0..=LAST_SECOND).contains(&seconds) {
        return Err(InvalidTime::OutOfRange);
    }
    let time = chrono::DateTime::from_timestamp(seconds, 0).unwrap();
    Ok(time.date_naive().to_string())
}

fn written(day: Result<Day, InvalidTime>) -> Result<String, InvalidTime> {
    day.map(|day| day.to_string())
}

fn ulid(millis: u64, random: u128) -> String {
    const ALPHABET: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let bits = (u128::from(millis) << 80) | (random >> 48);
    let digit = |place: u32| ALPHABET[usize::try_from((bits >> (5 * place)) & 31).unwrap()];
    (0..26)
        .rev()
        .map(|place| char::from(digit(place)))
        .collect()
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn a_time_has_the_calendars_day(seconds in prop_oneof![any::<i64>(), -100_000..LAST_SECOND + 100_000]) {
        prop_assert_eq!(written(Day::of_unix(seconds)), calendar(seconds));
        if let Some(time) = chrono::DateTime::from_timestamp(seconds, 0) {
            prop_assert_eq!(written(time.day()), calendar(seconds));
            let east = chrono::FixedOffset::east_opt(14 * 3600).unwrap();
            prop_assert_eq!(written(time.with_timezone(&east).day()), calendar(seconds));
        }
        if let Ok(time) = time::OffsetDateTime::from_unix_timestamp(seconds) {
            prop_assert_eq!(written(Time::day(&time)), calendar(seconds));
        }
        let since = Duration::from_secs(seconds.unsigned_abs());
        let system = if seconds < 0 { UNIX_EPOCH.checked_sub(since) } else { UNIX_EPOCH.checked_add(since) };
        if let Some(time) = system {
            prop_assert_eq!(written(time.day()), calendar(seconds));
        }
    }

    #[test]
    fn days_are_in_the_order_of_time(one in 0..LAST_SECOND, other in 0..LAST_SECOND) {
        let (one, other) = (one.min(other), one.max(other));
        let (first, second) = (Day::of_unix(one).unwrap(), Day::of_unix(other).unwrap());
        prop_assert!(first <= second);
        prop_assert_eq!(first == second, first.to_string() == second.to_string());
        prop_assert!(first.to_string() <= second.to_string());
    }

    #[test]
    fn an_id_has_the_day_of_its_time(millis in 0_u64..1 << 48, random in any::<u128>()) {
        let expected = calendar(i64::try_from(millis / 1000).unwrap());
        let version_7 = (u128::from(millis) << 80) | (7 << 76) | ((random >> 52) & !(0xf << 76));
        let version_7 = (version_7 & !(0b11 << 62)) | (0b10 << 62);
        let id = uuid::Uuid::from_u128(version_7);
        prop_assert_eq!(id.get_version_num(), 7);
        prop_assert_eq!(written(id.day()), expected.clone());
        prop_assert_eq!(written(id.to_string().day()), expected.clone());
        prop_assert_eq!(written(id.simple().to_string().to_uppercase().day()), expected.clone());
        prop_assert_eq!(written(ulid(millis, random).day()), expected.clone());
        prop_assert_eq!(written(ulid(millis, random).to_lowercase().day()), expected);
    }

    #[test]
    fn an_id_of_another_version_has_none(id in any::<u128>()) {
        let id = uuid::Uuid::from_u128(id);
        let day = id.day();
        prop_assert_eq!(day.is_err_and(|fault| fault == InvalidTime::NoTime), id.get_version_num() != 7);
        prop_assert_eq!(id.hyphenated().to_string().day(), day);
    }

    #[test]
    fn any_text_is_a_day_or_an_error(text in prop_oneof![
        text(40),
        prop::collection::vec(prop::sample::select("0123456789ABCDEFGHJKMNPQRSTVWXYZ-éu".chars().collect::<Vec<_>>()), 20..40).prop_map(String::from_iter),
    ]) {
        let day = text.day();
        if day.is_ok() {
            prop_assert!([26, 32, 36].contains(&text.len()) && text.is_ascii());
        }
    }
}
