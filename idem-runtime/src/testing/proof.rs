use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use sqlx::Pool;

use super::bench::{Action, Bench, BoxError, action};
use super::report::Report;
use super::steps::Steps;
use crate::backend::Backend;

/// Proves one handler with one message, on a database for tests: `fresh` and `state`, in any order, and then `deliver`, which runs it. Run it in
/// the test itself and not in a spawned task, which would want it to be `Send`. See the [module](crate::testing).
///
/// ```
/// # extern crate idem_runtime as idem;
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), sqlx::Error> {
/// use idem::testing::Proof;
/// use sqlx::{SqliteConnection, SqlitePool, sqlite::SqlitePoolOptions};
///
/// // Stands for a handler of yours.
/// async fn add_credits(pool: &SqlitePool, id: &str) -> Result<idem::Outcome<()>, sqlx::Error> {
///     idem::once(pool, "billing", id, async |tx: &mut SqliteConnection| {
///         sqlx::query("UPDATE accounts SET credits = credits + 10").execute(tx).await?;
///         Ok(())
///     }).await
/// }
///
/// let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
/// idem::migrate(&pool).await?;
/// sqlx::raw_sql("CREATE TABLE accounts (credits); INSERT INTO accounts VALUES (0)").execute(&pool).await?;
///
/// Proof::new(&pool)
///     .fresh(async |pool| {
///         sqlx::query("UPDATE accounts SET credits = 0").execute(pool).await?;
///         // Reset what stands in for other systems here, too.
///         Ok::<_, sqlx::Error>(())
///     })
///     .state(async |pool| sqlx::query_scalar::<_, i64>("SELECT credits FROM accounts").fetch_one(pool).await)
///     .deliver(async |pool| add_credits(pool, "evt-1").await)
///     .await
///     .assert();
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
#[must_use = "it does nothing until it is given what to `deliver`"]
pub struct Proof<'p, DB: Backend, S = ()> {
    pool: &'p Pool<DB>,
    fresh: Action<'p, ()>,
    state: S,
    at_once: usize,
    refuses: bool,
    limit: Duration,
}

/// Of a [`Proof`] that knows how to read the [`state`](Proof::state).
pub struct State<'p, V>(Action<'p, V>);

impl<'p, DB: Backend> Proof<'p, DB> {
    /// A proof on this pool, which nobody else uses meanwhile. Its database has the table of claims, and tables that may be changed at will.
    pub fn new(pool: &'p Pool<DB>) -> Self {
        Self {
            pool,
            fresh: Box::new(|| Box::pin(std::future::ready(Ok(())))),
            state: (),
            at_once: 4,
            refuses: true,
            limit: Duration::from_secs(30),
        }
    }

    /// What is compared: all that the handler changes, in the database and outside. Leave out what the database gives out anew each time
    /// (serial ids, times), and sort the rows.
    pub fn state<F, V, E>(self, state: F) -> Proof<'p, DB, State<'p, V>>
    where
        F: AsyncFn(&'p Pool<DB>) -> Result<V, E> + 'p,
        V: PartialEq + Debug + 'p,
        E: Into<BoxError> + 'p,
    {
        Proof {
            pool: self.pool,
            fresh: self.fresh,
            state: State(action(self.pool, state, |state| state)),
            at_once: self.at_once,
            refuses: self.refuses,
            limit: self.limit,
        }
    }
}

impl<'p, DB: Backend, S> Proof<'p, DB, S> {
    /// Puts everything that the handler changes back to where it was, before each step. The message's claims are removed for you, and no
    /// others.
    pub fn fresh<F, T, E>(mut self, fresh: F) -> Self
    where
        F: AsyncFn(&'p Pool<DB>) -> Result<T, E> + 'p,
        T: 'p,
        E: Into<BoxError> + 'p,
    {
        self.fresh = action(self.pool, fresh, drop);
        self
    }

    /// How many deliveries arrive at once; 4 without it. A pool with fewer connections lets them run one after the other.
    pub fn at_once(mut self, deliveries: usize) -> Self {
        self.at_once = deliveries;
        self
    }

    /// Refuses no writes, which takes the right to create triggers. Errors that the handler drops are not found then.
    pub fn without_refused_writes(mut self) -> Self {
        self.refuses = false;
        self
    }

    /// How long a delivery, `fresh` or `state` may take before it counts as one that never ends; 30 seconds without it.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }
}

impl<'p, DB: Backend, V: PartialEq + Debug> Proof<'p, DB, State<'p, V>> {
    /// Runs the proof. The closure is one delivery, always of the same message: it calls the handler, and its `Ok` acknowledges. It may do what
    /// your consumer does around the handler, such as a time limit or a transaction of its own. An error type of `Box<dyn Error>` needs
    /// `+ Send + Sync`.
    pub async fn deliver<F, T, E>(self, deliver: F) -> Report
    where
        F: AsyncFn(&'p Pool<DB>) -> Result<T, E> + 'p,
        T: 'p,
        E: Into<BoxError> + 'p,
    {
        let bench = Bench {
            pool: self.pool,
            fresh: self.fresh,
            deliver: action(self.pool, deliver, drop),
            state: self.state.0,
            limit: self.limit,
            claims: BTreeSet::new(),
            most_waits: 0,
            tables: BTreeSet::new(),
        };
        Steps::new(bench).run(self.at_once, self.refuses).await
    }
}
