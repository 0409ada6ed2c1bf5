use crate::InvalidValue;

/// A SHA-256, as it is stored.
pub(crate) type Bytes = [u8; 32];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest(pub(crate) Bytes);

/// Content whose identity can be checked: with the feature `fingerprint`, whatever is `Serialize`.
///
/// What is hashed is its JSON, without blanks and with the keys of objects sorted, so that neither the order of a map nor the layout of
/// a struct matters. The order of a list does, and a `HashSet` is a list in an order by chance: take a `BTreeSet`, or sort it. Two contents
/// with the same JSON are the same: a number is not its text, but `f32::NAN` is `null`.
#[cfg_attr(
    feature = "fingerprint",
    diagnostic::on_unimplemented(
        message = "`{Self}` cannot be part of a fingerprint",
        label = "the content of a fingerprint has to be `Serialize`",
        note = "name the fields that matter, as in `fingerprint = \"(event.amount, event.currency)\"`, or derive `serde::Serialize` for the type"
    )
)]
#[cfg_attr(
    not(feature = "fingerprint"),
    diagnostic::on_unimplemented(
        message = "a fingerprint needs the feature `fingerprint` of the crate `idem-sqlx`",
        label = "the feature is not enabled",
        note = "in Cargo.toml: `idem-sqlx = {{ version = \"..\", features = [\"fingerprint\"] }}`"
    )
)]
pub trait Fingerprint {
    /// The content as JSON.
    #[cfg(feature = "fingerprint")]
    #[doc(hidden)]
    fn json(&self) -> Result<serde_json::Value, InvalidValue>;
}

#[cfg(not(feature = "fingerprint"))]
impl Digest {
    /// Nothing has the trait.
    pub(crate) fn of(_: &(impl Fingerprint + ?Sized)) -> Result<Self, InvalidValue> {
        Err(InvalidValue::Encode {
            reason: "the feature `fingerprint` is not enabled".to_owned(),
        })
    }
}

#[cfg(feature = "fingerprint")]
mod enabled {
    use serde::Serialize;
    use serde_json::Value;
    use sha2::{Digest as _, Sha256};

    use super::{Digest, Fingerprint};
    use crate::InvalidValue;

    #[diagnostic::do_not_recommend]
    impl<T: Serialize + ?Sized> Fingerprint for T {
        fn json(&self) -> Result<Value, InvalidValue> {
            serde_json::to_value(self).map_err(|error| InvalidValue::Encode {
                reason: error.to_string(),
            })
        }
    }

    impl Digest {
        pub(crate) fn of(content: &(impl Fingerprint + ?Sized)) -> Result<Self, InvalidValue> {
            let mut text = String::new();
            write(&content.json()?, &mut text);
            Ok(Self(Sha256::digest(text).into()))
        }
    }

    /// Sorts the keys itself, since another crate may have turned on `preserve_order` of `serde_json`.
    fn write(value: &Value, text: &mut String) {
        match value {
            Value::Array(items) => {
                text.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    write(item, text);
                }
                text.push(']');
            }
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().collect();
                fields.sort_unstable_by_key(|(name, _)| *name);
                text.push('{');
                for (index, (name, field)) in fields.into_iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    text.push_str(&Value::from(name.as_str()).to_string());
                    text.push(':');
                    write(field, text);
                }
                text.push('}');
            }
            simple => text.push_str(&simple.to_string()),
        }
    }

    #[cfg(test)]
    #[allow(clippy::expect_used, reason = "a test that cannot go on fails")]
    mod tests {
        use std::collections::{BTreeMap, HashMap};

        use super::*;

        fn text(content: impl Serialize) -> String {
            let mut text = String::new();
            write(&content.json().expect("JSON"), &mut text);
            text
        }

        #[test]
        fn the_form_is_canonical() {
            #[derive(Serialize)]
            struct Zeros {
                b: u8,
                a: Option<f64>,
            }
            assert_eq!(text(Zeros { b: 1, a: None }), r#"{"a":null,"b":1}"#);
            assert_eq!(text((1, "a\"b", [1.5, 2.0])), r#"[1,"a\"b",[1.5,2.0]]"#);
            let names = ["one", "two", "three", "four", "five"];
            let hashed: HashMap<_, _> = names.into_iter().zip(0..).collect();
            let sorted: BTreeMap<_, _> = names.into_iter().zip(0..).collect();
            assert_eq!(text(hashed), text(sorted));
            assert_ne!(text("1"), text(1));
            assert_ne!(text(("a", "bc")), text(("ab", "c")));
        }

        /// Stored by one version of the library and compared by another: it must never change.
        #[test]
        fn the_digest_is_stable() {
            let Digest(bytes) = Digest::of(&(100, "EUR")).expect("JSON");
            // printf '[100,"EUR"]' | sha256sum
            let expected = [
                0x32, 0x80, 0x58, 0x55, 0x21, 0xf3, 0x9d, 0x01, 0xaa, 0x16, 0xdb, 0xde, 0x81, 0x1d,
                0xaa, 0xab, 0x72, 0x75, 0x7b, 0xf9, 0xa6, 0x36, 0xbd, 0x1f, 0x1a, 0xbf, 0x6a, 0xcd,
                0x20, 0xe6, 0xc2, 0xbb,
            ];
            assert_eq!(bytes, expected);
        }
    }
}
