mod chunks;
mod doctor;
mod rows;
#[cfg(feature = "testing")]
mod testing;

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use sqlx::error::DatabaseError;
use sqlx::sqlite::SqliteError;
use sqlx::{
    AssertSqlSafe, Connection, Row as _, SqlSafeStr, Sqlite, SqliteConnection, Transaction,
};

use crate::backend::{self, BoxFuture, Closes, Dialect, Fault, Limit};
use crate::schema::sql;
use crate::{InFlight, Isolation};

impl Dialect for Sqlite {
    /// IMMEDIATE, since a transaction that begins as a reader and then writes fails at once with `SQLITE_BUSY_SNAPSHOT` when another
    /// has written in between: <https://www.sqlite.org/lang_transaction.html>. The savepoint is the seal: some errors roll the
    /// transaction back, and the savepoint with it.
    fn begin_with(_: Option<Isolation>) -> &'static str {
        "BEGIN IMMEDIATE; SAVEPOINT idem_seal"
    }

    const HAS_LEVELS: bool = false;

    const WAITS_AT_BEGIN: bool = true;

    /// sqlx's worker thread rolls a BEGIN back when nobody takes its answer.
    const CLOSES: Closes = Closes::Never;

    fn seal_and_commit(
        conn: &mut SqliteConnection,
        _: bool,
    ) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move {
            sqlx::raw_sql("RELEASE SAVEPOINT idem_seal")
                .execute(&mut *conn)
                .await?;
            backend::commit::<Self>(conn).await
        })
    }

    fn prove(conn: &mut SqliteConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Self::run(conn, "RELEASE SAVEPOINT idem_seal; SAVEPOINT idem_seal")
    }

    fn savepoint(conn: &mut SqliteConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(backend::begin::<Self>(conn, None))
    }

    /// The depth is the worker thread's, which is behind: what is nested in a savepoint has queued its own ROLLBACK before.
    fn levels_to_drop(_: &SqliteConnection, _: usize) -> usize {
        1
    }

    /// Dropped half-way, the worker thread would keep in mind to ignore the next ROLLBACK, of whichever transaction. RELEASE and ROLLBACK TO
    /// wait for no disk: as in [`Dialect::nested`].
    fn release(conn: &mut SqliteConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move {
            Self::settle(conn).await?;
            wait_for(Box::pin(backend::commit::<Self>(conn)))
        })
    }

    fn roll_back_to(conn: &mut SqliteConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move {
            Self::settle(conn).await?;
            wait_for(Box::pin(backend::rollback::<Self>(conn)))
        })
    }

    /// [`Transaction::begin`] must not be dropped half-way, as it would roll the outer transaction back. SAVEPOINT waits for no lock and
    /// no disk, and the worker thread has nothing else to do, so that waiting for it on the spot costs some microseconds.
    fn nested(
        conn: &mut SqliteConnection,
    ) -> BoxFuture<'_, Result<Transaction<'_, Self>, sqlx::Error>> {
        Box::pin(async move {
            Self::settle(conn).await?;
            wait_for(Transaction::begin(conn, None))
        })
    }

    fn settle(conn: &mut SqliteConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(conn.ping())
    }

    /// A full disk, an I/O error or a conflict under `OR ROLLBACK` ends the transaction: <https://www.sqlite.org/lang_transaction.html>.
    /// BEGIN succeeds only then. It is taken back on the spot, since it must not stay when the delivery is dropped.
    fn is_alive(conn: &mut SqliteConnection) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            if Self::settle(conn).await.is_err() {
                return true;
            }
            let is_dead = now(conn, "BEGIN").is_ok();
            if is_dead {
                now(conn, "ROLLBACK").ok();
            }
            !is_dead
        })
    }

    /// sqlx lowers its depth only when a ROLLBACK succeeds, so that it gets something to roll back. An outer transaction stays as dead as
    /// it was, for its owner's COMMIT to fail.
    fn forget_levels(
        conn: &mut SqliteConnection,
        outer: usize,
    ) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move {
            Self::settle(conn).await?;
            now(conn, "BEGIN")?;
            for level in 1..backend::depth::<Self>(conn) {
                let savepoint = format!("SAVEPOINT _sqlx_savepoint_{level}");
                now(conn, AssertSqlSafe(savepoint))?;
            }
            while backend::depth::<Self>(conn) > outer {
                wait_for(Box::pin(backend::rollback::<Self>(conn)))?;
            }
            if outer > 0 {
                now(conn, "ROLLBACK")?;
            }
            Ok(())
        })
    }

    fn limit_wait(
        conn: &mut SqliteConnection,
        in_flight: InFlight,
    ) -> BoxFuture<'_, Result<Option<Limit>, sqlx::Error>> {
        Box::pin(async move {
            let Some(milliseconds) = in_flight.milliseconds() else {
                return Ok(None);
            };
            Self::settle(conn).await?;
            // Both on the spot, so that the delivery is not dropped between them.
            let row = wait_for(sqlx::raw_sql("PRAGMA busy_timeout").fetch_one(&mut *conn))?;
            let session = row.try_get(0)?;
            now(conn, busy_timeout(milliseconds))?;
            Ok(Some(Limit(session)))
        })
    }

    fn lift_limit(
        conn: &mut SqliteConnection,
        Limit(session): Limit,
    ) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move {
            sqlx::raw_sql(busy_timeout(session))
                .execute(conn)
                .await
                .map(drop)
        })
    }

    /// The worker thread does what it was told, in order, whether or not somebody waits for the answer. Telling it takes one poll.
    fn start_lifting_limit(conn: &mut SqliteConnection, limit: Limit) {
        let mut lift = Self::lift_limit(conn, limit);
        let _ = lift.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }

    const PROBE: &'static str = "SELECT consumer, message_id, processed_at, version, fingerprint, result \
        FROM processed_messages INDEXED BY processed_messages_processed_at WHERE consumer = '' AND processed_at = ''";

    fn run<'a>(
        conn: &'a mut SqliteConnection,
        sql: &'static str,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move { sqlx::raw_sql(sql).execute(conn).await.map(drop) })
    }

    /// SQLite cannot add a column "if it does not exist". IMMEDIATE keeps other processes out meanwhile.
    fn migrate(conn: &mut SqliteConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move {
            let is_outermost = backend::depth::<Self>(conn) == 0;
            let begin = is_outermost.then(|| SqlSafeStr::into_sql_str("BEGIN IMMEDIATE"));
            let mut transaction: Transaction<'_, Self> = Transaction::begin(conn, begin).await?;
            sqlx::raw_sql(sql::SQLITE)
                .execute(&mut *transaction)
                .await?;
            for statement in sql::SQLITE_UPGRADE.split_inclusive(";\n") {
                let mut words = statement.split_whitespace();
                let column = words.nth(5).filter(|_| statement.starts_with("ALTER"));
                let is_there: bool = sqlx::query_scalar(
                    "SELECT count(*) > 0 FROM pragma_table_info('processed_messages') WHERE name = ?",
                )
                .bind(column)
                .fetch_one(&mut *transaction)
                .await?;
                if !is_there {
                    sqlx::raw_sql(statement).execute(&mut *transaction).await?;
                }
            }
            transaction.commit().await
        })
    }
}

fn busy_timeout(milliseconds: i32) -> AssertSqlSafe<String> {
    AssertSqlSafe(format!("PRAGMA busy_timeout = {milliseconds}"))
}

/// Runs statements that wait for nothing, without a point at which the delivery could be dropped.
fn now(conn: &mut SqliteConnection, sql: impl SqlSafeStr) -> Result<(), sqlx::Error> {
    let sql = sqlx::raw_sql(sql);
    wait_for(Box::pin(sql.execute(conn))).map(drop)
}

/// Polls a future to its end on this thread.
fn wait_for<T>(mut future: BoxFuture<'_, T>) -> T {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// The primary code is the low byte of the extended one: <https://www.sqlite.org/rescode.html>
pub(crate) fn fault(error: &SqliteError) -> Fault {
    let code: i32 = error
        .code()
        .and_then(|code| code.parse().ok())
        .unwrap_or_default();
    match code & 0xff {
        // SQLITE_ERROR: no such table, no such savepoint, no transaction is active
        1 => Fault::NoTableOrTransaction,
        // BUSY_SNAPSHOT: another connection has written since this transaction's first read
        5 if code == 517 => Fault::Conflict,
        // BUSY: another connection is writing
        5 => Fault::LockTimeout,
        // SCHEMA, PERM, LOCKED, NOMEM, READONLY, INTERRUPT, IOERR, CORRUPT, FULL, CANTOPEN, PROTOCOL, AUTH, NOTADB
        17 | 3 | 6 | 7 | 8 | 9 | 10 | 11 | 13 | 14 | 15 | 23 | 26 => Fault::Transient,
        _ => Fault::Permanent,
    }
}
