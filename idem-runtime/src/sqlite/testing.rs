use std::collections::BTreeSet;

use sqlx::{AssertSqlSafe, Connection, Pool, Sqlite, SqliteConnection};

use crate::backend::BoxFuture;
use crate::testing::Harms;

const CREATE: &str =
    "CREATE TEMP TABLE idem_writes (number INTEGER NOT NULL); INSERT INTO idem_writes VALUES (0)";

/// Tables of their own kinds (virtual ones, and their shadows) take no triggers.
const TABLES: &str = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' \
    AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name <> 'processed_messages' ORDER BY name";

const VERBS: [&str; 3] = ["INSERT", "UPDATE", "DELETE"];

impl Harms for Sqlite {
    /// sqlx closes a connection when its `acquire()` is cancelled, and a database in memory with it.
    fn keep(pool: &Pool<Sqlite>) -> BoxFuture<'_, Result<Option<SqliteConnection>, sqlx::Error>> {
        Box::pin(async move {
            let options = pool.connect_options();
            SqliteConnection::connect_with(&options).await.map(Some)
        })
    }

    const KILLS: bool = false;

    fn kill(_: &mut SqliteConnection) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Temporary triggers, which are gone with the transaction when it rolls back. SQLite has triggers for rows only, so that these are
    /// counted. FAIL keeps the count, as ABORT would not: <https://www.sqlite.org/lang_createtrigger.html#the_raise_function>
    fn refuse_write<'a>(
        conn: &'a mut SqliteConnection,
        number: u32,
        _: &'a BTreeSet<String>,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move {
            let tables: Vec<String> = sqlx::query_scalar(TABLES).fetch_all(&mut *conn).await?;
            let mut statements = vec![CREATE.to_owned()];
            for (at, table) in tables.iter().enumerate() {
                let table = table.replace('"', "\"\"");
                statements.extend(VERBS.map(|verb| {
                    format!(
                        "CREATE TEMP TRIGGER idem_refuse_{verb}_{at} BEFORE {verb} ON main.\"{table}\" BEGIN \
                         UPDATE idem_writes SET number = number + 1; \
                         SELECT RAISE(FAIL, 'idem::testing refuses this write') FROM idem_writes WHERE number = {number}; END"
                    )
                }));
            }
            let sql = AssertSqlSafe(statements.join("; "));
            sqlx::raw_sql(sql).execute(conn).await?;
            Ok(())
        })
    }

    fn allow_writes(conn: &mut SqliteConnection) -> BoxFuture<'_, Result<u32, sqlx::Error>> {
        const TRIGGERS: &str = "SELECT name FROM sqlite_temp_master WHERE type = 'trigger' AND name LIKE 'idem\\_refuse\\_%' ESCAPE '\\'";
        Box::pin(async move {
            let writes = sqlx::query_scalar("SELECT number FROM idem_writes")
                .fetch_one(&mut *conn)
                .await?;
            let triggers: Vec<String> = sqlx::query_scalar(TRIGGERS).fetch_all(&mut *conn).await?;
            let mut statements = vec!["DROP TABLE temp.idem_writes".to_owned()];
            statements.extend(
                triggers
                    .iter()
                    .map(|name| format!("DROP TRIGGER temp.{name}")),
            );
            let sql = AssertSqlSafe(statements.join("; "));
            sqlx::raw_sql(sql).execute(conn).await?;
            Ok(writes)
        })
    }

    fn forget<'a>(
        conn: &'a mut SqliteConnection,
        consumer: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        const FORGET: &str = "DELETE FROM processed_messages WHERE consumer = ? AND message_id = ?";
        Box::pin(async move {
            let forget = sqlx::query(FORGET).bind(consumer).bind(key);
            forget.execute(conn).await.map(drop)
        })
    }
}
