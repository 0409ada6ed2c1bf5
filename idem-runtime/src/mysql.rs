use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, MySql, MySqlConnection, Row, Transaction};

use crate::backend::{self, BoxFuture, Closes, Dialect, Fault};
use crate::forgotten::ForgottenWhenDropped;

/// Both ways the answer carries a number of this delivery's as its "last insert id": the first if the claim is new, the second if it was
/// there. The count of rows would not tell, since sqlx asks the server to count rows that are found. A number that is neither says
/// that this is the answer to another statement: sqlx 0.9 loses step when a statement is cancelled while it is prepared, and a
/// connection that went back to its pool so must not decide whether a message is new.
///
/// When a transaction with the claim rolls back, all but one of its waiters deadlock, as they do with a plain INSERT; that is transient.
const CLAIM: &str = "INSERT INTO processed_messages (consumer, message_id) SELECT ?, ? FROM DUAL WHERE LAST_INSERT_ID(?) > 0 \
    ON DUPLICATE KEY UPDATE consumer = IF(LAST_INSERT_ID(?) > 0, processed_messages.consumer, processed_messages.consumer)";

/// Gone with the transaction that it was set in, whatever ended it: a deadlock, DDL, a COMMIT of the handler's.
const SEAL: &str = "RELEASE SAVEPOINT idem_seal";

impl Dialect for MySql {
    const BEGIN: &'static str = "BEGIN; SAVEPOINT idem_seal";

    /// sqlx 0.9 counts one answer for a statement that has yet to be prepared, which is answered more than once.
    const CLOSES: Closes = Closes::UntilItEnds;

    fn insert<'a>(
        conn: &'a mut MySqlConnection,
        consumer: &'a str,
        key: &'a str,
        persistent: bool,
    ) -> BoxFuture<'a, Result<bool, sqlx::Error>> {
        Box::pin(async move {
            let fresh = next_number();
            let duplicate = next_number();
            let done = sqlx::query(CLAIM)
                .persistent(persistent)
                .bind(consumer.as_bytes())
                .bind(key.as_bytes())
                .bind(fresh)
                .bind(duplicate)
                .execute(conn)
                .await?;
            match done.last_insert_id() {
                id if id == fresh => Ok(true),
                id if id == duplicate => Ok(false),
                _ => Err(out_of_step()),
            }
        })
    }

    /// One round trip leaves sqlx with a ROLLBACK to send, of nothing, which takes its depth back; it goes out with the ping of the
    /// pool. A connection that the caller holds gets two round trips.
    fn seal_and_commit(
        conn: &mut MySqlConnection,
        returns_to_pool: bool,
    ) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move {
            if returns_to_pool {
                sqlx::raw_sql("RELEASE SAVEPOINT idem_seal; COMMIT")
                    .execute(&mut *conn)
                    .await?;
                backend::start_rollback::<Self>(conn);
                return Ok(());
            }
            sqlx::raw_sql(SEAL).execute(&mut *conn).await?;
            backend::commit::<Self>(conn).await
        })
    }

    /// Asks for a number first: on a connection that is out of step, the answer to COMMIT would be another statement's.
    fn commit_foreign(conn: &mut MySqlConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move {
            let number = next_number();
            let question = AssertSqlSafe(format!("SELECT CAST({number} AS UNSIGNED)"));
            let answer = sqlx::raw_sql(question).fetch_optional(&mut *conn).await?;
            if answer.and_then(|row| row.try_get(0).ok()) != Some(number) {
                return Err(out_of_step());
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

    fn probe(conn: &mut MySqlConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move { sqlx::raw_sql(Self::PROBE).execute(conn).await.map(drop) })
    }

    fn migrate(conn: &mut MySqlConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move {
            sqlx::raw_sql(crate::schema::sql::MYSQL)
                .execute(conn)
                .await
                .map(drop)
        })
    }
}

/// A number that no earlier answer on any connection of this process holds.
fn next_number() -> u64 {
    static NUMBER: AtomicU64 = AtomicU64::new(1 << 32);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

fn out_of_step() -> sqlx::Error {
    sqlx::Error::Protocol(
        "the connection gave the answer to another statement: an earlier one was cancelled, and it cannot be used any more; or the table \
         `processed_messages` has an AUTO_INCREMENT column or a trigger that inserts into a table with one, which it must not"
            .to_owned(),
    )
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
        // record changed since last read, disk full, too many connections, out of resources, not ready (Galera), deadlock, read-only
        // server, query interrupted, XA deadlock, read-only mode, statement timeouts
        1020 | 1021 | 1040 | 1041 | 1047 | 1213 | 1290 | 1317 | 1614 | 1836 | 1969 | 3024
        // access denied to database, user, table, column, for want of a privilege; no such database: nobody's message's fault
        | 1044 | 1045 | 1142 | 1143 | 1227 | 1049
        // table full, error of the storage engine, out of memory (also for sorting), no thread, too many connections or prepared
        // statements, lock table full, limit of a resource, prepared statement to be prepared anew or unknown, group replication
        | 1114 | 1030 | 1037 | 1038 | 1135 | 1203 | 1461 | 1206 | 1226 | 1615 | 1243 | 3101 => Fault::Transient,
        _ => Fault::Permanent,
    }
}
