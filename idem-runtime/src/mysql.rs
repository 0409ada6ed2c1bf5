mod answer;
mod chunks;
mod doctor;
mod rows;
#[cfg(feature = "testing")]
mod testing;

use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, MySql, MySqlConnection, Row, Transaction};

use crate::backend::{self, BoxFuture, Closes, Dialect, Fault, Limit};
use crate::forgotten::ForgottenWhenDropped;
use crate::schema::sql;
use crate::{InFlight, Isolation};

use answer::{next_number, out_of_step};

/// Gone with the transaction that it was set in, whatever ended it: a deadlock, DDL, a COMMIT of the handler's.
const SEAL: &str = "RELEASE SAVEPOINT idem_seal";

impl Dialect for MySql {
    /// SET TRANSACTION is for the next transaction only: <https://dev.mysql.com/doc/refman/8.4/en/set-transaction.html>
    fn begin_with(isolation: Option<Isolation>) -> &'static str {
        match isolation {
            None => "BEGIN; SAVEPOINT idem_seal",
            Some(Isolation::ReadUncommitted) => {
                "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; BEGIN; SAVEPOINT idem_seal"
            }
            Some(Isolation::ReadCommitted) => {
                "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN; SAVEPOINT idem_seal"
            }
            Some(Isolation::RepeatableRead) => {
                "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; BEGIN; SAVEPOINT idem_seal"
            }
            Some(Isolation::Serializable) => {
                "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN; SAVEPOINT idem_seal"
            }
        }
    }

    /// sqlx 0.9 counts one answer for a statement that has yet to be prepared, which is answered more than once.
    const CLOSES: Closes = Closes::UntilItEnds;

    /// Two commands, and never one of two statements: a cluster (Galera) may let another node's transaction take this one away between
    /// them, and then answers the COMMIT of nothing with OK. At the beginning of a command it says so.
    fn seal_and_commit(
        conn: &mut MySqlConnection,
        _returns_to_pool: bool,
    ) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move {
            sqlx::raw_sql(SEAL).execute(&mut *conn).await?;
            backend::commit::<Self>(conn).await
        })
    }

    fn prove(conn: &mut MySqlConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Self::run(conn, "RELEASE SAVEPOINT idem_seal; SAVEPOINT idem_seal")
    }

    /// Asks for a number first: on a connection that is out of step, the answer to COMMIT would be another statement's.
    fn commit_foreign(conn: &mut MySqlConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move {
            let number = next_number();
            let question =
                format!("SELECT CAST({number} AS UNSIGNED), CAST(@@autocommit AS UNSIGNED)");
            let answer = sqlx::raw_sql(AssertSqlSafe(question))
                .fetch_optional(&mut *conn)
                .await?
                .ok_or_else(out_of_step)?;
            if answer.try_get(0).ok() != Some(number) {
                return Err(out_of_step());
            }
            if answer.try_get(1).ok() != Some(1_u64) {
                return Err(sqlx::Error::Configuration(
                    "with autocommit = 0 there is always a transaction, and no way to see that the one with the deliveries is gone; leave autocommit on".into(),
                ));
            }
            // Where there is no transaction, a savepoint is not kept.
            sqlx::raw_sql("SAVEPOINT idem_commit; RELEASE SAVEPOINT idem_commit")
                .execute(&mut *conn)
                .await?;
            backend::commit::<Self>(conn).await
        })
    }

    fn savepoint(conn: &mut MySqlConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(backend::begin::<Self>(conn, None))
    }

    fn nested(
        conn: &mut MySqlConnection,
    ) -> BoxFuture<'_, Result<Transaction<'_, Self>, sqlx::Error>> {
        Box::pin(ForgottenWhenDropped::new(Transaction::begin(conn, None)))
    }

    /// MariaDB takes 0 for "do not wait", and MySQL at least a second. The session's own value is kept in a variable meanwhile.
    fn limit_wait(
        conn: &mut MySqlConnection,
        in_flight: InFlight,
    ) -> BoxFuture<'_, Result<Option<Limit>, sqlx::Error>> {
        Box::pin(async move {
            let seconds = match in_flight.milliseconds() {
                None => return Ok(None),
                Some(0) => "IF(VERSION() LIKE '%MariaDB%', 0, 1)".to_owned(),
                Some(milliseconds) => milliseconds.unsigned_abs().div_ceil(1000).to_string(),
            };
            let set = format!(
                "SET @idem_wait = @@SESSION.innodb_lock_wait_timeout, SESSION innodb_lock_wait_timeout = {seconds}"
            );
            sqlx::raw_sql(AssertSqlSafe(set)).execute(conn).await?;
            Ok(Some(Limit(0)))
        })
    }

    fn lift_limit(conn: &mut MySqlConnection, _: Limit) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        const LIFT: &str = "SET SESSION innodb_lock_wait_timeout = @idem_wait, @idem_wait = NULL";
        Box::pin(async move { sqlx::raw_sql(LIFT).execute(conn).await.map(drop) })
    }

    const PROBE: &'static str = "SELECT consumer, message_id, processed_at, version, fingerprint, result, repeats \
        FROM processed_messages FORCE INDEX (processed_messages_processed_at) WHERE 1 = 0";

    fn run<'a>(
        conn: &'a mut MySqlConnection,
        sql: &'static str,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move { sqlx::raw_sql(sql).execute(conn).await.map(drop) })
    }

    /// MySQL cannot add a column or an index "if it does not exist", and another process may add it meanwhile.
    fn migrate(conn: &mut MySqlConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move {
            sqlx::raw_sql(sql::MYSQL).execute(&mut *conn).await?;
            for statement in sql::MYSQL_UPGRADE.split_inclusive(";\n") {
                match sqlx::raw_sql(statement).execute(&mut *conn).await {
                    Err(sqlx::Error::Database(error)) if is_there(&*error) => {}
                    other => {
                        other?;
                    }
                }
            }
            Ok(())
        })
    }
}

/// Duplicate column name, duplicate key name.
fn is_there(error: &dyn sqlx::error::DatabaseError) -> bool {
    error
        .try_downcast_ref::<MySqlDatabaseError>()
        .is_some_and(|error| matches!(error.number(), 1060 | 1061))
}

/// <https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html>,
/// <https://mariadb.com/kb/en/mariadb-error-code-reference/>
pub(crate) fn fault(error: &MySqlDatabaseError) -> Fault {
    match error.number() {
        // no such table, unknown column
        1146 | 1054 => Fault::NoTable,
        // SAVEPOINT does not exist
        1305 => Fault::NoTransaction,
        // lock wait timeout; NOWAIT
        1205 | 3572 => Fault::LockTimeout,
        // server shutdown, network reads and writes, killed connection, closed for idleness; error during commit (Galera)
        1053 | 1158..=1161 | 1180 | 1927 | 2006 | 2013 | 4031 => Fault::Disconnected,
        // record changed since last read, deadlock, XA deadlock; table changed since the transaction's snapshot
        1020 | 1213 | 1614 | 1412 => Fault::Conflict,
        // disk full, too many connections, out of resources, not ready (Galera), read-only server, query interrupted, read-only mode,
        // statement timeouts; too many transactions, lock wait given up for a DDL, table skipped for one, tables locked for a backup
        1021 | 1040 | 1041 | 1047 | 1290 | 1317 | 1836 | 1969 | 3024 | 1637 | 1689 | 1684 | 1223
        // access denied to database, user, table, column, for want of a privilege; no such database: nobody's message's fault
        | 1044 | 1045 | 1142 | 1143 | 1227 | 1049
        // table full, error of the storage engine, out of memory (also for sorting), no thread, too many connections or prepared
        // statements, lock table full, limit of a resource, prepared statement to be prepared anew or unknown, group replication
        | 1114 | 1030 | 1037 | 1038 | 1135 | 1203 | 1461 | 1206 | 1226 | 1615 | 1243 | 3101 => Fault::Transient,
        _ => Fault::Permanent,
    }
}
