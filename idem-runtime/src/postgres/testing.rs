use std::collections::BTreeSet;
use std::time::Duration;

use sqlx::{AssertSqlSafe, PgConnection, Postgres};

use crate::backend::{self, BoxFuture, Fault};
use crate::testing::Harms;

/// A sequence counts on when a savepoint rolls back. CREATE TRIGGER waits for whoever else writes to the table.
const REFUSE: &str = "CREATE TEMP SEQUENCE idem_writes; \
    CREATE FUNCTION pg_temp.idem_refuse() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $idem$ BEGIN \
        IF nextval('pg_temp.idem_writes') = $number THEN \
            RAISE EXCEPTION 'idem::testing refuses this write' USING ERRCODE = 'io_error'; \
        END IF; \
        RETURN NULL; \
    END $idem$; \
    SELECT set_config('idem.lock_timeout', current_setting('lock_timeout'), true), set_config('lock_timeout', '5s', true); \
    $triggers \
    SELECT set_config('lock_timeout', current_setting('idem.lock_timeout'), true)";

/// A statement that writes to a table locks it so, and nothing else does. The claims are the library's own.
const WRITTEN: &str = "SELECT format('%I.%I', nspname, relname) FROM pg_locks \
    JOIN pg_class ON pg_class.oid = relation JOIN pg_namespace ON pg_namespace.oid = relnamespace \
    WHERE pid = pg_backend_pid() AND locktype = 'relation' AND mode = 'RowExclusiveLock' AND relkind IN ('r', 'p') \
    AND nspname NOT LIKE 'pg\\_%' AND relname NOT LIKE 'processed\\_messages%'";

/// The body may have taken another role.
const ALLOW: &str = "SELECT set_config('idem.role', current_setting('role'), true), set_config('role', 'none', true)";

const ALLOWED: &str = "DROP FUNCTION pg_temp.idem_refuse() CASCADE; DROP SEQUENCE pg_temp.idem_writes; \
    SELECT set_config('role', current_setting('idem.role'), true)";

impl Harms for Postgres {
    const KILLS: bool = true;

    /// By a time-out that every user may set, unlike `pg_terminate_backend`, which takes a right:
    /// <https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-IDLE-IN-TRANSACTION-SESSION-TIMEOUT>
    fn kill(conn: &mut PgConnection) -> BoxFuture<'_, ()> {
        const END: &str = "SET LOCAL idle_in_transaction_session_timeout = 1";
        Box::pin(async move {
            let mut is_there = sqlx::raw_sql(END).execute(&mut *conn).await.is_ok();
            while is_there {
                sqlx_core::rt::sleep(Duration::from_millis(10)).await;
                is_there = sqlx::raw_sql("SELECT 1").execute(&mut *conn).await.is_ok();
            }
        })
    }

    fn written(conn: &mut PgConnection) -> BoxFuture<'_, Result<Vec<String>, sqlx::Error>> {
        Box::pin(async move {
            match sqlx::query_scalar(WRITTEN).fetch_all(conn).await {
                // The seal will say so.
                Err(error) if backend::fault(&error) == Fault::Aborted => Ok(Vec::new()),
                tables => tables,
            }
        })
    }

    /// Triggers of this transaction, which are gone when it rolls back, and which nobody else sees.
    fn refuse_write<'a>(
        conn: &'a mut PgConnection,
        number: u32,
        tables: &'a BTreeSet<String>,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move {
            let triggers = tables.iter().map(|table| {
                format!(
                    "CREATE TRIGGER idem_refuse BEFORE INSERT OR UPDATE OR DELETE ON {table} \
                     FOR EACH STATEMENT EXECUTE FUNCTION pg_temp.idem_refuse();"
                )
            });
            let sql = REFUSE
                .replace("$number", &number.to_string())
                .replace("$triggers", &triggers.collect::<String>());
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await?;
            Ok(())
        })
    }

    fn allow_writes(conn: &mut PgConnection) -> BoxFuture<'_, Result<u32, sqlx::Error>> {
        const WRITES: &str =
            "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM pg_temp.idem_writes";
        Box::pin(async move {
            match sqlx::raw_sql(ALLOW).execute(&mut *conn).await {
                // The seal will say so.
                Err(error) if backend::fault(&error) == Fault::Aborted => return Ok(u32::MAX),
                allowed => allowed?,
            };
            let writes: i64 = sqlx::query_scalar(WRITES).fetch_one(&mut *conn).await?;
            sqlx::raw_sql(ALLOWED).execute(conn).await?;
            Ok(u32::try_from(writes).unwrap_or(u32::MAX))
        })
    }

    fn forget<'a>(
        conn: &'a mut PgConnection,
        consumer: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move {
            for table in ["processed_messages", "processed_messages_by_day"] {
                let is_there = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL").bind(table);
                if is_there.fetch_one(&mut *conn).await? {
                    let forget =
                        format!("DELETE FROM {table} WHERE consumer = $1 AND message_id = $2");
                    let forget = sqlx::query(AssertSqlSafe(forget)).bind(consumer).bind(key);
                    forget.execute(&mut *conn).await?;
                }
            }
            Ok(())
        })
    }
}
