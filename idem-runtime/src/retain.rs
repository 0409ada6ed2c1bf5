use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How long claims are kept: the retention window. It must exceed the redelivery window, since a message that is redelivered after its
/// claim is gone runs a second time.
///
/// As a text it is a duration with units, or `forever`:
///
/// ```
/// # extern crate idem_runtime as idem;
/// use std::time::Duration;
/// use idem::Retain;
///
/// assert_eq!("7d".parse(), Ok(Retain::For(Duration::from_hours(7 * 24))));
/// assert_eq!(Retain::For(Duration::from_hours(36)).to_string(), "1d12h");
/// assert_eq!("forever".parse(), Ok(Retain::Forever));
/// assert!("7 days".parse::<Retain>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retain {
    /// So long after they were made, by the database's clock.
    For(Duration),
    /// They are never pruned.
    Forever,
}

impl Retain {
    /// For the attribute, which has parsed the duration.
    #[doc(hidden)]
    #[must_use]
    pub const fn for_ms(milliseconds: u64) -> Self {
        Self::For(Duration::from_millis(milliseconds))
    }

    /// Whether what the broker redelivers within this window still finds its claim.
    #[must_use]
    pub fn exceeds(self, redelivery: Duration) -> bool {
        match self {
            Self::For(retain) => retain > redelivery,
            Self::Forever => true,
        }
    }

    pub(crate) fn longer(self, other: Self) -> Self {
        match (self, other) {
            (Self::For(one), Self::For(other)) => Self::For(one.max(other)),
            _ => Self::Forever,
        }
    }

    /// In seconds, unless it has no end.
    pub(crate) fn seconds(self) -> Option<f64> {
        match self {
            Self::For(retain) => Some(retain.as_secs_f64()),
            Self::Forever => None,
        }
    }
}

impl From<Duration> for Retain {
    fn from(retain: Duration) -> Self {
        Self::For(retain)
    }
}

impl fmt::Display for Retain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::For(retain) => f.write_str(&idem_duration::write(*retain)),
            Self::Forever => f.write_str("forever"),
        }
    }
}

impl FromStr for Retain {
    type Err = InvalidRetain;

    fn from_str(text: &str) -> Result<Self, InvalidRetain> {
        if text == "forever" {
            return Ok(Self::Forever);
        }
        let window =
            idem_duration::parse(text).map_err(|fault| InvalidRetain(fault.to_string()))?;
        if window.is_zero() {
            return Err(InvalidRetain(format!(
                "`{text}` keeps no claim at all, so that every redelivery would run"
            )));
        }
        Ok(Self::For(window))
    }
}

/// Why a text is no retention window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidRetain(String);

impl fmt::Display for InvalidRetain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; write `7d`, `36h` or `forever`", self.0)
    }
}

impl std::error::Error for InvalidRetain {}
