//! What the attribute's expansion calls. Not for use by hand: it changes without notice.

mod begin;
mod finish;
mod handler;
mod run;

pub use core::option::Option;
pub use core::result::Result;
pub use core::{file, line, module_path};

pub use inventory::submit;

pub use crate::__register as register;

use sqlx::Pool;

use crate::backend::Backend;
use crate::key::EncodedKey;
use crate::value::InvalidValue;
use crate::{Day, Time};
use crate::{InvalidKey, InvalidTime, InvalidVersion, Key, KeyWriter, OptionalKey, Version};

pub use crate::deliveries::Deliveries;
pub use crate::delivery::Delivery;
pub use crate::handlers::Handler;
pub use crate::in_flight::InFlight;
pub use crate::isolation::Isolation;
pub use crate::outcome::{BatchOutcome, Outcome};
pub use crate::retain::Retain;
pub use crate::source::Source;
pub use begin::*;
pub use handler::*;
pub use run::*;

// By these names the expansion asks for the feature of a database: without it, rustc itself says which feature to enable.
#[cfg(feature = "mysql")]
pub use sqlx::MySql;
#[cfg(feature = "postgres")]
pub use sqlx::Postgres;
#[cfg(feature = "sqlite")]
pub use sqlx::Sqlite;

/// A key, or one part of a composite one. It is a key whatever `K` is, so that the bound is asked of [`key`] and [`part`] alone, and on
/// the user's tokens.
pub struct Part<'k, K: ?Sized> {
    key: &'k K,
    write: fn(&K, &mut KeyWriter),
}

/// The key. A plain function, so that a type that is no key is reported once.
#[inline]
#[must_use]
pub fn key<K: Key + ?Sized>(key: &K) -> Part<'_, K> {
    part(key)
}

/// A part of a composite key.
#[inline]
#[must_use]
pub fn part<K: Key + ?Sized>(key: &K) -> Part<'_, K> {
    Part {
        key,
        write: K::write,
    }
}

#[diagnostic::do_not_recommend]
impl<K: ?Sized> Key for Part<'_, K> {
    fn write(&self, key: &mut KeyWriter) {
        (self.write)(self.key, key);
    }
}

/// A key that may be missing, for the bound to be reported at [`optional_key`].
pub struct OptionalPart(Result<Option<EncodedKey>, InvalidKey>);

/// The key beside a business key.
#[inline]
#[must_use]
pub fn optional_key<K: OptionalKey + ?Sized>(key: &K) -> OptionalPart {
    OptionalPart(key.encode())
}

#[diagnostic::do_not_recommend]
impl OptionalKey for OptionalPart {
    fn encode(&self) -> Result<Option<EncodedKey>, InvalidKey> {
        self.0.clone()
    }
}

/// A version, for the bound to be reported at [`version`].
pub struct Number(Result<i64, InvalidVersion>);

/// The version.
#[inline]
#[must_use]
pub fn version<V: Version + ?Sized>(version: &V) -> Number {
    Number(version.number())
}

#[diagnostic::do_not_recommend]
impl Version for Number {
    fn number(&self) -> Result<i64, InvalidVersion> {
        self.0
    }
}

/// A time, for the bound to be reported at [`time`].
pub struct Moment(Result<Day, InvalidTime>);

/// The message's time.
#[inline]
#[must_use]
pub fn time<T: Time + ?Sized>(time: &T) -> Moment {
    Moment(time.day())
}

#[diagnostic::do_not_recommend]
impl Time for Moment {
    fn day(&self) -> Result<Day, InvalidTime> {
        self.0
    }
}

/// A database with the table by days.
#[diagnostic::on_unimplemented(
    message = "`time` puts claims into partitions by the day, and `{Self}` has none here",
    label = "this handler's claims are in `{Self}`",
    note = "the table by days is for PostgreSQL, and a handler with `time` names that database; for others leave `time` out, and let an `idem::Pruner` remove old claims from the plain table"
)]
pub trait ByDay {}

#[cfg(feature = "postgres")]
#[diagnostic::do_not_recommend]
impl ByDay for sqlx::Postgres {}

/// The place for the database of a handler with `time` to be reported.
#[inline]
pub fn by_day<DB: ByDay>() {}

/// The content of a fingerprint, or one part of it, for the bound to be reported at [`fingerprint`] and [`content`].
#[cfg(feature = "fingerprint")]
pub struct Content(Result<serde_json::Value, InvalidValue>);

/// The content of the fingerprint.
#[cfg(feature = "fingerprint")]
#[must_use]
pub fn fingerprint<C: crate::Fingerprint + ?Sized>(content: &C) -> Content {
    Content(content.json())
}

/// A part of the content of the fingerprint.
#[cfg(feature = "fingerprint")]
#[must_use]
pub fn content<C: crate::Fingerprint + ?Sized>(content: &C) -> Content {
    fingerprint(content)
}

#[cfg(feature = "fingerprint")]
#[diagnostic::do_not_recommend]
impl serde::Serialize for Content {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Ok(value) => value.serialize(serializer),
            Err(InvalidValue::Encode { reason }) => Err(serde::ser::Error::custom(reason)),
            Err(invalid) => Err(serde::ser::Error::custom(invalid)),
        }
    }
}

#[cfg(not(feature = "fingerprint"))]
pub struct Content;

#[cfg(not(feature = "fingerprint"))]
impl crate::Fingerprint for Content {}

/// Says which feature is missing, once.
#[cfg(not(feature = "fingerprint"))]
#[must_use]
pub fn fingerprint<C: crate::Fingerprint + ?Sized>(_: &C) -> Content {
    Content
}

#[cfg(not(feature = "fingerprint"))]
pub fn content<C: ?Sized>(_: &C) {}

/// How the handler's value is stored and given back.
pub struct Codec<T> {
    pub(crate) encode: fn(&T) -> Result<String, InvalidValue>,
    pub(crate) decode: fn(&str) -> Result<T, InvalidValue>,
}

impl<T> Clone for Codec<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Codec<T> {}

/// The one place where the value type has to fulfil its bound.
#[must_use]
pub fn replay<T: crate::Replay>() -> Codec<T> {
    Codec {
        encode: T::encode,
        decode: T::decode,
    }
}

/// The pool that a handler with `pool` takes its connection from, also behind a pointer.
#[inline]
#[must_use]
pub fn pool<DB: Backend>(pool: &Pool<DB>) -> &Pool<DB> {
    pool
}
