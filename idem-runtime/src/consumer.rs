use std::fmt;

/// The longest name of a consumer, in bytes. Together with [`MAX_KEY_BYTES`](crate::MAX_KEY_BYTES) it fits the index entry of every
/// database (PostgreSQL takes 2704 bytes, InnoDB 3072).
pub const MAX_CONSUMER_BYTES: usize = 255;

/// Why a string cannot be the name of a consumer.
///
/// The attribute finds these at compile time; [`claim`](crate::claim) and [`once`](crate::once) return them before they take a
/// connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidConsumer {
    /// The name is empty.
    Empty,
    /// The name is longer than [`MAX_CONSUMER_BYTES`].
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The name holds white space or a control character, which two places easily write differently.
    Character {
        /// The character.
        found: char,
    },
}

impl fmt::Display for InvalidConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str(
                "the consumer's name is empty; name the handler's once-only scope, for example \"billing\"",
            ),
            Self::TooLong { bytes } => write!(
                f,
                "the consumer's name has {bytes} bytes and may have {MAX_CONSUMER_BYTES}; choose a shorter one"
            ),
            Self::Character { found } => write!(
                f,
                "the consumer's name holds {found:?}; use letters, digits and punctuation without blanks or control characters, for example \"billing\" or \"orders.email\""
            ),
        }
    }
}

impl std::error::Error for InvalidConsumer {}

pub(crate) fn check(consumer: &str) -> Result<(), InvalidConsumer> {
    if consumer.is_empty() {
        return Err(InvalidConsumer::Empty);
    }
    if consumer.len() > MAX_CONSUMER_BYTES {
        return Err(InvalidConsumer::TooLong {
            bytes: consumer.len(),
        });
    }
    match consumer
        .chars()
        .find(|c| c.is_whitespace() || c.is_control())
    {
        Some(found) => Err(InvalidConsumer::Character { found }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        assert_eq!(check("billing"), Ok(()));
        assert_eq!(check("rechnungen/größe"), Ok(()));
        assert_eq!(check(&"x".repeat(MAX_CONSUMER_BYTES)), Ok(()));
        assert_eq!(check(""), Err(InvalidConsumer::Empty));
        assert_eq!(
            check(&"x".repeat(MAX_CONSUMER_BYTES + 1)),
            Err(InvalidConsumer::TooLong { bytes: 256 })
        );
        for found in [' ', '\n', '\0', '\u{a0}'] {
            assert_eq!(
                check(&format!("a{found}b")),
                Err(InvalidConsumer::Character { found })
            );
        }
    }
}
