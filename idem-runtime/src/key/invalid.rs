use std::fmt;

use super::MAX_KEY_BYTES;

/// Why a value cannot be the key of a message. Always permanent: a redelivery brings the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidKey {
    /// The key, or a part of it, is empty: every message without an id would be a duplicate of the first one.
    Empty {
        /// Which part, counted from 1.
        part: usize,
    },
    /// The stored form is longer than [`MAX_KEY_BYTES`].
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The key holds a NUL character, which PostgreSQL cannot store in text.
    Nul {
        /// Its byte offset within the part.
        at: usize,
    },
}

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty { part } => {
                match part {
                    1 => f.write_str("the message's key, or its first part, is empty")?,
                    part => write!(f, "part {part} of the message's key is empty")?,
                }
                f.write_str(", and all messages without an id would count as one; send the message to the dead letters, or key on a field that is always there")
            }
            Self::TooLong { bytes } => write!(
                f,
                "the message's key has {bytes} bytes and may have {MAX_KEY_BYTES}; it is never truncated or hashed, so key on a shorter field"
            ),
            Self::Nul { at } => write!(
                f,
                "the message's key holds a NUL character at byte {at}; if the id is binary, key on its bytes (`&[u8]`), which are stored in hexadecimal"
            ),
        }
    }
}

impl std::error::Error for InvalidKey {}
