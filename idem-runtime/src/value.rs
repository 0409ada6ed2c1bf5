use std::fmt;

/// The value that an earlier delivery stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredValue(pub(crate) String);

impl StoredValue {
    /// The value.
    ///
    /// # Errors
    ///
    /// [`InvalidValue::Decode`] if it is no `T`; the message is processed all the same.
    pub fn decode<T: crate::Replay>(&self) -> Result<T, crate::Error> {
        Ok(T::decode(&self.0)?)
    }

    /// Its JSON.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.0
    }
}

/// The longest value that `replay` stores, in bytes of its JSON. A value is read by every duplicate; larger results belong into a table of
/// yours, with their key as the value.
pub const MAX_VALUE_BYTES: usize = 65_536;

/// Why a value cannot be stored or given back. Always permanent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidValue {
    /// The handler's value, or the content of a fingerprint, cannot be written as JSON. Nothing was applied.
    Encode {
        /// What serde says.
        reason: String,
    },
    /// The JSON of the handler's value is longer than [`MAX_VALUE_BYTES`]. Nothing was applied.
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The handler's value becomes JSON that does not become a value again: a float that is not finite, values nested more than 128 deep, a
    /// `Serialize` that says otherwise than its `Deserialize`. Nothing was applied.
    Unreadable {
        /// The type of the value.
        type_name: &'static str,
        /// What serde says.
        reason: String,
    },
    /// What an earlier delivery stored is no such value, most likely since the type has changed. The handler does not run again: the
    /// message is processed.
    Decode {
        /// The type that it was to become.
        type_name: &'static str,
        /// What serde says.
        reason: String,
    },
}

impl fmt::Display for InvalidValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encode { reason } => write!(
                f,
                "the value cannot be written as JSON ({reason}), so nothing was applied; give maps string keys and the type a working `Serialize`"
            ),
            Self::TooLong { bytes } => write!(
                f,
                "the handler's value has {bytes} bytes as JSON and may have {MAX_VALUE_BYTES}, so nothing was applied; return an id, and keep the rest in a table of yours"
            ),
            Self::Unreadable { type_name, reason } => write!(
                f,
                "a duplicate could not be given the handler's value back, since its JSON is no `{type_name}` ({reason}), so nothing was applied; JSON has no NaN, no infinity and 128 levels, and the type's `Serialize` and `Deserialize` have to agree"
            ),
            Self::Decode { type_name, reason } => write!(
                f,
                "the message is processed, but the value stored for it is no `{type_name}` ({reason}); let the type accept its earlier form, for example by `#[serde(default)]` on new fields"
            ),
        }
    }
}

impl std::error::Error for InvalidValue {}
