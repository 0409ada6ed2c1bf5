use super::{EncodedKey, InvalidKey, Key};

/// A [`Key`], or an `Option` of one, for producers that give no id. Only beside a business key, which then identifies the message.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the key of a message",
    label = "this key is a `{Self}`; beside a business key it is a `Key` or an `Option` of one",
    note = "a key is a string, an integer, a `Uuid` (feature `uuid`), bytes, or a tuple of these; name the field that identifies the message, as in `key = \"event.id\"`"
)]
pub trait OptionalKey {
    /// The key as it is stored, if there is one.
    #[doc(hidden)]
    fn encode(&self) -> Result<Option<EncodedKey>, InvalidKey>;
}

#[diagnostic::do_not_recommend]
impl<K: Key + ?Sized> OptionalKey for K {
    fn encode(&self) -> Result<Option<EncodedKey>, InvalidKey> {
        EncodedKey::new(self).map(Some)
    }
}

#[diagnostic::do_not_recommend]
impl<K: Key> OptionalKey for Option<K> {
    fn encode(&self) -> Result<Option<EncodedKey>, InvalidKey> {
        self.as_ref().map(EncodedKey::new).transpose()
    }
}

#[diagnostic::do_not_recommend]
impl<K: Key> OptionalKey for &Option<K> {
    fn encode(&self) -> Result<Option<EncodedKey>, InvalidKey> {
        (*self).encode()
    }
}
