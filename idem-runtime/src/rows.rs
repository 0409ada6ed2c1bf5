//! The statements on the table of claims, which each database has in a dialect of its own.

use sqlx::Database;

use crate::InFlight;
use crate::backend::BoxFuture;
use crate::fingerprint;
use crate::time::Day;
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

/// A claim to insert into the table by days.
#[cfg_attr(
    not(feature = "postgres"),
    allow(dead_code, reason = "only PostgreSQL has it")
)]
#[derive(Debug, Clone, Copy)]
pub struct DatedRow<'a> {
    pub(crate) key: &'a str,
    pub(crate) day: Day,
    pub(crate) fingerprint: Option<&'a fingerprint::Bytes>,
}

/// What inserting into the table by days came to.
#[cfg_attr(
    not(feature = "postgres"),
    allow(dead_code, reason = "only PostgreSQL has it")
)]
#[derive(Debug)]
pub enum Dated {
    /// Whether each is new.
    New(Vec<bool>),
    /// There is a day without a partition. The claims of other days may be in, for the transaction to take back.
    NoPartition {
        /// The first of these.
        day: Day,
        /// The first and the last day that have a partition, if any.
        kept: Option<(Day, Day)>,
        /// By the database's clock.
        today: Day,
    },
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

    /// As [`Rows::insert_many`], in the table by days.
    fn insert_by_day<'a>(
        conn: &'a mut Self::Connection,
        call: Call<'a>,
        rows: &'a [DatedRow<'a>],
    ) -> BoxFuture<'a, Result<Dated, sqlx::Error>> {
        let _ = (conn, call, rows);
        Box::pin(std::future::ready(Err(no_days())))
    }

    /// As [`Rows::read`], in the table by days.
    fn read_by_day<'a>(
        conn: &'a mut Self::Connection,
        call: Call<'a>,
        claims: &'a [(&'a str, Day)],
    ) -> BoxFuture<'a, Result<Vec<Stored>, sqlx::Error>> {
        let _ = (conn, call, claims);
        Box::pin(std::future::ready(Err(no_days())))
    }

    /// As [`Rows::store`], in the table by days.
    fn store_by_day<'a>(
        conn: &'a mut Self::Connection,
        call: Call<'a>,
        claim: (&'a str, Day),
        value: Value<'a>,
    ) -> BoxFuture<'a, Result<u64, sqlx::Error>> {
        let _ = (conn, call, claim, value);
        Box::pin(std::future::ready(Err(no_days())))
    }
}

fn no_days() -> sqlx::Error {
    sqlx::Error::Configuration(
        "claims by the message's `time` need the partitions of PostgreSQL; leave `time` out for other databases".into(),
    )
}
