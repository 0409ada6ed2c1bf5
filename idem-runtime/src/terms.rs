use crate::consumer;
use crate::fingerprint::Digest;
use crate::key::EncodedKey;
use crate::version::ClaimedVersion;
use crate::{
    Error, InFlight, InvalidConsumer, InvalidKey, InvalidValue, InvalidVersion, Isolation,
};

/// What a delivery claims, checked.
#[derive(Debug, Clone)]
pub(crate) struct Terms<'a> {
    pub(crate) consumer: &'a str,
    /// The message's key. Only beside a business key may there be none.
    pub(crate) key: Option<EncodedKey>,
    pub(crate) business_key: Option<EncodedKey>,
    pub(crate) fingerprint: Option<Digest>,
    pub(crate) version: Option<ClaimedVersion>,
    pub(crate) replays: bool,
    pub(crate) in_flight: InFlight,
    pub(crate) isolation: Option<Isolation>,
}

impl<'a> Terms<'a> {
    pub(crate) fn new(consumer: &'a str, key: Option<EncodedKey>) -> Result<Self, Invalid> {
        consumer::check(consumer)?;
        Ok(Self {
            consumer,
            key,
            business_key: None,
            fingerprint: None,
            version: None,
            replays: false,
            in_flight: InFlight::Wait,
            isolation: None,
        })
    }

    /// What the keys are stored as, in the order in which every delivery claims them, so that no two wait for each other.
    pub(crate) fn stored_keys(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = [&self.key, &self.business_key]
            .into_iter()
            .flatten()
            .map(EncodedKey::as_str)
            .collect();
        keys.sort_unstable();
        keys
    }

    /// The claims that can hold a value: a version's row is of all messages of its key.
    pub(crate) fn keys_with_value(&self) -> Vec<&str> {
        match self.version {
            Some(_) => Vec::new(),
            None => self.stored_keys(),
        }
    }

    /// What names the message to people.
    pub(crate) fn name(&self) -> &str {
        match (&self.key, &self.business_key) {
            (Some(key), _) => key.as_str(),
            (None, Some(key)) => key.unmarked(),
            (None, None) => "",
        }
    }

    /// The attribute refuses these at compile time.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.version.is_none() {
            return Ok(());
        }
        let with = if self.business_key.is_some() {
            "a version goes with one key, the aggregate's, and not with a business key"
        } else if self.fingerprint.is_some() {
            "a version's row is of all messages of its key, and has no place for the fingerprint of one"
        } else if self.replays {
            "a version's row is of all messages of its key, and has no place for the value of one"
        } else {
            return Ok(());
        };
        Err(Error::Combination(with))
    }
}

/// What a batch claims, checked.
#[derive(Debug, Clone)]
pub(crate) struct BatchTerms<'a> {
    pub(crate) consumer: &'a str,
    /// In their order in the batch.
    pub(crate) messages: Vec<(EncodedKey, Option<Digest>)>,
    pub(crate) in_flight: InFlight,
    pub(crate) isolation: Option<Isolation>,
}

impl BatchTerms<'_> {
    /// What names the batch to people.
    pub(crate) fn name(&self) -> String {
        let first = self.messages.first().map_or("", |(key, _)| key.as_str());
        match self.messages.len() {
            0 | 1 => first.to_owned(),
            more => format!("{first} and {} more", more - 1),
        }
    }
}

/// Why the terms of a delivery cannot be met. As an [`Error`] it cannot be cloned, which a delivery that runs again needs.
#[derive(Debug, Clone)]
pub(crate) enum Invalid {
    Key(InvalidKey),
    Consumer(InvalidConsumer),
    Version(InvalidVersion),
    Value(InvalidValue),
    Combination(&'static str),
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        match invalid {
            Invalid::Key(error) => Error::InvalidKey(error),
            Invalid::Consumer(error) => Error::InvalidConsumer(error),
            Invalid::Version(error) => Error::InvalidVersion(error),
            Invalid::Value(error) => Error::InvalidValue(error),
            Invalid::Combination(text) => Error::Combination(text),
        }
    }
}

macro_rules! from {
    ($($error:ident $variant:ident)*) => {$(
        impl From<$error> for Invalid {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        }
    )*};
}

from! {
    InvalidKey Key
    InvalidConsumer Consumer
    InvalidVersion Version
    InvalidValue Value
}
