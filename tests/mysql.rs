//! The contract on MariaDB, and what is particular to it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod contract;
#[path = "contract/costs.rs"]
mod costs;
#[path = "contract/server.rs"]
mod server;

#[path = "contract/plain.rs"]
mod plain;
#[path = "contract/upgrade.rs"]
mod upgrade;

mod db {
    pub(crate) use crate::plain::*;
    pub(crate) use sqlx::{MySql as Db, MySqlConnection as Conn};

    /// How its protocol is framed, if it has one.
    pub(crate) const WIRE: Option<idem_tests::Wire> = Some(idem_tests::Wire::MySql);
    /// How often every delivery at least waits for an answer.
    pub(crate) const WAITS: usize = 3;
    /// Whether sqlx loses step when a statement is cancelled.
    pub(crate) const CANCELLED_IS_UNUSABLE: bool = true;
    pub(crate) const EFFECT: &str = "INSERT INTO effects (message) VALUES (?)";
    pub(crate) const EFFECTS_OF: &str = "SELECT count(*) FROM effects WHERE message = ?";
    pub(crate) const EFFECTS: &str =
        "CREATE TABLE effects (message varbinary(2000) NOT NULL) ENGINE = InnoDB";
    /// Whether a transaction has an isolation level.
    pub(crate) const HAS_LEVELS: bool = true;
    /// Whether a statement that fails aborts the transaction.
    pub(crate) const ABORTS: bool = false;
    /// For sessions in which [`conflict`] can be.
    pub(crate) const SNAPSHOTS: &str = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";
    pub(crate) const CONFLICTS: &str = "CREATE TABLE conflicts (id int PRIMARY KEY, n bigint NOT NULL) ENGINE = InnoDB; INSERT INTO conflicts VALUES (1, 0), (2, 0)";
    /// The table of claims as the first users created it, before any argument needed a column of its own.
    pub(crate) const OLDER: &str = r"CREATE TABLE IF NOT EXISTS processed_messages (
  consumer     varbinary(255)  NOT NULL,
  message_id   varbinary(1024) NOT NULL,
  processed_at timestamp(6)    NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (consumer, message_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;";
    pub(crate) const ADD_COLUMNS: &str = idem::sql::MYSQL_UPGRADE;
    /// How long the session waits for locks; where it waits as long as [`SET`], it was told to by [`SET_OWN_WAIT`].
    pub(crate) const OWN_WAIT: &str = "SELECT CAST(@@SESSION.innodb_lock_wait_timeout AS SIGNED)";
    pub(crate) const SET_OWN_WAIT: &str = "SET SESSION innodb_lock_wait_timeout = 7";
    pub(crate) const SET: i64 = 7;
    /// What was applied, in its order.
    pub(crate) const LOG: &str = "CREATE TABLE log (id bigint PRIMARY KEY AUTO_INCREMENT, version bigint NOT NULL) ENGINE = InnoDB";
    pub(crate) const CLAIMS_OF: &str =
        "SELECT count(*) FROM processed_messages WHERE message_id = ?";

    /// The statements that claim a message, and one with a business key.
    pub(crate) const STATEMENTS: usize = 1;
    pub(crate) const STATEMENTS_BOTH: usize = 1;
    /// What only the claim of a message with one key has in its text.
    pub(crate) const CLAIM: &str = "INSERT INTO processed_messages (consumer, message_id) ";
    /// The round trips more that tell which of several claims were there, where the claims' own statement does not.
    pub(crate) const MET: usize = 1;
    /// Those that bound a wait.
    pub(crate) const BOUND: usize = 2;
    /// Those that prove the seal and store a value, for a message with one key and with two.
    pub(crate) const STORES: usize = 2;
    pub(crate) const STORES_BOTH: usize = 3;
    pub(crate) const SET_ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL";
    pub(crate) const CONNECTION_ID: &str = "SELECT CAST(connection_id() AS SIGNED)";
    pub(crate) const KILL: &str = "KILL {}";
    pub(crate) const IS_CONNECTED: &str =
        "SELECT count(*) FROM information_schema.processlist WHERE id = {}";
    pub(crate) const BEGIN_SENT: &str = "BEGIN; SAVEPOINT idem_seal";
    pub(crate) const COMMIT_SENT: &[&str] = &["RELEASE SAVEPOINT idem_seal", "COMMIT"];

    /// The server keeps what this asks for until nobody has asked for a tenth of a second; what is of now holds this very query.
    pub(crate) async fn level(conn: &mut Conn) -> Result<String, sqlx::Error> {
        static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let _alone = ONE_AT_A_TIME.lock().await;
        loop {
            tokio::time::sleep(std::time::Duration::from_millis(110)).await;
            let number = uuid::Uuid::new_v4();
            let sql = format!(
                "SELECT LOWER(trx_isolation_level) FROM information_schema.innodb_trx \
                 WHERE trx_mysql_thread_id = connection_id() AND trx_query LIKE '%{number}%'"
            );
            let level = sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
                .persistent(false)
                .fetch_optional(&mut *conn)
                .await?;
            if let Some(level) = level {
                return Ok(level);
            }
        }
    }

    /// Loses against another transaction, by a deadlock.
    pub(crate) async fn conflict(pool: &sqlx::Pool<Db>, tx: &mut Conn) -> Result<(), sqlx::Error> {
        const FIRST: &str = "UPDATE conflicts SET n = n + 1 WHERE id = 1";
        const SECOND: &str = "UPDATE conflicts SET n = n + 1 WHERE id = 2";
        sqlx::query(SECOND).execute(&mut *tx).await?;
        let mut other = pool.begin().await?;
        // The server rolls back who has changed less.
        sqlx::query("INSERT INTO effects (message) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) SELECT 'weight' FROM n")
            .execute(&mut *other)
            .await?;
        sqlx::query(FIRST).execute(&mut *other).await?;
        let winner = tokio::spawn(async move {
            sqlx::query(SECOND).execute(&mut *other).await?;
            other.rollback().await
        });
        let lost = sqlx::query(FIRST).execute(tx).await;
        winner.await.expect("no panic")?;
        lost.map(drop)
    }
}

#[path = "contract/mysql.rs"]
mod particular;
#[path = "contract/mysql_arguments.rs"]
mod particular_arguments;
