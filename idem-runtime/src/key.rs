use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// The longest key as it is stored, in bytes. See [`MAX_CONSUMER_BYTES`](crate::MAX_CONSUMER_BYTES) for where the limit comes from.
pub const MAX_KEY_BYTES: usize = 1024;

/// What is equal in all deliveries of one message and differs between messages.
///
/// Strings, integers, `Uuid` (feature `uuid`), bytes, [`KafkaKey`], references to keys and tuples of keys are keys. Two deliveries are
/// the same message if and only if their keys are byte for byte equal: nothing is trimmed, folded, truncated or hashed.
///
/// What is stored reads like the key: a string stands as it is, an integer in decimal, bytes in lower-case hexadecimal, and the parts
/// of a tuple are joined with `|`. Within a part `|` and `\` are escaped with `\`, so that different keys are never stored alike:
/// `("a", "bc")` is `a|bc`, `("ab", "c")` is `ab|c`, and the single string `"a|bc"` is `a\|bc`.
///
/// Types whose equality is not their identity, or that are easily missing, are refused at compile time: floats, `bool`, `()`,
/// `Option`. A hash of the payload is not a key either: two messages may well have equal payloads.
///
/// # Your own type
///
/// A newtype passes on what it wraps:
///
/// ```
/// # extern crate idem_runtime as idem;
/// use idem::{Key, KeyWriter};
///
/// struct OrderId(u64);
///
/// impl Key for OrderId {
///     fn write(&self, key: &mut KeyWriter) {
///         self.0.write(key);
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the key of a message",
    label = "this key is a `{Self}`; a key is a string, an integer, a `Uuid` (feature `uuid`), bytes, or a tuple of these",
    note = "a struct: name the field that identifies the message, as in `key = \"event.id\"`, or implement `idem::Key` for a newtype around an id",
    note = "`Option`: a message without an id would be the same message as every other one without an id; decide what identifies it, refuse it before the handler, or let a `business_key` stand beside it",
    note = "floats, `bool` and `()` do not identify a message: many messages share a value, or equal values differ in their bits"
)]
pub trait Key {
    /// Writes the parts that make up the key, in a fixed order and number: one [`KeyWriter::part`] for a simple key.
    fn write(&self, key: &mut KeyWriter);
}

/// Collects the parts of a [`Key`].
#[derive(Debug, Default)]
pub struct KeyWriter {
    text: String,
    bytes: usize,
    parts: usize,
    fault: Option<InvalidKey>,
}

impl KeyWriter {
    /// Adds one part. An empty part, or one that holds a NUL, makes the key an [`InvalidKey`].
    pub fn part(&mut self, part: &str) {
        self.parts += 1;
        if part.is_empty() {
            self.fail(InvalidKey::Empty { part: self.parts });
        }
        if let Some(at) = part.find('\0') {
            self.fail(InvalidKey::Nul { at });
        }
        if self.parts > 1 {
            self.push('|');
        }
        for c in part.chars() {
            if c == '|' || c == '\\' {
                self.push('\\');
            }
            self.push(c);
        }
    }

    fn push(&mut self, c: char) {
        self.bytes += c.len_utf8();
        // A key of megabytes is counted, for the message, but not copied.
        if self.bytes <= MAX_KEY_BYTES {
            self.text.push(c);
        }
    }

    fn fail(&mut self, fault: InvalidKey) {
        self.fault.get_or_insert(fault);
    }

    fn finish(self) -> Result<EncodedKey, InvalidKey> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if self.parts == 0 {
            return Err(InvalidKey::Empty { part: 1 });
        }
        if self.bytes > MAX_KEY_BYTES {
            return Err(InvalidKey::TooLong { bytes: self.bytes });
        }
        Ok(EncodedKey(self.text))
    }
}

/// A key that passed its checks, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(hidden)]
pub struct EncodedKey(String);

/// Stands before a business key. No message's key begins with it, since no part is empty and within a part it is escaped.
const BUSINESS: char = '|';

impl EncodedKey {
    pub(crate) fn new<K: Key + ?Sized>(key: &K) -> Result<Self, InvalidKey> {
        let mut writer = KeyWriter::default();
        key.write(&mut writer);
        writer.finish()
    }

    /// A business key, in its own space of the same column.
    pub(crate) fn business<K: Key + ?Sized>(key: &K) -> Result<Self, InvalidKey> {
        let Self(key) = Self::new(key)?;
        if key.len() + BUSINESS.len_utf8() > MAX_KEY_BYTES {
            return Err(InvalidKey::TooLong {
                bytes: key.len() + BUSINESS.len_utf8(),
            });
        }
        Ok(Self(format!("{BUSINESS}{key}")))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Without the mark of a business key.
    pub(crate) fn unmarked(&self) -> &str {
        self.0.strip_prefix(BUSINESS).unwrap_or(&self.0)
    }
}

/// The position of a record in Kafka, for producers that give no id of their own. Stable across redeliveries, but a record that the
/// producer sent twice has two positions: prefer the producer's id wherever there is one.
///
/// The topic must keep its name and must not be deleted and created anew, since its offsets would start again.
///
/// ```
/// # extern crate idem_runtime as idem;
/// # use idem::KafkaKey;
/// let key = KafkaKey { topic: "orders", partition: 3, offset: 1042 };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KafkaKey<'a> {
    /// The topic's name.
    pub topic: &'a str,
    /// The partition within the topic.
    pub partition: i32,
    /// The record's offset within the partition.
    pub offset: i64,
}

// Without `do_not_recommend`, rustc lists eight of these types at random under every complaint; the trait's own text says it better.
#[diagnostic::do_not_recommend]
impl Key for KafkaKey<'_> {
    fn write(&self, key: &mut KeyWriter) {
        (self.topic, self.partition, self.offset).write(key);
    }
}

#[diagnostic::do_not_recommend]
impl Key for str {
    fn write(&self, key: &mut KeyWriter) {
        key.part(self);
    }
}

#[diagnostic::do_not_recommend]
impl Key for String {
    fn write(&self, key: &mut KeyWriter) {
        key.part(self);
    }
}

#[diagnostic::do_not_recommend]
impl Key for [u8] {
    fn write(&self, key: &mut KeyWriter) {
        key.part(&hex(self));
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

#[diagnostic::do_not_recommend]
impl<const N: usize> Key for [u8; N] {
    fn write(&self, key: &mut KeyWriter) {
        self.as_slice().write(key);
    }
}

#[diagnostic::do_not_recommend]
impl Key for Vec<u8> {
    fn write(&self, key: &mut KeyWriter) {
        self.as_slice().write(key);
    }
}

#[cfg(feature = "uuid")]
#[diagnostic::do_not_recommend]
impl Key for uuid::Uuid {
    fn write(&self, key: &mut KeyWriter) {
        key.part(
            self.hyphenated()
                .encode_lower(&mut uuid::Uuid::encode_buffer()),
        );
    }
}

#[diagnostic::do_not_recommend]
impl<B: ToOwned + Key + ?Sized> Key for Cow<'_, B> {
    fn write(&self, key: &mut KeyWriter) {
        B::write(self, key);
    }
}

macro_rules! pointers {
    ($($pointer:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl<K: Key + ?Sized> Key for $pointer {
            fn write(&self, key: &mut KeyWriter) {
                K::write(self, key);
            }
        }
    )*};
}

pointers!(&K, &mut K, Box<K>, Rc<K>, Arc<K>);

macro_rules! integers {
    ($($integer:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl Key for $integer {
            fn write(&self, key: &mut KeyWriter) {
                key.part(&self.to_string());
            }
        }
    )*};
}

integers!(
    i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize
);

macro_rules! tuples {
    ($(($($part:ident)+))+) => {$(
        #[diagnostic::do_not_recommend]
        impl<$($part: Key),+> Key for ($($part,)+) {
            fn write(&self, key: &mut KeyWriter) {
                #[allow(non_snake_case, reason = "the names of the type parameters serve as names of the fields")]
                let ($($part,)+) = self;
                $($part.write(key);)+
            }
        }
    )+};
}

tuples! {
    (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H)
}

mod invalid;
mod optional;
pub use invalid::InvalidKey;
pub use optional::OptionalKey;

#[cfg(test)]
mod tests;
