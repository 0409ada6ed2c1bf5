use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::transient::is_conflict;

/// Runs a unit of work again when it lost against another transaction: after a serialization failure or a deadlock, and only then. Between
/// two runs it waits some milliseconds, more each time and by chance, outside of any transaction.
///
/// The unit is a whole delivery, with its transaction; a part of one cannot be run again. It waits with the async runtime that sqlx was given,
/// and panics outside of one. For handlers under the attribute there is
/// `retries = 3`, which does the same.
///
/// ```no_run
/// # extern crate idem_runtime as idem;
/// # #[cfg(feature = "sqlite")]
/// # async fn example(pool: &sqlx::SqlitePool, event_id: &str) -> Result<(), sqlx::Error> {
/// use sqlx::SqliteConnection;
///
/// let outcome = idem::retry(3, || {
///     idem::once(pool, "billing", event_id, async |tx: &mut SqliteConnection| {
///         sqlx::query("UPDATE accounts SET credits = credits + 1").execute(tx).await?;
///         Ok::<_, sqlx::Error>(())
///     })
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The unit's own: the last one, or the first that is no conflict.
pub async fn retry<F, Fut, T, E, Kind>(retries: u32, mut unit: F) -> Result<T, E>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
    E: AsError<Kind>,
{
    let mut backoff = Backoff::new(retries);
    loop {
        match unit().await {
            Err(error) if is_conflict(error.as_error()) && backoff.is_left() => {
                // Not across the wait, where it would have to be sent to another thread.
                drop(error);
                backoff.wait().await;
            }
            result => return result,
        }
    }
}

/// How often a unit may still run again, and how long it waits before it does.
#[derive(Debug)]
pub(crate) struct Backoff {
    left: u32,
    waited: u32,
}

impl Backoff {
    pub(crate) fn new(retries: u32) -> Self {
        Self {
            left: retries,
            waited: 0,
        }
    }

    pub(crate) fn is_left(&self) -> bool {
        self.left > 0
    }

    /// The number of the run that comes next, counted from 1.
    pub(crate) fn run(&self) -> u32 {
        self.waited + 1
    }

    /// From 10 ms, doubled each time up to a second, and of that between a half and the whole, so that those who collided once do not
    /// collide again.
    pub(crate) async fn wait(&mut self) {
        const FIRST: u64 = 10;
        const LONGEST: u64 = 1000;
        let full = (FIRST << self.waited.min(10)).min(LONGEST);
        let chance = RandomState::new().hash_one(self.waited) % (full / 2 + 1);
        self.left = self.left.saturating_sub(1);
        self.waited += 1;
        sqlx_core::rt::sleep(Duration::from_millis(full - chance)).await;
    }
}

/// An error whose chain of sources can be looked through. Implemented for every `std::error::Error`, for `anyhow::Error` and for boxed
/// errors; `Kind` tells these apart, and is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say whether it comes from a deadlock or a serialization failure",
    label = "to run again after these, the error has to show its sources",
    note = "implement `std::error::Error` for it (with thiserror: `#[derive(thiserror::Error)]`, and `#[from]` on the database's error); `anyhow::Error` and `Box<dyn Error + Send + Sync>` show theirs"
)]
pub trait AsError<Kind> {
    /// The error.
    #[doc(hidden)]
    fn as_error(&self) -> &(dyn std::error::Error + 'static);
}

/// The kinds of [`AsError`].
#[doc(hidden)]
pub(crate) mod kind {
    pub struct Plain;
    pub struct Shared;
    pub struct Boxed;
}

#[diagnostic::do_not_recommend]
impl<E: std::error::Error + 'static> AsError<kind::Plain> for E {
    fn as_error(&self) -> &(dyn std::error::Error + 'static) {
        self
    }
}

/// `anyhow::Error`, and boxes of `dyn Error + Send + Sync`.
#[diagnostic::do_not_recommend]
impl<E: AsRef<dyn std::error::Error + Send + Sync>> AsError<kind::Shared> for E {
    fn as_error(&self) -> &(dyn std::error::Error + 'static) {
        self.as_ref()
    }
}

#[diagnostic::do_not_recommend]
impl AsError<kind::Boxed> for Box<dyn std::error::Error> {
    fn as_error(&self) -> &(dyn std::error::Error + 'static) {
        &**self
    }
}
