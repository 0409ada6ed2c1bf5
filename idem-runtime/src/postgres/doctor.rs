mod by_day;

use sqlx::{Connection as _, PgConnection, Pool, Postgres, Row as _};

use crate::backend::{BoxFuture, Dialect as _};
use crate::doctor::Examine;
use crate::{Day, Finding, Windows};

const MIGRATE: &str = "run `idem::migrate(&pool).await?` or `idem migrate`";

/// What the catalogue says of a table: its key, its columns, its index, its rights.
const TABLE: &str = "SELECT \
       (SELECT array_agg(attname::text ORDER BY place) FROM pg_index, unnest(indkey::int2[]) WITH ORDINALITY AS part (number, place) \
          JOIN pg_attribute ON attrelid = $1::regclass AND attnum = number WHERE indrelid = $1::regclass AND indisprimary), \
       (SELECT array_agg(attname::text || ' ' || typname || coalesce(' ' || collname, '')) FROM pg_attribute \
          JOIN pg_type ON pg_type.oid = atttypid LEFT JOIN pg_collation ON pg_collation.oid = attcollation \
          WHERE attrelid = $1::regclass AND attname IN ('consumer', 'message_id') \
            AND (NOT (typname = 'text' OR typname = 'varchar' AND atttypmod < 0) OR NOT coalesce(collisdeterministic, true))), \
       EXISTS (SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0] \
          WHERE indrelid = $1::regclass AND attname = 'processed_at' AND indisvalid), \
       relpersistence::text, relrowsecurity, \
       EXISTS (SELECT FROM pg_trigger WHERE tgrelid = $1::regclass AND NOT tgisinternal), \
       (SELECT array_agg(wanted) FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS wanted \
          WHERE NOT has_table_privilege($1::regclass, wanted)), \
       (SELECT string_agg(indexrelid::regclass::text, ', ') FROM pg_index WHERE indrelid = $1::regclass AND indisunique AND NOT indisprimary), \
       (SELECT typname::text FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid \
          WHERE attrelid = $1::regclass AND attname = 'processed_at') \
     FROM pg_class WHERE oid = $1::regclass";

const SESSION: &str = "SELECT current_setting('synchronous_commit'), current_setting('fsync'), \
    current_setting('default_transaction_isolation'), pg_is_in_recovery(), current_setting('transaction_read_only'), \
    (now() AT TIME ZONE 'UTC')::date - date '1970-01-01'";

impl Examine for Postgres {
    fn examine<'a>(
        conn: &'a mut PgConnection,
        windows: &'a Windows,
        findings: &'a mut Vec<Finding>,
    ) -> BoxFuture<'a, Result<bool, sqlx::Error>> {
        Box::pin(async move {
            let today = session(conn, findings).await?;
            let has_table = exists(conn, "processed_messages").await?;
            if has_table {
                table(
                    conn,
                    "processed_messages",
                    &["consumer", "message_id"],
                    findings,
                )
                .await?;
                if Self::probe(conn).await.is_err()
                    && !findings.iter().any(|finding| finding.check == "index")
                {
                    findings.push(Finding::error(
                        "table",
                        "the table `processed_messages` lacks columns, or may not be read",
                        MIGRATE,
                    ));
                }
            } else {
                findings.push(Finding::error(
                    "table",
                    "there is no table `processed_messages` in the search path",
                    MIGRATE,
                ));
            }
            by_day::examine(conn, today, windows, findings).await?;
            Ok(has_table)
        })
    }

    /// Two sessions that turn out to be one, or one that turns out to be two.
    fn find_pooler(pool: &Pool<Self>) -> BoxFuture<'_, Option<Finding>> {
        Box::pin(async move {
            let options = pool.connect_options();
            let mut one = PgConnection::connect_with(&options).await.ok()?;
            let mut other = PgConnection::connect_with(&options).await.ok()?;
            let first = pid(&mut one).await?;
            sqlx::raw_sql("BEGIN").execute(&mut other).await.ok()?;
            let meanwhile = pid(&mut other).await?;
            // Where there is one session for all, the next question would wait for it.
            let is_pooled = first == meanwhile || pid(&mut one).await? != first;
            sqlx::raw_sql("ROLLBACK").execute(&mut other).await.ok()?;
            one.close().await.ok();
            other.close().await.ok();
            is_pooled.then(|| {
                Finding::warning(
                    "pooler",
                    "a pooler in transaction mode is between this program and the server: prepared statements are another session's, and a version that does not know them (pgbouncer before 1.21, or without `max_prepared_statements`) fails or mixes them up",
                    "set `max_prepared_statements`, or pass `idem::Unprepared(&pool)` and `.persistent(false)` on your own queries; let the pruner connect to the server directly",
                )
            })
        })
    }
}

async fn pid(conn: &mut PgConnection) -> Option<i32> {
    let pid = sqlx::raw_sql("SELECT pg_backend_pid()")
        .fetch_one(conn)
        .await;
    pid.ok()?.try_get(0).ok()
}

async fn exists(conn: &mut PgConnection, table: &str) -> Result<bool, sqlx::Error> {
    let query = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL").persistent(false);
    query.bind(table).fetch_one(conn).await
}

/// The settings; today, by the server's clock.
async fn session(conn: &mut PgConnection, findings: &mut Vec<Finding>) -> Result<Day, sqlx::Error> {
    let row = sqlx::query(SESSION)
        .persistent(false)
        .fetch_one(conn)
        .await?;
    let (synchronous_commit, fsync, isolation): (String, String, String) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    if synchronous_commit == "off" {
        findings.push(Finding::warning(
            "durability",
            "`synchronous_commit` is off: after a crash of the server a delivery that was acknowledged may be gone with its claim, and its message is lost",
            "switch it on for the consumers, for instance by `ALTER ROLE … SET synchronous_commit = on`",
        ));
    }
    if fsync == "off" {
        findings.push(Finding::warning(
            "durability",
            "`fsync` is off: a crash may destroy the database",
            "switch it on in postgresql.conf",
        ));
    }
    if isolation != "read committed" {
        findings.push(Finding::note(
            "isolation",
            format!("the session's isolation level is {isolation}: the loser of a race for a message is tried again instead of waiting, and bodies may fail with serialization failures"),
            "let handlers have `retries = 3`, or `isolation = \"read committed\"`",
        ));
    }
    let (standby, read_only): (bool, String) = (row.try_get(3)?, row.try_get(4)?);
    if standby || read_only == "on" {
        findings.push(Finding::error(
            "rights",
            "the server takes no writes: it is a standby, or the session is read-only",
            "connect to the primary (`target_session_attrs=read-write` in libpq's terms), or set `default_transaction_read_only` to off",
        ));
    }
    Day::of_number(row.try_get(5)?)
        .ok_or_else(|| sqlx::Error::Decode("the server's clock is out of range".into()))
}

async fn table(
    conn: &mut PgConnection,
    name: &str,
    key: &[&str],
    findings: &mut Vec<Finding>,
) -> Result<(), sqlx::Error> {
    let row = sqlx::query(TABLE)
        .persistent(false)
        .bind(name)
        .fetch_one(conn)
        .await?;
    let mut primary: Vec<String> = row.try_get::<Option<_>, _>(0)?.unwrap_or_default();
    let shown = primary.join(", ");
    primary.sort();
    let mut wanted = key.to_vec();
    wanted.sort_unstable();
    if primary != wanted {
        findings.push(Finding::error(
            "primary-key",
            format!("the primary key of `{name}` is ({shown}), and not ({}): with less in it messages are merged, and with more, above all a time of arrival, redeliveries are not recognised", key.join(", ")),
            format!("create the table anew from `idem schema` and copy the claims, or `ALTER TABLE {name} DROP CONSTRAINT …, ADD PRIMARY KEY ({})`", key.join(", ")),
        ));
    }
    let columns: Vec<String> = row.try_get::<Option<_>, _>(1)?.unwrap_or_default();
    if !columns.is_empty() {
        findings.push(Finding::error(
            "columns",
            format!("keys of `{name}` do not compare byte by byte: {}; different messages may count as one", columns.join(", ")),
            format!("`ALTER TABLE {name} ALTER COLUMN … TYPE text COLLATE \"C\"`"),
        ));
    }
    if let Some(indexes) = row.try_get::<Option<String>, _>(7)? {
        findings.push(Finding::unique(&indexes));
    }
    let kind: Option<String> = row.try_get(8)?;
    if let Some(kind) = kind.filter(|kind| kind != "timestamptz") {
        findings.push(Finding::processed_at(&kind, "timestamptz"));
    }
    if name == "processed_messages" && !row.try_get::<bool, _>(2)? {
        findings.push(Finding::warning(
            "index",
            "there is no index on `processed_at`, so that each run of the pruner reads the whole table",
            format!("{MIGRATE}; or, without keeping consumers waiting, `CREATE INDEX CONCURRENTLY processed_messages_processed_at ON processed_messages USING brin (processed_at)`"),
        ));
    }
    if row.try_get::<String, _>(3)? == "u" {
        findings.push(Finding::error(
            "durability",
            format!("`{name}` is unlogged: a crash of the server empties it, and every message that is redelivered runs again"),
            format!("`ALTER TABLE {name} SET LOGGED`"),
        ));
    }
    if row.try_get(4)? {
        findings.push(Finding::warning(
            "rights",
            format!("row level security is on for `{name}`: claims that a policy hides cannot be pruned, and fail instead of being duplicates"),
            format!("`ALTER TABLE {name} DISABLE ROW LEVEL SECURITY`"),
        ));
    }
    if row.try_get(5)? {
        findings.push(Finding::warning(
            "triggers",
            format!("there are triggers on `{name}`; one that changes or skips a row makes a message new or a duplicate that is not"),
            "put them on tables of yours",
        ));
    }
    let rights: Vec<String> = row.try_get::<Option<_>, _>(6)?.unwrap_or_default();
    if !rights.is_empty() {
        let what = format!("the user lacks {} on `{name}`", rights.join(", "));
        let remedy = format!("`GRANT {} ON {name} TO …`", rights.join(", "));
        // Plain handlers need no more than these.
        let is_needed = rights
            .iter()
            .any(|right| right == "SELECT" || right == "INSERT");
        findings.push(if is_needed {
            Finding::error("rights", what, remedy)
        } else {
            Finding::note(
                "rights",
                format!("{what}, which `replay`, `version` and the pruner need"),
                remedy,
            )
        });
    }
    Ok(())
}
