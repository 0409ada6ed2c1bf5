mod by_day;
mod chunks;
pub(crate) mod days;
mod doctor;
mod rows;
#[cfg(feature = "testing")]
mod testing;

use sqlx::postgres::{PgDatabaseError, PgSeverity};
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Transaction};

use crate::Isolation;
use crate::backend::{self, BoxFuture, Closes, Dialect, Fault};
use crate::forgotten::ForgottenWhenDropped;

/// Fails in an aborted transaction, as any statement does, and divides by zero in one that [`Dialect::begin_with`] did not open.
const SEAL_AND_COMMIT: &str =
    "SELECT 1 / (coalesce(current_setting('idem.seal', true), '') = 'set')::int; COMMIT AND CHAIN";

impl Dialect for Postgres {
    /// The setting is the seal: it is gone with the transaction, whatever ends that.
    fn begin_with(isolation: Option<Isolation>) -> &'static str {
        match isolation {
            None => "BEGIN; SET LOCAL idem.seal = 'set'",
            Some(Isolation::ReadUncommitted) => {
                "BEGIN ISOLATION LEVEL READ UNCOMMITTED; SET LOCAL idem.seal = 'set'"
            }
            Some(Isolation::ReadCommitted) => {
                "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idem.seal = 'set'"
            }
            Some(Isolation::RepeatableRead) => {
                "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL idem.seal = 'set'"
            }
            Some(Isolation::Serializable) => {
                "BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL idem.seal = 'set'"
            }
        }
    }

    const CLOSES: Closes = Closes::WhileBeginning;

    fn seal_and_commit(
        conn: &mut PgConnection,
        returns_to_pool: bool,
    ) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        commit_and_chain(conn, SEAL_AND_COMMIT, returns_to_pool)
    }

    fn commit_foreign(conn: &mut PgConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        commit_and_chain(conn, "SELECT 1; COMMIT AND CHAIN", false)
    }

    fn savepoint(conn: &mut PgConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(ForgottenWhenDropped::new(Box::pin(backend::begin::<Self>(
            conn, None,
        ))))
    }

    /// When this is dropped half-way, sqlx's ROLLBACK TO goes out after it. ROLLBACK TO keeps its savepoint, so that after any nested
    /// rollback there may be an older one of the same name, back to which that would undo what others have done since. A new one
    /// stands in front of it, and makes the ROLLBACK TO one of nothing; it is also what takes sqlx's depth back here.
    fn release(conn: &mut PgConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move {
            let level = backend::depth::<Self>(conn).saturating_sub(1);
            let anew = format!(
                "RELEASE SAVEPOINT _sqlx_savepoint_{level}; SAVEPOINT _sqlx_savepoint_{level}"
            );
            sqlx::raw_sql(AssertSqlSafe(anew))
                .execute(&mut *conn)
                .await?;
            backend::start_rollback::<Self>(conn);
            Ok(())
        })
    }

    fn nested(
        conn: &mut PgConnection,
    ) -> BoxFuture<'_, Result<Transaction<'_, Self>, sqlx::Error>> {
        Box::pin(ForgottenWhenDropped::new(Transaction::begin(conn, None)))
    }

    fn run<'a>(
        conn: &'a mut PgConnection,
        sql: &'static str,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move { sqlx::raw_sql(sql).execute(conn).await.map(drop) })
    }

    const PROBE: &'static str = "SELECT consumer, message_id, processed_at, version, fingerprint, result FROM processed_messages WHERE 1 = 0; \
        SELECT 1 / count(*) FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0] \
        WHERE indrelid = 'processed_messages'::regclass AND attname = 'processed_at'";

    fn migrate_days(conn: &mut PgConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(days::create_if_needed(conn))
    }

    /// `CREATE TABLE IF NOT EXISTS` fails when two sessions run it at once, hence the lock, whose number is arbitrary. The statements
    /// of one simple query are one transaction:
    /// <https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-MULTI-STATEMENT>
    fn migrate(conn: &mut PgConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        const MIGRATE: &str = concat!(
            "SELECT pg_advisory_xact_lock(7236837105317);\n",
            include_str!("schema/postgres.sql"),
            include_str!("schema/postgres_upgrade.sql")
        );
        Box::pin(async move { sqlx::raw_sql(MIGRATE).execute(conn).await.map(drop) })
    }
}

/// PostgreSQL answers the COMMIT of an aborted transaction with ROLLBACK, which sqlx takes for success; a statement before it fails
/// instead. AND CHAIN fails where there is no transaction at all, and leaves an empty one, so that the ROLLBACK with which sqlx takes
/// its depth back has something to end. That goes out with the ping of the pool; a connection that the caller holds would stay "idle
/// in transaction" until its next use, and gets a round trip for it. <https://www.postgresql.org/docs/current/sql-commit.html>
fn commit_and_chain<'a>(
    conn: &'a mut PgConnection,
    sql: &'static str,
    returns_to_pool: bool,
) -> BoxFuture<'a, Result<(), sqlx::Error>> {
    Box::pin(async move {
        sqlx::raw_sql(sql).execute(&mut *conn).await?;
        if returns_to_pool {
            backend::start_rollback::<Postgres>(conn);
        } else {
            // The effect is committed, whatever becomes of the connection.
            backend::rollback::<Postgres>(conn).await.ok();
        }
        Ok(())
    })
}

/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>
pub(crate) fn fault(error: &PgDatabaseError) -> Fault {
    // Whatever the reason, the connection is closed. Poolers have codes of their own for it: pgbouncer says 08P01.
    if matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic) {
        return Fault::Disconnected;
    }
    match error.code() {
        // undefined_table, undefined_column, invalid_schema_name; no unique constraint matches ON CONFLICT
        "42P01" | "42703" | "3F000" | "42P10" => Fault::NoTable,
        "22012" => Fault::DivisionByZero,
        // check_violation, of a row without a partition
        "23514"
            if error.table() == Some("processed_messages_by_day")
                && error.constraint().is_none() =>
        {
            Fault::NoPartition
        }
        // in_failed_sql_transaction
        "25P02" => Fault::Aborted,
        // no_active_sql_transaction, invalid_savepoint_specification
        "25P01" | "3B001" => Fault::NoTransaction,
        // lock_not_available
        "55P03" => Fault::LockTimeout,
        // serialization_failure, deadlock_detected
        "40001" | "40P01" => Fault::Conflict,
        // admin_shutdown, crash_shutdown, cannot_connect_now, database_dropped, idle_session_timeout; idle_in_transaction and
        // transaction time-outs; statement_completion_unknown
        "57P01" | "57P02" | "57P03" | "57P04" | "57P05" | "25P03" | "25P04" | "40003" => {
            Fault::Disconnected
        }
        // query_canceled, object_in_use, read_only_sql_transaction (a server that is no longer the primary); insufficient_privilege, no
        // such database, and prepared statements lost to DISCARD ALL or a pooler, which are nobody's message's fault
        "57014" | "55006" | "25006" | "42501" | "3D000" | "26000" | "42P05" => Fault::Transient,
        // A plan that DDL has made out of date.
        "0A000" if error.routine() == Some("RevalidateCachedQuery") => Fault::Transient,
        // protocol_violation, as by a wrong number of parameters
        "08P01" => Fault::Permanent,
        // connection exception
        code if code.starts_with("08") => Fault::Disconnected,
        // invalid authorization, transaction rollback, insufficient resources, system and internal error
        code if ["28", "40", "53", "58", "XX"]
            .iter()
            .any(|class| code.starts_with(class)) =>
        {
            Fault::Transient
        }
        _ => Fault::Permanent,
    }
}
