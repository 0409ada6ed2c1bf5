use std::collections::BTreeSet;

use sqlx::{AssertSqlSafe, MySql, MySqlConnection};

use crate::backend::BoxFuture;
use crate::testing::Harms;

const REFUSE: &str = "IF @idem_left IS NOT NULL THEN \
        SET @idem_left = @idem_left - 1; \
        IF @idem_left = 0 THEN \
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'idem::testing refuses this write'; \
        END IF; \
    END IF";

const LOCK: &str = "SELECT GET_LOCK(CONCAT('idem_refuse ', MD5(DATABASE())), 60)";

/// As bytes these columns have a type that is no text to sqlx.
const TABLES: &str = "SELECT CAST(table_name AS CHAR) FROM information_schema.tables \
    WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND table_name <> 'processed_messages' ORDER BY table_name";

const TRIGGERS: &str = "SELECT CAST(trigger_name AS CHAR) FROM information_schema.triggers \
    WHERE trigger_schema = DATABASE() AND trigger_name LIKE 'idem\\_refuse\\_%'";

impl Harms for MySql {
    const KILLS: bool = true;

    /// The server answers with an error and closes, or only closes.
    fn kill(conn: &mut MySqlConnection) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let kill = sqlx::raw_sql("KILL CONNECTION CONNECTION_ID()");
            kill.execute(conn).await.ok();
        })
    }

    /// CREATE TRIGGER commits (<https://dev.mysql.com/doc/refman/8.4/en/implicit-commit.html>), so that the triggers are made beforehand, for
    /// everybody, and heed a variable of the session. MySQL has triggers for rows only.
    fn prepare(conn: &mut MySqlConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move {
            // Triggers are everybody's: one proof at a time has them in this database. The lock ends with the connection.
            sqlx::raw_sql(LOCK).execute(&mut *conn).await?;
            // Of a proof that was interrupted.
            Self::clean_up(conn).await?;
            let tables: Vec<String> = sqlx::query_scalar(TABLES).fetch_all(&mut *conn).await?;
            for (at, table) in tables.iter().enumerate() {
                let table = table.replace('`', "``");
                for verb in ["INSERT", "UPDATE", "DELETE"] {
                    let trigger = format!(
                        "CREATE TRIGGER idem_refuse_{verb}_{at} BEFORE {verb} ON `{table}` FOR EACH ROW {REFUSE}"
                    );
                    let trigger = sqlx::raw_sql(AssertSqlSafe(trigger));
                    trigger.execute(&mut *conn).await?;
                }
            }
            Ok(())
        })
    }

    fn clean_up(conn: &mut MySqlConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move {
            let triggers: Vec<String> = sqlx::query_scalar(TRIGGERS).fetch_all(&mut *conn).await?;
            for trigger in triggers {
                let drop =
                    sqlx::raw_sql(AssertSqlSafe(format!("DROP TRIGGER IF EXISTS {trigger}")));
                drop.execute(&mut *conn).await?;
            }
            Ok(())
        })
    }

    fn refuse_write<'a>(
        conn: &'a mut MySqlConnection,
        number: u32,
        _: &'a BTreeSet<String>,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move {
            let set = format!("SET @idem_number = {number}, @idem_left = {number}");
            let set = sqlx::raw_sql(AssertSqlSafe(set));
            set.execute(conn).await.map(drop)
        })
    }

    fn allow_writes(conn: &mut MySqlConnection) -> BoxFuture<'_, Result<u32, sqlx::Error>> {
        const WRITES: &str = "SELECT CAST(@idem_number - @idem_left AS UNSIGNED)";
        Box::pin(async move {
            let writes: u64 = sqlx::query_scalar(WRITES).fetch_one(&mut *conn).await?;
            let unset = sqlx::raw_sql("SET @idem_number = NULL, @idem_left = NULL");
            unset.execute(conn).await?;
            Ok(u32::try_from(writes).unwrap_or(u32::MAX))
        })
    }

    fn forget<'a>(
        conn: &'a mut MySqlConnection,
        consumer: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        const FORGET: &str = "DELETE FROM processed_messages WHERE consumer = ? AND message_id = ?";
        Box::pin(async move {
            let forget = sqlx::query(FORGET)
                .bind(consumer.as_bytes())
                .bind(key.as_bytes());
            forget.execute(conn).await.map(drop)
        })
    }
}
