use sqlx::{AssertSqlSafe, PgConnection, Postgres};

use crate::backend::{self, BoxFuture, Fault};
use crate::testing::Harms;

/// A sequence counts on when a savepoint rolls back. Tables of the claims are the library's own.
const REFUSE: &str = "CREATE TEMP SEQUENCE idem_writes; \
    CREATE FUNCTION pg_temp.idem_refuse() RETURNS trigger LANGUAGE plpgsql AS $idem$ BEGIN \
        IF nextval('pg_temp.idem_writes') = $number THEN \
            RAISE EXCEPTION 'idem::testing refuses this write' USING ERRCODE = 'io_error'; \
        END IF; \
        RETURN NULL; \
    END $idem$; \
    DO $idem$ DECLARE target regclass; BEGIN \
        FOR target IN SELECT oid FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition AND pg_table_is_visible(oid) \
            AND relnamespace <> 'pg_catalog'::regnamespace AND relname NOT LIKE 'processed\\_messages%' ORDER BY oid LOOP \
            EXECUTE format('CREATE TRIGGER idem_refuse BEFORE INSERT OR UPDATE OR DELETE ON %s \
                FOR EACH STATEMENT EXECUTE FUNCTION pg_temp.idem_refuse()', target); \
        END LOOP; \
    END $idem$";

const ALLOW: &str =
    "DROP FUNCTION pg_temp.idem_refuse() CASCADE; DROP SEQUENCE pg_temp.idem_writes";

impl Harms for Postgres {
    const KILLS: bool = true;

    /// The server answers with an error (57P01) and closes.
    fn kill(conn: &mut PgConnection) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let kill = sqlx::raw_sql("SELECT pg_terminate_backend(pg_backend_pid())");
            kill.execute(conn).await.ok();
        })
    }

    /// Triggers of this transaction, which are gone when it rolls back, and which nobody else sees.
    fn refuse_write(
        conn: &mut PgConnection,
        number: u32,
    ) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move {
            let sql = REFUSE.replace("$number", &number.to_string());
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await?;
            Ok(())
        })
    }

    fn allow_writes(conn: &mut PgConnection) -> BoxFuture<'_, Result<u32, sqlx::Error>> {
        const WRITES: &str =
            "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM pg_temp.idem_writes";
        Box::pin(async move {
            let writes: i64 = match sqlx::query_scalar(WRITES).fetch_one(&mut *conn).await {
                // The seal will say so.
                Err(error) if backend::fault(&error) == Fault::Aborted => return Ok(u32::MAX),
                writes => writes?,
            };
            sqlx::raw_sql(ALLOW).execute(conn).await?;
            Ok(u32::try_from(writes).unwrap_or(u32::MAX))
        })
    }

    fn forget<'a>(
        conn: &'a mut PgConnection,
        consumer: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        const HAS_DAYS: &str = "SELECT to_regclass('processed_messages_by_day') IS NOT NULL";
        const FORGET: &str =
            "DELETE FROM processed_messages WHERE consumer = $1 AND message_id = $2";
        const FORGET_BY_DAY: &str =
            "DELETE FROM processed_messages_by_day WHERE consumer = $1 AND message_id = $2";
        Box::pin(async move {
            let forget = sqlx::query(FORGET).bind(consumer).bind(key);
            forget.execute(&mut *conn).await?;
            if sqlx::query_scalar(HAS_DAYS).fetch_one(&mut *conn).await? {
                let forget = sqlx::query(FORGET_BY_DAY).bind(consumer).bind(key);
                forget.execute(conn).await?;
            }
            Ok(())
        })
    }
}
