//! The time of a message, which decides the day under which its claim is kept.

mod day;
mod of_id;

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

pub use day::Day;

/// When a message came into being, by its producer. It must be the same in all deliveries of the message: a time of arrival, or one that a
/// retrying producer writes anew, puts the redelivery into another day, where it is not recognised.
///
/// Only the day (in UTC) counts. [`SystemTime`], `chrono::DateTime` (feature `chrono`) and `time::OffsetDateTime` (feature `time`) are
/// times; an id that was made from the time gives it too: a UUIDv7 (as `Uuid` with the feature `uuid`, or as text) and a ULID (as text).
///
/// # Your own type
///
/// ```
/// # extern crate idem_runtime as idem;
/// use idem::{Day, InvalidTime, Time};
///
/// struct UnixMillis(i64);
///
/// impl Time for UnixMillis {
///     fn day(&self) -> Result<Day, InvalidTime> {
///         Day::of_unix(self.0.div_euclid(1000))
///     }
/// }
///
/// assert_eq!(UnixMillis(1_796_000_000_000).day().unwrap().to_string(), "2026-11-30");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say when the message came into being",
    label = "a time is a `SystemTime`, a `chrono::DateTime`, a `time::OffsetDateTime`, or an id that holds one (UUIDv7, ULID)",
    note = "for an `Option`, decide before the handler what becomes of a message without a time; the time of its arrival is none, since it differs in each delivery",
    note = "`chrono`, `time` and `uuid` are features of the crate `idem-sqlx`",
    note = "an integer does not say its unit: make it a time first, as in `time = \"UNIX_EPOCH + Duration::from_millis(event.created_ms)\"`"
)]
pub trait Time {
    /// The day, in UTC.
    ///
    /// # Errors
    ///
    /// [`InvalidTime`] if there is no time in it, or one that no calendar has.
    fn day(&self) -> Result<Day, InvalidTime>;
}

/// Why a message has no usable time. Always permanent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidTime {
    /// The text, or the `Uuid`, is none that was made from a time.
    NoTime,
    /// It is before 1970 or after 9999.
    OutOfRange,
}

impl fmt::Display for InvalidTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoTime => {
                "the message's `time` is an id without a time in it: of the ids, a UUIDv7 or a ULID holds one; take the producer's time stamp instead"
            }
            Self::OutOfRange => {
                "the message's `time` is before 1970 or after 9999; check its unit, or send the message to the dead letters"
            }
        })
    }
}

impl std::error::Error for InvalidTime {}

#[diagnostic::do_not_recommend]
impl Time for SystemTime {
    fn day(&self) -> Result<Day, InvalidTime> {
        let since = self
            .duration_since(UNIX_EPOCH)
            .map_err(|_| InvalidTime::OutOfRange)?;
        Day::of_unix(i64::try_from(since.as_secs()).map_err(|_| InvalidTime::OutOfRange)?)
    }
}

#[diagnostic::do_not_recommend]
impl Time for str {
    fn day(&self) -> Result<Day, InvalidTime> {
        of_id::of_text(self)
    }
}

#[diagnostic::do_not_recommend]
impl Time for String {
    fn day(&self) -> Result<Day, InvalidTime> {
        of_id::of_text(self)
    }
}

#[cfg(feature = "uuid")]
#[diagnostic::do_not_recommend]
impl Time for uuid::Uuid {
    fn day(&self) -> Result<Day, InvalidTime> {
        of_id::of_uuid(self.as_u128())
    }
}

#[cfg(feature = "chrono")]
#[diagnostic::do_not_recommend]
impl<Tz: chrono::TimeZone> Time for chrono::DateTime<Tz> {
    fn day(&self) -> Result<Day, InvalidTime> {
        Day::of_unix(self.timestamp())
    }
}

#[cfg(feature = "time")]
#[diagnostic::do_not_recommend]
impl Time for time::OffsetDateTime {
    fn day(&self) -> Result<Day, InvalidTime> {
        Day::of_unix(self.unix_timestamp())
    }
}

#[diagnostic::do_not_recommend]
impl Time for Day {
    fn day(&self) -> Result<Day, InvalidTime> {
        Ok(*self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Time + ?Sized> Time for &T {
    fn day(&self) -> Result<Day, InvalidTime> {
        T::day(self)
    }
}
