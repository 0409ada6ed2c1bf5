//! What the commands ask of the table of claims. Each database has its SQL in a file of its own. No question takes a lock that a consumer
//! could wait for.

mod mysql;
mod postgres;
mod sqlite;

use std::fmt::Write as _;

use serde::Serialize;
use sqlx::Pool;

use crate::database::Database;
use crate::failure::{Code, Failure};

type Answer<T> = Result<T, sqlx::Error>;

pub(crate) trait Store: idem::Backend {
    /// What an up-to-date table has.
    const COLUMNS: &'static [&'static str];

    /// Whether a large table can be judged without reading it.
    const ESTIMATES: bool = true;

    async fn shape(pool: &Pool<Self>) -> Answer<Shape>;

    async fn size(pool: &Pool<Self>, table: Table) -> Answer<Size>;

    /// The database's clock, as RFC 3339.
    async fn now(pool: &Pool<Self>) -> Answer<String>;

    /// Reads the whole table.
    async fn count(pool: &Pool<Self>, table: Table) -> Answer<Vec<Consumer>>;

    /// Reads little, whatever the table's size.
    async fn estimate(pool: &Pool<Self>, table: Table) -> Answer<Vec<Consumer>>;

    /// The names of consumers with claims, in order; so many at most. Jumps from one to the next.
    async fn consumer_names(pool: &Pool<Self>, table: Table, limit: usize) -> Answer<Vec<String>>;

    /// In the table by days there may be several, if the producer has given one key to messages of several days.
    async fn find(pool: &Pool<Self>, table: Table, consumer: &str, key: &str)
    -> Answer<Vec<Claim>>;

    async fn has_business_keys(pool: &Pool<Self>, table: Table, consumer: &str) -> Answer<bool>;

    /// Deletes one row, in a transaction of its own that gives up early if somebody holds the row.
    async fn remove(pool: &Pool<Self>, claim: &Claim) -> Answer<u64>;
}

/// A table of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Table {
    #[serde(rename = "processed_messages")]
    Plain,
    #[serde(rename = "processed_messages_by_day")]
    ByDay,
}

impl Table {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "processed_messages",
            Self::ByDay => "processed_messages_by_day",
        }
    }
}

/// What is there of the tables.
#[derive(Debug)]
pub(crate) struct Shape {
    /// Of `processed_messages`; none if it is missing.
    pub(crate) columns: Vec<String>,
    /// The pruner's, on `processed_at`.
    pub(crate) has_index: bool,
    pub(crate) has_days: bool,
    /// Where it was looked for: the schemas of PostgreSQL's `search_path`, the database of MySQL, the file of SQLite.
    pub(crate) place: String,
}

impl Shape {
    pub(crate) fn is_missing(&self) -> bool {
        self.columns.is_empty()
    }

    pub(crate) fn lacks<DB: Store>(&self) -> Vec<&'static str> {
        let is_there = |column: &str| self.columns.iter().any(|name| name == column);
        let columns = DB::COLUMNS.iter().copied();
        columns.filter(|column| !is_there(column)).collect()
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = Table> {
        let days = self.has_days.then_some(Table::ByDay);
        [Table::Plain].into_iter().chain(days)
    }
}

/// The tables, if they can be worked with.
pub(crate) async fn require<DB: Store>(
    pool: &Pool<DB>,
    database: &Database,
) -> Result<Shape, Failure> {
    let shape = DB::shape(pool)
        .await
        .map_err(|error| database.explain("SELECT on processed_messages")(error.into()))?;
    let missing = |what| {
        let failure = Failure::new(Code::NoTable, what);
        Err(failure
            .remedy("run `idem migrate`, which changes no row; `idem schema` prints what it does"))
    };
    if shape.is_missing() {
        return missing(format!(
            "there is no table `processed_messages` in {}, or this user may not see it",
            shape.place
        ));
    }
    let lacks = shape.lacks::<DB>();
    if !lacks.is_empty() {
        return missing(format!(
            "the table `processed_messages` in {} is of an older version and lacks `{}`",
            shape.place,
            lacks.join("`, `")
        ));
    }
    Ok(shape)
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// With its indexes.
    pub(crate) bytes: u64,
    /// As the database believes.
    pub(crate) rows: Option<u64>,
}

/// What a consumer has in a table. None: not known without reading all of it.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Consumer {
    #[serde(rename = "consumer")]
    pub(crate) name: String,
    pub(crate) rows: Option<u64>,
    /// Of the rows, those of business keys.
    pub(crate) business_keys: Option<u64>,
    /// Of the rows, those that hold a version.
    pub(crate) versions: Option<u64>,
    pub(crate) oldest: Option<String>,
    pub(crate) oldest_age_seconds: Option<i64>,
    pub(crate) newest: Option<String>,
    pub(crate) newest_age_seconds: Option<i64>,
    pub(crate) last_hour: Option<u64>,
    pub(crate) last_day: Option<u64>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Claim {
    pub(crate) table: Table,
    pub(crate) consumer: String,
    /// As it is stored.
    pub(crate) key: String,
    /// Of the table by days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) day: Option<String>,
    pub(crate) processed_at: String,
    pub(crate) age_seconds: i64,
    pub(crate) version: Option<i64>,
    /// In hexadecimal.
    pub(crate) fingerprint: Option<String>,
    /// JSON, as a text.
    pub(crate) result: Option<String>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").ok();
        text
    })
}

fn unsigned(number: i64) -> u64 {
    number.try_into().unwrap_or(0)
}
