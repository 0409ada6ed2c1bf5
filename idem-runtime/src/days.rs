use sqlx::PgPool;

use crate::error::{Error, Step};
use crate::postgres::days;
use crate::prune::DAYS_AHEAD;
use crate::source::{Guard, Source as _};
use crate::{Archive, Day, PruneError, Pruned, Retain, Windows};

/// The table by days, on PostgreSQL: `processed_messages_by_day`, with a partition for each day. The claims of handlers with
/// `time = "event.time"` are kept in it, each under the day of its message. Removing a day is then a matter of one statement, whatever the
/// number of its claims, and leaves nothing to vacuum.
///
/// ```no_run
/// # extern crate idem_runtime as idem;
/// # async fn example(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// // Once, at start-up: the table, and the days from a week ago to a week ahead.
/// idem::Days::new(&pool).create().await?;
/// // From then on the pruner makes days ahead and drops old ones.
/// let pruner = idem::Pruner::new(&pool);
/// tokio::spawn(async move { eprintln!("no longer pruning: {}", pruner.run().await) });
/// # Ok(())
/// # }
/// ```
///
/// # Why it is the message's day
///
/// The key of a partitioned table has to hold the day, so that a claim is found again only under the same day. The day of arrival would
/// make the redelivery after midnight another claim, and run it again, silently. The message's own time is the same in all its
/// deliveries.
///
/// # What is refused
///
/// - A message of a day before the first one that is kept: [`Error::Expired`]. Its claim may be gone, so that nobody can tell whether it was
///   processed. It does not run. Permanent.
/// - A message of a day more than one ahead of the database's clock, without a partition: [`Error::TooFarAhead`]. The producer's clock is
///   wrong. Permanent. Days ahead that have a partition take it, so that a producer whose clock is some hours or days fast does no harm.
/// - A message of another day without a partition, since nobody has made one: [`Error::NoPartition`]. Transient.
///
/// Days are made from a window ago to some days ahead, and dropped from the oldest on. A day that was dropped is never made again, also when
/// the window grows. All consumers, of all programs, share the days: a pruner drops one only if every consumer with claims in it has a window that has passed, and
/// names the others in [`Pruned::without_window`]. Give every consumer a window in every program that prunes. Run a
/// [`Pruner`](crate::Pruner), or [`create`](Days::create) at least once in as many days as are made ahead.
///
/// # Moving there from the plain table
///
/// Claims that were made before stay in the plain table, and their redeliveries have to be recognised. No stop is needed:
///
/// 1. Create the table by days (`create`, or `idem migrate --by-day`).
/// 2. Deploy the handlers with `time = "…", from_plain`: a delivery then claims in both tables, so that it meets the claims of workers that
///    were not yet updated, and they meet its own.
/// 3. When the last old worker has been gone for longer than the redelivery window, deploy without `from_plain`. The pruner removes what is left in
///    the plain table, by its windows.
///
/// From the second step on the window counts from the message's own time, and no longer from its claim: a backlog that is older is refused as
/// [`Error::Expired`]. Choose `retain` so that it covers the longest wait for a first delivery as well, and let a backlog drain before.
///
/// Back again is the same road: `from_plain` first, and then without `time`.
///
/// # Limits
///
/// A day is detached concurrently, which waits for transactions that were open before, for ten seconds at most; where that is not enough, the next run
/// goes on, and PostgreSQL then waits for every older snapshot in the database, be it a report or a backup. Consumers wait for none of it. Let the
/// pruner connect to the server directly: a pooler in transaction mode would hand its session's settings to others.
///
/// It takes PostgreSQL 14 or newer. Other handlers, business keys and versions stay in the plain table.
#[derive(Debug, Clone)]
#[must_use]
pub struct Days {
    pool: PgPool,
    windows: Windows,
    retain: Option<Retain>,
    ahead: u16,
}

/// A day in the table by days.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Partition {
    /// The day.
    pub day: Day,
    /// The partition's name.
    pub table: String,
    /// How many claims it holds, as the last vacuum or analyze has estimated it.
    pub rows: Option<u64>,
    /// Its size on disk, indexes included.
    pub bytes: u64,
    /// Whether it still takes claims. If not, it is on its way out.
    pub is_attached: bool,
}

impl Days {
    /// Kept by the windows of the program's handlers, as a [`Pruner`](crate::Pruner) keeps them, and created a week ahead.
    pub fn new(pool: &PgPool) -> Self {
        Self {
            pool: pool.clone(),
            windows: Windows::of_handlers(),
            retain: None,
            ahead: DAYS_AHEAD,
        }
    }

    /// How long a day is kept after its end, whoever has claims in it.
    pub fn retain(mut self, retain: impl Into<Retain>) -> Self {
        self.retain = Some(retain.into());
        self
    }

    /// How many days ahead of today are created.
    pub fn ahead(mut self, days: u16) -> Self {
        self.ahead = days;
        self
    }

    /// Creates the table if it is missing, and the days that are; how many. The first time, days begin a retention window ago, or a month ago
    /// where it has no end or none is known. Any number of processes may do so at once.
    ///
    /// # Errors
    ///
    /// [`Error::Database`], for instance when the user may not create tables.
    pub async fn create(&self) -> Result<u32, Error> {
        let retain = self.retain.or_else(|| self.windows.retain_of_days());
        let retain = retain.and_then(Retain::seconds).unwrap_or(days::MONTH);
        let mut lease = (&self.pool).lease().await?;
        let (conn, guard) = lease.split();
        guard.close = true;
        let created = days::create(conn, retain, self.ahead).await;
        let created = created.map_err(Error::database(Step::Days))?;
        *guard = Guard::default();
        Ok(created)
    }

    /// Drops the days that are past the window; how many. A day is when its last moment is. Nothing is dropped where the window has no
    /// end or none is known. The last day of all stays, so that none before it is ever made again.
    ///
    /// Consumers go on meanwhile: each day is detached concurrently, which waits for transactions that were begun before.
    ///
    /// # Errors
    ///
    /// [`PruneError::Database`], for instance when a transaction stays open for longer than ten seconds; the next call goes on from there.
    pub async fn drop_expired(&self) -> Result<u32, PruneError> {
        let mut pruned = Pruned::default();
        let Some(keep) = self.keep() else {
            return Ok(0);
        };
        let mut lease = (&self.pool).lease().await.map_err(PruneError::Database)?;
        let (conn, guard) = lease.split();
        guard.close = true;
        days::drop_past(conn, keep, &Archive::none(), &mut pruned).await?;
        *guard = Guard::default();
        Ok(pruned.days_dropped)
    }

    /// The days that [`drop_expired`](Days::drop_expired) would drop now. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Database`]
    pub async fn expired(&self) -> Result<Vec<Partition>, Error> {
        let Some(keep) = self.keep() else {
            return Ok(Vec::new());
        };
        let mut lease = (&self.pool).lease().await?;
        let days = days::past(lease.connection(), keep).await;
        days.map_err(Error::database(Step::Days))
    }

    fn keep(&self) -> Option<days::Keep<'_>> {
        match self.retain {
            Some(Retain::Forever) => None,
            Some(Retain::For(retain)) => Some(days::Keep::All(retain.as_secs_f64())),
            None => Some(days::Keep::Windows(&self.windows)),
        }
    }

    /// The days that there are, from the oldest on.
    ///
    /// # Errors
    ///
    /// [`Error::Database`]
    pub async fn list(&self) -> Result<Vec<Partition>, Error> {
        let mut lease = (&self.pool).lease().await?;
        let days = days::list(lease.connection()).await;
        let days = days.map_err(Error::database(Step::Days))?;
        Ok(days.into_iter().map(|day| day.public).collect())
    }
}
