use crate::value::InvalidValue;

/// A value that can be stored with the claim, as JSON, and given back to duplicates: with the feature `replay`, whatever is
/// `Serialize` and `DeserializeOwned`.
///
/// It comes back as it was, floats to the last digit; only what JSON does not tell apart does not: `Some(None)` comes back as `None`. A value that
/// could not come back is refused before anything is applied. The JSON may have [`MAX_VALUE_BYTES`](crate::MAX_VALUE_BYTES). It outlives the program that wrote it: when the type changes, let it accept its
/// earlier form. A stored value that no longer decodes is a permanent error, and never a second run.
#[cfg_attr(
    feature = "replay",
    diagnostic::on_unimplemented(
        message = "`{Self}` cannot be stored and given back to duplicates",
        label = "with `replay`, the handler's value has to be `Serialize` and `DeserializeOwned`",
        note = "derive both: `#[derive(serde::Serialize, serde::Deserialize)]`; a value that borrows, such as `&str`, cannot be given back: return its owned form"
    )
)]
#[cfg_attr(
    not(feature = "replay"),
    diagnostic::on_unimplemented(
        message = "`replay` needs the feature `replay` of the crate `idem-sqlx`",
        label = "the feature is not enabled",
        note = "in Cargo.toml: `idem-sqlx = {{ version = \"..\", features = [\"replay\"] }}`"
    )
)]
pub trait Replay: Sized {
    /// Its JSON.
    #[doc(hidden)]
    fn encode(&self) -> Result<String, InvalidValue>;

    /// From its JSON.
    #[doc(hidden)]
    fn decode(json: &str) -> Result<Self, InvalidValue>;
}

#[cfg(feature = "replay")]
mod enabled {
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use super::Replay;
    use crate::value::{InvalidValue, MAX_VALUE_BYTES};

    #[diagnostic::do_not_recommend]
    impl<T: Serialize + DeserializeOwned> Replay for T {
        fn encode(&self) -> Result<String, InvalidValue> {
            let json = serde_json::to_string(self).map_err(|error| InvalidValue::Encode {
                reason: error.to_string(),
            })?;
            if json.len() > MAX_VALUE_BYTES {
                return Err(InvalidValue::TooLong { bytes: json.len() });
            }
            // Found now, nothing is lost; found by a duplicate, the value would be.
            serde_json::from_str::<Self>(&json).map_err(|error| InvalidValue::Unreadable {
                type_name: std::any::type_name::<T>(),
                reason: error.to_string(),
            })?;
            Ok(json)
        }

        fn decode(json: &str) -> Result<Self, InvalidValue> {
            serde_json::from_str(json).map_err(|error| InvalidValue::Decode {
                type_name: std::any::type_name::<T>(),
                reason: error.to_string(),
            })
        }
    }
}
