use std::fmt;

use super::InvalidTime;

const SECONDS_OF_A_DAY: i64 = 24 * 60 * 60;

/// The 31st of December 9999.
const LAST: i32 = 2_932_896;

/// A day of the calendar, in UTC, from 1970-01-01 to 9999-12-31.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(
    /// Counted from 1970-01-01.
    i32,
);

impl Day {
    /// The day of a time in seconds since 1970-01-01T00:00:00Z.
    ///
    /// # Errors
    ///
    /// [`InvalidTime::OutOfRange`]
    pub fn of_unix(seconds: i64) -> Result<Self, InvalidTime> {
        i32::try_from(seconds.div_euclid(SECONDS_OF_A_DAY))
            .ok()
            .and_then(Self::of_number)
            .ok_or(InvalidTime::OutOfRange)
    }

    pub(crate) fn of_number(days: i32) -> Option<Self> {
        (0..=LAST).contains(&days).then_some(Self(days))
    }

    /// Counted from 1970-01-01.
    pub(crate) fn number(self) -> i32 {
        self.0
    }

    /// Year, month and day, both from 1 on. Counted in eras of 400 years, from the first of March, so that a leap day is the last of its
    /// year.
    fn civil(self) -> (i32, i32, i32) {
        let days = self.0 + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let (day, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
        (year + era * 400 + i32::from(month <= 2), month, day)
    }
}

/// As in `2026-11-30`.
impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.civil();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_written_as_the_calendar_has_them() {
        for (seconds, day) in [
            (0, "1970-01-01"),
            (86_399, "1970-01-01"),
            (86_400, "1970-01-02"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_796_000_000, "2026-11-30"),
            (4_107_542_400, "2100-03-01"),
            (4_107_456_000, "2100-02-28"),
            (253_402_300_799, "9999-12-31"),
        ] {
            assert_eq!(
                Day::of_unix(seconds).map(|day| day.to_string()),
                Ok(day.to_owned())
            );
        }
    }

    #[test]
    fn days_outside_of_the_calendar_are_errors() {
        for seconds in [-1, i64::MIN, 253_402_300_800, i64::MAX] {
            assert_eq!(Day::of_unix(seconds), Err(InvalidTime::OutOfRange));
        }
    }
}
