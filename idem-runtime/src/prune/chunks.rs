//! The statements that remove claims, which each database has in a dialect of its own.

use sqlx::Database;

use crate::backend::BoxFuture;
use crate::{Archive, Due, PruneError, Pruned, Retain, Windows};

/// Beyond this many seconds, some three thousand years, calendars end.
const LONGEST: f64 = 1e11;

/// The windows in seconds by the database's clock; none is for ever.
#[derive(Debug)]
pub struct Bounds {
    pub(crate) named: Vec<Bound>,
    /// For the messages of other consumers. Their business keys are kept.
    pub(crate) default: Option<f64>,
}

#[derive(Debug)]
pub(crate) struct Bound {
    #[cfg_attr(
        not(any(feature = "postgres", feature = "mysql", feature = "sqlite")),
        allow(dead_code, reason = "a database asks for it")
    )]
    pub(crate) consumer: String,
    pub(crate) messages: Option<f64>,
    pub(crate) business_keys: Option<f64>,
}

impl Bounds {
    pub(crate) fn new(windows: &Windows) -> Self {
        let seconds = |retain: Retain| retain.seconds().filter(|seconds| *seconds < LONGEST);
        Self {
            named: windows
                .named()
                .map(|consumer| Bound {
                    consumer: consumer.to_owned(),
                    messages: windows.retain_of(consumer).and_then(seconds),
                    business_keys: seconds(windows.business_retain_of(consumer)),
                })
                .collect(),
            default: windows.default_retain().and_then(seconds),
        }
    }

    /// Changes every window that ends.
    pub(crate) fn stretch(&mut self, change: impl Fn(f64) -> f64) {
        for bound in &mut self.named {
            bound.messages = bound.messages.map(&change);
            bound.business_keys = bound.business_keys.map(&change);
        }
        self.default = self.default.map(&change);
    }

    /// The shortest window, if there is any that ends.
    pub(crate) fn shortest(&self) -> Option<f64> {
        let named = self
            .named
            .iter()
            .flat_map(|bound| [bound.messages, bound.business_keys]);
        named.chain([self.default]).flatten().reduce(f64::min)
    }

    /// The windows of the consumer's messages and of its business keys.
    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    pub(crate) fn of(&self, consumer: &str) -> [Option<f64>; 2] {
        self.named
            .iter()
            .find(|bound| bound.consumer == consumer)
            .map_or([self.default, None], |bound| {
                [bound.messages, bound.business_keys]
            })
    }
}

/// A part of a run.
#[derive(Debug)]
#[cfg_attr(
    not(all(feature = "postgres", any(feature = "mysql", feature = "sqlite"))),
    allow(dead_code, reason = "each database uses one of them")
)]
pub enum Step {
    /// PostgreSQL: the claims in these pages of the table.
    Pages {
        first: i64,
        /// The first that does not belong to it.
        end: i64,
    },
    /// Elsewhere: the claims of one consumer, from the oldest on.
    Claims {
        consumer: String,
        are_business_keys: bool,
        /// By the database's clock, as the database writes it: claims made before it are taken.
        cutoff: String,
        /// Where the last chunk ended: the time and, where it matters, the key.
        after: Option<(String, Vec<u8>)>,
    },
}

/// What the archive needs of the claims that are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    /// They are copied into the archive's table.
    Copies,
    /// They are handed out.
    #[cfg_attr(not(feature = "archive"), allow(dead_code, reason = "files need it"))]
    Rows,
}

/// The claims that one transaction has removed.
#[derive(Debug, Default)]
pub struct Taken {
    pub(crate) claims: u64,
    pub(crate) business_keys: u64,
    /// If [`Takes::Rows`].
    pub(crate) rows: Vec<Removed>,
    /// Whether the step has nothing left.
    pub(crate) is_done: bool,
}

/// A claim that was removed.
#[derive(Debug)]
#[cfg_attr(not(feature = "archive"), allow(dead_code, reason = "files need it"))]
pub(crate) struct Removed {
    pub(crate) consumer: String,
    pub(crate) message_id: String,
    pub(crate) day: Option<String>,
    /// In UTC, as in `2026-11-30T08:46:20.000000Z`.
    pub(crate) processed_at: String,
    pub(crate) fingerprint: Option<Vec<u8>>,
    pub(crate) result: Option<String>,
}

/// What to do with the table by days.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(feature = "postgres"),
    allow(dead_code, reason = "only PostgreSQL has it")
)]
pub struct DaysToKeep<'a> {
    pub(crate) windows: &'a Windows,
    pub(crate) ahead: u16,
}

/// Where times do not compare by the database's clock, no claim is safe.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn check_type(kind: &str, wanted: &str) -> Result<(), sqlx::Error> {
    if kind == wanted {
        return Ok(());
    }
    Err(sqlx::Error::Configuration(format!("the column `processed_at` of `processed_messages` is of the type {kind}, and not {wanted}, so that claims inside their window might be removed; create the table anew from `idem::sql`, and copy the claims").into()))
}

pub trait Chunks: Database {
    const ROWS_OF_A_CHUNK: u32;

    /// Begins the transaction of a chunk. READ COMMITTED, so that nothing is locked but what is taken, and no old snapshot is kept.
    const BEGIN_CHUNK: &'static str;

    /// Begins a transaction that looks at the whole table, for as long as that takes.
    const BEGIN_LOOK: &'static str;

    /// Makes the archive's table if it is missing.
    const CREATE_ARCHIVE: &'static str;

    /// The consumers that have claims, by a look at one claim of each.
    fn consumers(conn: &mut Self::Connection) -> BoxFuture<'_, Result<Vec<String>, sqlx::Error>>;

    /// How many claims are past their window.
    fn due<'a>(
        conn: &'a mut Self::Connection,
        bounds: &'a Bounds,
        consumers: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<Due>, sqlx::Error>>;

    /// Where they are.
    fn plan<'a>(
        conn: &'a mut Self::Connection,
        bounds: &'a Bounds,
        consumers: &'a [String],
        chunk: u32,
    ) -> BoxFuture<'a, Result<Vec<Step>, sqlx::Error>>;

    /// Makes this pruner the only one for the transaction; `false` if another is at work.
    fn lock(conn: &mut Self::Connection) -> BoxFuture<'_, Result<bool, sqlx::Error>>;

    /// After the transaction.
    fn unlock(conn: &mut Self::Connection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        let _ = conn;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Removes claims of the step that are past their window and that nobody has locked.
    fn take<'a>(
        conn: &'a mut Self::Connection,
        bounds: &'a Bounds,
        step: &'a mut Step,
        chunk: u32,
        archive: Takes,
    ) -> BoxFuture<'a, Result<Taken, sqlx::Error>>;

    /// Creates days ahead in the table by days; how many.
    fn create_days<'a>(
        conn: &'a mut Self::Connection,
        days: &'a DaysToKeep<'a>,
    ) -> BoxFuture<'a, Result<u32, PruneError>> {
        let _ = (conn, days);
        Box::pin(std::future::ready(Ok(0)))
    }

    /// Drops the days that are past their window.
    fn drop_days<'a>(
        conn: &'a mut Self::Connection,
        days: &'a DaysToKeep<'a>,
        archive: &'a Archive,
        pruned: &'a mut Pruned,
    ) -> BoxFuture<'a, Result<(), PruneError>> {
        let _ = (conn, days, archive, pruned);
        Box::pin(std::future::ready(Ok(())))
    }

    /// After a run, keeps the index useful. What fails here does no harm.
    fn tidy<'a>(conn: &'a mut Self::Connection, steps: &'a [Step]) -> BoxFuture<'a, ()> {
        let _ = (conn, steps);
        Box::pin(std::future::ready(()))
    }
}
