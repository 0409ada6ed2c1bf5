//! Removing claims that are past their window.

mod archive;
pub(crate) mod chunks;
mod error;
mod report;
pub(crate) mod run;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Pool;

use crate::backend::Backend;
use crate::{Retain, Windows};

pub use archive::Archive;
pub use error::PruneError;
pub use report::{Due, Pruned};

/// How many days of the table by days are created ahead, unless set.
pub(crate) const DAYS_AHEAD: u16 = 7;

/// Removes the claims that are past their retention window, in small steps, while consumers are at work.
///
/// ```no_run
/// # extern crate idem_runtime as idem;
/// # #[cfg(feature = "sqlite")]
/// # async fn example(pool: sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
/// // The handlers say how long: `#[idempotent(…, retain = "7d", redelivery = "4d")]`.
/// let pruner = idem::Pruner::new(&pool).on_error(|error| eprintln!("{error}"));
/// tokio::spawn(async move { eprintln!("no longer pruning: {}", pruner.run().await) });
/// # Ok(())
/// # }
/// ```
///
/// Any number of processes may run one, on any number of machines: one works at a time, and the others pass. What is past its window is
/// decided by the database's clock; a clock of yours that is wrong changes nothing.
///
/// Each chunk of claims is a short transaction of its own. It takes no claim that somebody has locked (that comes with a later run), so that it
/// never waits for a consumer and no deadlock has a pruner in it. A consumer can only meet it where a message past its window is
/// delivered again, and waits for the end of that chunk then. On SQLite, which has one writer at a time, both wait for each other's transactions as
/// any two writers do. Dropped at any point, a run loses nothing: the chunk that was under way is rolled back.
///
/// It takes one connection of the pool while it works. Where PostgreSQL has the table by days, it also creates days ahead and drops those
/// that are past the window: see [`Days`](crate::Days).
///
/// A PostgreSQL table does not get smaller by this; vacuum makes the space free for new claims. On MySQL, READ COMMITTED is needed, and with it
/// `binlog_format` ROW or MIXED (the default); the server must know SKIP LOCKED: MySQL 8.0, MariaDB 10.6.
#[must_use = "a pruner does nothing until it is run"]
pub struct Pruner<DB: Backend> {
    pool: Pool<DB>,
    windows: Windows,
    chunk: u32,
    pause: Duration,
    every: Duration,
    days_ahead: u16,
    archive: Archive,
    report: Option<Report>,
    complain: Option<Complain>,
}

type Report = Arc<dyn Fn(&Pruned) + Send + Sync>;
type Complain = Arc<dyn Fn(&PruneError) + Send + Sync>;

impl<DB: Backend> Pruner<DB> {
    /// With the windows of the program's handlers.
    pub fn new(pool: &Pool<DB>) -> Self {
        Self {
            pool: pool.clone(),
            windows: Windows::of_handlers(),
            chunk: DB::ROWS_OF_A_CHUNK,
            pause: Duration::from_millis(10),
            every: Duration::from_mins(10),
            days_ahead: DAYS_AHEAD,
            archive: Archive::none(),
            report: None,
            complain: None,
        }
    }

    /// With these windows.
    pub fn windows(mut self, windows: Windows) -> Self {
        self.windows = windows;
        self
    }

    /// As [`Windows::default_window`].
    pub fn default_window(mut self, retain: impl Into<Retain>) -> Self {
        self.windows = self.windows.default_window(retain);
        self
    }

    /// As [`Windows::window`].
    pub fn window(mut self, consumer: impl Into<String>, retain: impl Into<Retain>) -> Self {
        self.windows = self.windows.window(consumer, retain);
        self
    }

    /// As [`Windows::business_window`].
    pub fn business_window(
        mut self,
        consumer: impl Into<String>,
        retain: impl Into<Retain>,
    ) -> Self {
        self.windows = self.windows.business_window(consumer, retain);
        self
    }

    /// How many claims one transaction takes: 5000 on PostgreSQL and 1000 elsewhere, unless set. On PostgreSQL it is kept to roughly, since
    /// whole pages are taken. At least one, and at most 1000 on their way into a file, since they pass through memory.
    pub fn chunk(mut self, claims: u32) -> Self {
        self.chunk = claims.max(1);
        self
    }

    /// How long to rest between two chunks: 10 ms, unless set.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// How long [`run`](Pruner::run) rests between two runs: 10 minutes, unless set.
    pub fn every(mut self, interval: Duration) -> Self {
        self.every = interval;
        self
    }

    /// How many days ahead partitions are created in the table by days: a week, unless set.
    pub fn days_ahead(mut self, days: u16) -> Self {
        self.days_ahead = days;
        self
    }

    /// Keeps what is removed in an archive.
    pub fn archive(mut self, archive: Archive) -> Self {
        self.archive = archive;
        self
    }

    /// Calls this after each chunk, with the totals of the run so far.
    pub fn on_progress(mut self, report: impl Fn(&Pruned) + Send + Sync + 'static) -> Self {
        self.report = Some(Arc::new(report));
        self
    }

    /// Calls this with each error after which [`run`](Pruner::run) tries again. With the feature `tracing` they are logged besides; without either,
    /// nobody hears of them.
    pub fn on_error(mut self, complain: impl Fn(&PruneError) + Send + Sync + 'static) -> Self {
        self.complain = Some(Arc::new(complain));
        self
    }
}

/// It shares the pool and the archive.
impl<DB: Backend> Clone for Pruner<DB> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            windows: self.windows.clone(),
            chunk: self.chunk,
            pause: self.pause,
            every: self.every,
            days_ahead: self.days_ahead,
            archive: self.archive.clone(),
            report: self.report.clone(),
            complain: self.complain.clone(),
        }
    }
}

impl<DB: Backend> fmt::Debug for Pruner<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pruner")
            .field("windows", &self.windows)
            .field("chunk", &self.chunk)
            .field("pause", &self.pause)
            .field("every", &self.every)
            .field("days_ahead", &self.days_ahead)
            .field("archive", &self.archive)
            .finish_non_exhaustive()
    }
}
