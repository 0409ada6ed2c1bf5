//! The statements on the table of claims, which each database has in a dialect of its own.

use sqlx::Database;

use crate::InFlight;
use crate::backend::BoxFuture;
use crate::fingerprint;
use crate::version::ClaimedVersion;

/// What all statements of one delivery have in common.
#[cfg_attr(
    not(all(feature = "postgres", feature = "mysql", feature = "sqlite")),
    allow(dead_code, reason = "each database uses some of it")
)]
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub(crate) consumer: &'a str,
    pub(crate) in_flight: InFlight,
    /// Whether statements are kept prepared.
    pub(crate) persistent: bool,
}

/// A claim to insert.
#[cfg_attr(
    not(all(feature = "postgres", feature = "mysql", feature = "sqlite")),
    allow(dead_code, reason = "each database uses some of it")
)]
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    pub(crate) key: &'a str,
    pub(crate) fingerprint: Option<&'a fingerprint::Bytes>,
}

/// A value to store.
#[cfg_attr(
    not(all(feature = "postgres", feature = "mysql", feature = "sqlite")),
    allow(dead_code, reason = "each database uses some of it")
)]
#[derive(Debug, Clone, Copy)]
pub struct Value<'a> {
    pub(crate) json: &'a str,
    /// Whether the transaction has the library's own seal, and is not one of the caller's.
    pub(crate) is_sealed: bool,
}

/// A claim that was there.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    pub(crate) key: String,
    pub(crate) version: Option<i64>,
    pub(crate) fingerprint: Option<Vec<u8>>,
    pub(crate) result: Option<String>,
}

/// Every statement waits for a transaction that holds one of its claims, as long as the call allows.
pub trait Rows: Database {
    /// Inserts one claim; `false` if it was there, committed, before.
    fn insert<'a>(
        conn: &'a mut Self::Connection,
        call: Call<'a>,
        key: &'a str,
    ) -> BoxFuture<'a, Result<bool, sqlx::Error>>;

    /// Inserts claims in the order of the slice; whether each is new. No two are equal.
    fn insert_many<'a>(
        conn: &'a mut Self::Connection,
        call: Call<'a>,
        rows: &'a [Row<'a>],
    ) -> BoxFuture<'a, Result<Vec<bool>, sqlx::Error>>;

    /// Takes the version of a key to this one; `false` if it may not follow the one that is stored, or may not be the first.
    fn advance<'a>(
        conn: &'a mut Self::Connection,
        call: Call<'a>,
        key: &'a str,
        version: ClaimedVersion,
    ) -> BoxFuture<'a, Result<bool, sqlx::Error>>;

    /// The claims with these keys, as they are committed.
    fn read<'a>(
        conn: &'a mut Self::Connection,
        call: Call<'a>,
        keys: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<Stored>, sqlx::Error>>;

    /// Stores the value of the delivery that holds these claims; the number of rows that took it. Where the transaction is gone unnoticed, the
    /// claims may be another worker's by now, which are left as they are.
    fn store<'a>(
        conn: &'a mut Self::Connection,
        call: Call<'a>,
        keys: &'a [&'a str],
        value: Value<'a>,
    ) -> BoxFuture<'a, Result<u64, sqlx::Error>>;
}
