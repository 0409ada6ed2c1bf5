use std::fmt;

/// A number that rises with each change of what the key names: an aggregate's version, a sequence number, a time stamp as an integer.
///
/// Integers are versions; they are stored as 64 bits with sign.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the version of a message",
    label = "a version is an integer that rises with each change",
    note = "for a time stamp take its integer form, as in `version = \"event.time.timestamp_micros()\"`; a text or a float has no safe order"
)]
pub trait Version {
    /// The number.
    ///
    /// # Errors
    ///
    /// [`InvalidVersion::TooGreat`] for numbers beyond [`i64`].
    fn number(&self) -> Result<i64, InvalidVersion>;
}

/// Why a number cannot be the version of a message. Always permanent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidVersion {
    /// It does not fit into 64 bits with sign, the integer that all databases have.
    TooGreat,
    /// Without gaps, it is before the first one.
    BeforeFirst {
        /// The message's.
        version: i64,
        /// The first, as the handler says.
        first: i64,
    },
}

impl fmt::Display for InvalidVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooGreat => write!(
                f,
                "the message's version is beyond {}, the greatest integer that the databases store; send the message to the dead letters, or take a smaller number for its version",
                i64::MAX
            ),
            Self::BeforeFirst { version, first } => write!(
                f,
                "the message's version is {version}, and versions without gaps start at {first} here; if the producer counts from {version}, write `gapless = {version}`"
            ),
        }
    }
}

impl std::error::Error for InvalidVersion {}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl Version for $integer {
            fn number(&self) -> Result<i64, InvalidVersion> {
                i64::try_from(*self).map_err(|_| InvalidVersion::TooGreat)
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

#[diagnostic::do_not_recommend]
impl<V: Version + ?Sized> Version for &V {
    fn number(&self) -> Result<i64, InvalidVersion> {
        V::number(self)
    }
}

/// A version that a delivery claims.
#[derive(Debug, Clone, Copy)]
pub struct ClaimedVersion {
    pub(crate) number: i64,
    /// Without gaps, from this first version on.
    pub(crate) gapless_from: Option<i64>,
}

#[cfg_attr(
    not(all(feature = "postgres", feature = "mysql", feature = "sqlite")),
    allow(dead_code, reason = "each database uses some of it")
)]
impl ClaimedVersion {
    /// What a missing version counts as.
    pub(crate) fn floor(self) -> i64 {
        self.gapless_from
            .map_or(i64::MIN, |first| first.saturating_sub(1))
    }

    /// The lowest stored version that this one may follow.
    pub(crate) fn lowest(self) -> i64 {
        match self.gapless_from {
            Some(_) => self.number.saturating_sub(1),
            None => i64::MIN,
        }
    }

    /// Whether it may be the first one of its key.
    pub(crate) fn may_be_first(self) -> bool {
        self.gapless_from.is_none_or(|first| first == self.number)
    }
}
