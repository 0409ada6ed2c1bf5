use crate::consumer;
use crate::fingerprint::Digest;
use crate::key::EncodedKey;
use crate::time::Day;
use crate::version::ClaimedVersion;
use crate::{
    Error, InFlight, InvalidConsumer, InvalidKey, InvalidTime, InvalidValue, InvalidVersion,
    Isolation,
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
    /// The day of the message, if its claim goes into the table by days.
    pub(crate) day: Option<Day>,
    /// Whether that claim is made in the plain table too.
    pub(crate) from_plain: bool,
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
            day: None,
            from_plain: false,
            replays: false,
            in_flight: InFlight::Wait,
            isolation: None,
        })
    }

    pub(crate) fn places(&self) -> Places<'_> {
        let by_day = self.day.zip(self.key.as_ref());
        let is_plain = by_day.is_none() || self.from_plain;
        let key = self.key.as_ref().filter(|_| is_plain);
        let mut plain: Vec<&str> = [key, self.business_key.as_ref()]
            .into_iter()
            .flatten()
            .map(EncodedKey::as_str)
            .collect();
        plain.sort_unstable();
        Places {
            plain,
            by_day: by_day.map(|(day, key)| (key.as_str(), day)),
        }
    }

    /// The claims that can hold a value: a version's row is of all messages of its key.
    pub(crate) fn places_with_value(&self) -> Places<'_> {
        match self.version {
            Some(_) => Places::default(),
            None => self.places(),
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
        if self.from_plain && self.day.is_none() {
            return Err(Error::Combination(
                "`from_plain` is for claims that move to the table by days, whose day the message's `time` gives",
            ));
        }
        if self.version.is_none() {
            return Ok(());
        }
        let with = if self.day.is_some() {
            "a version's row is of all messages of its key, and so of no one day"
        } else if self.business_key.is_some() {
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

/// Where the claims of one delivery are. Every delivery makes those of the plain table first, and these in the order in which they stand
/// here, so that no two wait for each other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places<'a> {
    /// The keys in the plain table.
    pub(crate) plain: Vec<&'a str>,
    pub(crate) by_day: Option<(&'a str, Day)>,
}

impl Places<'_> {
    pub(crate) fn count(&self) -> usize {
        self.plain.len() + usize::from(self.by_day.is_some())
    }
}

/// A message of a batch, checked.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) key: EncodedKey,
    pub(crate) fingerprint: Option<Digest>,
    pub(crate) day: Option<Day>,
}

/// What a batch claims, checked.
#[derive(Debug, Clone)]
pub(crate) struct BatchTerms<'a> {
    pub(crate) consumer: &'a str,
    /// In their order in the batch.
    pub(crate) messages: Vec<Message>,
    /// Whether claims by the day are made in the plain table too.
    pub(crate) from_plain: bool,
    pub(crate) in_flight: InFlight,
    pub(crate) isolation: Option<Isolation>,
}

impl BatchTerms<'_> {
    /// What names the batch to people.
    pub(crate) fn name(&self) -> String {
        let first = self.messages.first();
        let first = first.map_or("", |message| message.key.as_str());
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
    Time(InvalidTime),
    Combination(&'static str),
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        match invalid {
            Invalid::Key(error) => Error::InvalidKey(error),
            Invalid::Consumer(error) => Error::InvalidConsumer(error),
            Invalid::Version(error) => Error::InvalidVersion(error),
            Invalid::Value(error) => Error::InvalidValue(error),
            Invalid::Time(error) => Error::InvalidTime(error),
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
    InvalidTime Time
}
