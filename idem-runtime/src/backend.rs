use std::future::Future;
use std::pin::Pin;

use sqlx::{Database, SqlSafeStr, Transaction};
use sqlx_core::transaction::TransactionManager;

use crate::doctor::Examine;
use crate::prune::chunks::Chunks;
use crate::rows::Rows;
#[cfg(feature = "testing")]
use crate::testing::Harms;
use crate::{InFlight, Isolation};

/// A database that holds claims: `Postgres`, `MySql` (also for MariaDB) or `Sqlite`, each behind the feature of its name. Sealed:
/// the promises are tested per database.
#[diagnostic::on_unimplemented(
    message = "idem has no support for the database `{Self}`, or its feature is not enabled",
    note = "enable `postgres`, `mysql` or `sqlite` of the crate `idem-sqlx`; sqlx's `Any` is not supported, since its errors carry no codes"
)]
pub trait Backend: Dialect {}

impl<DB: Dialect> Backend for DB {}

/// What the feature `testing` needs of a database: without it, nothing.
#[cfg(not(feature = "testing"))]
pub trait Harms {}

#[cfg(not(feature = "testing"))]
impl<DB> Harms for DB {}

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

#[diagnostic::on_unimplemented(
    message = "idem has no support for the database `{Self}`, or its feature is not enabled",
    note = "enable `postgres`, `mysql` or `sqlite` of the crate `idem-sqlx`; sqlx's `Any` is not supported, since its errors carry no codes",
    note = "idem needs sqlx 0.9: if the type is right, another version may be in the tree (`cargo tree -d`)"
)]
/// What the databases do differently. The algorithm itself is in `transaction.rs`, once.
pub trait Dialect: Rows + Chunks + Examine + Harms {
    /// Opens the transaction at depth 0, at this isolation level or the session's own.
    fn begin_with(isolation: Option<Isolation>) -> &'static str;

    /// When a delivery that is dropped has to take its connection with it.
    const CLOSES: Closes;

    /// Whether a transaction has the isolation level that it was begun with; otherwise it is always serializable.
    const HAS_LEVELS: bool = true;

    /// Seals and commits the transaction that [`Dialect::begin_with`] has opened, and takes sqlx's depth back to 0. A connection that returns
    /// to its pool right after may be left with something to send.
    fn seal_and_commit(
        conn: &mut Self::Connection,
        returns_to_pool: bool,
    ) -> BoxFuture<'_, Result<(), sqlx::Error>>;

    /// Proves that the transaction is still the one that [`Dialect::begin_with`] has opened, where the statement that stores a value does
    /// not.
    fn prove(conn: &mut Self::Connection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        let _ = conn;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Commits a transaction at depth 1 that [`Dialect::begin_with`] did not open, and notices as well as it can that it is dead.
    fn commit_foreign(conn: &mut Self::Connection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(commit::<Self>(conn))
    }

    /// Opens a savepoint within an open transaction. Dropped half-way, it leaves the outer transaction as it was, unlike sqlx's own
    /// nested `begin`.
    fn savepoint(conn: &mut Self::Connection) -> BoxFuture<'_, Result<(), sqlx::Error>>;

    /// How many ROLLBACKs to queue when a savepoint is dropped at this depth, above `outer`.
    fn levels_to_drop(conn: &Self::Connection, outer: usize) -> usize {
        depth::<Self>(conn).saturating_sub(outer)
    }

    /// Releases the innermost savepoint.
    fn release(conn: &mut Self::Connection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(commit::<Self>(conn))
    }

    /// Rolls back to the innermost savepoint, and forgets it.
    fn roll_back_to(conn: &mut Self::Connection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(rollback::<Self>(conn))
    }

    /// As [`Dialect::savepoint`], as an sqlx transaction.
    fn nested(
        conn: &mut Self::Connection,
    ) -> BoxFuture<'_, Result<Transaction<'_, Self>, sqlx::Error>>;

    /// Runs statements whose answers do not matter.
    fn run<'a>(
        conn: &'a mut Self::Connection,
        sql: &'static str,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>>;

    /// Brings sqlx's depth up to date, where another thread keeps it.
    fn settle(conn: &mut Self::Connection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        let _ = conn;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Whether the transaction that sqlx believes to be open is open, where the database may end one by itself and sqlx does not notice.
    fn is_alive(conn: &mut Self::Connection) -> BoxFuture<'_, bool> {
        let _ = conn;
        Box::pin(std::future::ready(true))
    }

    /// Takes sqlx's depth down to `outer` after [`Dialect::is_alive`] has said no.
    fn forget_levels(
        conn: &mut Self::Connection,
        outer: usize,
    ) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        let _ = (conn, outer);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Whether BEGIN waits for other transactions; otherwise the claim is the first to wait.
    const WAITS_AT_BEGIN: bool = false;

    /// Bounds how long the delivery waits, where the claim's own statement cannot; what the session had before. Nothing is changed on
    /// an error.
    fn limit_wait(
        conn: &mut Self::Connection,
        in_flight: InFlight,
    ) -> BoxFuture<'_, Result<Option<Limit>, sqlx::Error>> {
        let _ = (conn, in_flight);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Takes that back.
    fn lift_limit(
        conn: &mut Self::Connection,
        limit: Limit,
    ) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        let _ = (conn, limit);
        Box::pin(std::future::ready(Ok(())))
    }

    /// As [`Dialect::lift_limit`], when nobody waits for it any more.
    fn start_lifting_limit(conn: &mut Self::Connection, limit: Limit) {
        let _ = (conn, limit);
    }

    /// Names every column that the library uses, and the index.
    const PROBE: &'static str;

    /// Fails if the table of claims is missing or out of date.
    fn probe(conn: &mut Self::Connection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Self::run(conn, Self::PROBE)
    }

    /// Creates the table by days if a handler of the program needs it and it has no days yet.
    fn migrate_days(conn: &mut Self::Connection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        let _ = conn;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Creates or upgrades the table of claims; may run in many processes at once.
    fn migrate(conn: &mut Self::Connection) -> BoxFuture<'_, Result<(), sqlx::Error>>;
}

/// The session's own bound for waits, to be set again.
#[cfg_attr(
    not(all(feature = "postgres", feature = "mysql", feature = "sqlite")),
    allow(dead_code, reason = "each database uses some of it")
)]
#[derive(Debug, Clone, Copy)]
pub struct Limit(pub(crate) i32);

/// What a dropped future does to the connection that it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closes {
    /// Nothing that the next use does not put right.
    Never,
    /// A BEGIN under way leaves an open transaction that sqlx does not know of.
    WhileBeginning,
    /// Any statement under way may leave answers that are taken for those of the next one.
    UntilItEnds,
}

/// sqlx's depth: 0 outside a transaction, 1 in one, and 1 more for each savepoint.
pub(crate) fn depth<DB: Database>(conn: &DB::Connection) -> usize {
    DB::TransactionManager::get_transaction_depth(conn)
}

pub(crate) fn begin<DB: Database>(
    conn: &mut DB::Connection,
    statement: Option<&'static str>,
) -> impl Future<Output = Result<(), sqlx::Error>> + Send {
    DB::TransactionManager::begin(conn, statement.map(SqlSafeStr::into_sql_str))
}

pub(crate) fn commit<DB: Database>(
    conn: &mut DB::Connection,
) -> impl Future<Output = Result<(), sqlx::Error>> + Send {
    DB::TransactionManager::commit(conn)
}

pub(crate) fn rollback<DB: Database>(
    conn: &mut DB::Connection,
) -> impl Future<Output = Result<(), sqlx::Error>> + Send {
    DB::TransactionManager::rollback(conn)
}

/// Queues the ROLLBACK of one level, to be sent with the connection's next use or by the pool.
pub(crate) fn start_rollback<DB: Database>(conn: &mut DB::Connection) {
    DB::TransactionManager::start_rollback(conn);
}

/// What a database error means to a delivery, by its code.
#[cfg_attr(
    not(all(feature = "postgres", feature = "mysql", feature = "sqlite")),
    allow(dead_code, reason = "each database knows some of them")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Serialization failure or deadlock, which another transaction has won: the unit succeeds when it runs again.
    Conflict,
    /// Shutdown, out of resources: the unit may succeed when it runs again.
    Transient,
    /// Waiting for a lock took too long.
    LockTimeout,
    /// The connection failed; what was under way may have happened.
    Disconnected,
    /// The transaction is aborted and takes no more statements.
    Aborted,
    /// There is no such transaction or savepoint.
    NoTransaction,
    /// Division by zero, which PostgreSQL's seal answers where the transaction is not ours.
    DivisionByZero,
    /// The statement names a table or a column that does not exist.
    NoTable,
    /// The table by days has no partition for the row.
    NoPartition,
    /// SQLite has one code for a missing table, savepoint and transaction; what was being done tells them apart.
    NoTableOrTransaction,
    /// Anything else: the same statement fails again.
    Permanent,
}

pub(crate) fn database_fault(error: &dyn sqlx::error::DatabaseError) -> Fault {
    #[cfg(feature = "postgres")]
    if let Some(error) = error.try_downcast_ref() {
        return crate::postgres::fault(error);
    }
    #[cfg(feature = "mysql")]
    if let Some(error) = error.try_downcast_ref() {
        return crate::mysql::fault(error);
    }
    #[cfg(feature = "sqlite")]
    if let Some(error) = error.try_downcast_ref() {
        return crate::sqlite::fault(error);
    }
    let _ = error;
    Fault::Permanent
}

pub(crate) fn fault(error: &sqlx::Error) -> Fault {
    match error {
        sqlx::Error::Database(error) => database_fault(&**error),
        // A protocol error says that this connection is out of step, not that the message is wrong.
        sqlx::Error::Io(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::PoolClosed => Fault::Disconnected,
        sqlx::Error::PoolTimedOut | sqlx::Error::BeginFailed | sqlx::Error::Tls(_) => {
            Fault::Transient
        }
        _ => Fault::Permanent,
    }
}
