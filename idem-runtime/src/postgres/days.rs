//! The partitions of the table by days: made ahead, and dropped when they are past the window.

use sqlx::{PgConnection, Row as _};

use super::chunks::{count, run};
use crate::error::{Error, Step};
use crate::prune::DAYS_AHEAD;
use crate::prune::chunks::{DaysToKeep, Removed};
use crate::time::Day;
use crate::{Archive, Partition, PruneError, Pruned, Retain, Windows, handlers};

/// How far back days are made at first where no window says so, in seconds.
pub(crate) const MONTH: f64 = 31.0 * 24.0 * 60.0 * 60.0;

/// Partitions of days that were never kept are not made later, once there is one: claims may have been dropped with them, and their messages
/// would run again. Of the first ones, the earliest is the first day whose messages are within the window.
const MISSING: &str = "SELECT to_char(day, 'YYYY_MM_DD'), day::text, (day + 1)::text \
     FROM generate_series(\
       coalesce((SELECT min(to_date(right(relname, 10), 'YYYY_MM_DD')) FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid \
           WHERE inhparent = 'processed_messages_by_day'::regclass), \
         ((now() AT TIME ZONE 'UTC') - make_interval(secs => $1))::date)::timestamp, \
       ((now() AT TIME ZONE 'UTC')::date + $2)::timestamp, interval '1 day') AS days (at), LATERAL (SELECT at::date AS day) AS of_day \
     WHERE to_regclass('processed_messages_' || to_char(day, 'YYYY_MM_DD')) IS NULL ORDER BY day";

/// What a day is marked with before it is detached, so that the next run goes on with it if this one does not get to the end. A table that
/// somebody else has detached is theirs.
const MARK: &str = "idem: past its window, to be dropped";

/// The tables of days, also those that are detached and marked with $2. A day is past the window when its last moment is.
const LIST: &str = "SELECT partition.relname, to_date(right(partition.relname, 10), 'YYYY_MM_DD') - date '1970-01-01', \
       partition.reltuples::bigint, pg_total_relation_size(partition.oid), inhrelid IS NOT NULL, coalesce(inhdetachpending, false), \
       coalesce((to_date(right(partition.relname, 10), 'YYYY_MM_DD') + 1)::timestamp < (now() AT TIME ZONE 'UTC') - make_interval(secs => $1), false) \
     FROM pg_class AS parent JOIN pg_class AS partition ON partition.relnamespace = parent.relnamespace AND partition.relkind = 'r' \
     LEFT JOIN pg_inherits ON inhrelid = partition.oid AND inhparent = parent.oid \
     WHERE parent.oid = to_regclass('processed_messages_by_day') AND partition.relname ~ '^processed_messages_[0-9]{4}_[0-9]{2}_[0-9]{2}$' \
       AND (inhrelid IS NOT NULL OR NOT partition.relispartition AND obj_description(partition.oid, 'pg_class') = $2) \
     ORDER BY partition.relname";

/// Attaching, unlike `CREATE TABLE … PARTITION OF`, lets consumers work meanwhile:
/// <https://www.postgresql.org/docs/current/ddl-partitioning.html>
pub(crate) async fn create(
    conn: &mut PgConnection,
    retain: f64,
    ahead: u16,
) -> Result<u32, sqlx::Error> {
    crate::backend::begin::<sqlx::Postgres>(
        conn,
        Some("BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '10s'"),
    )
    .await?;
    let created = create_in_transaction(conn, retain, ahead).await;
    match &created {
        Ok(_) => crate::backend::commit::<sqlx::Postgres>(conn).await?,
        Err(_) => crate::backend::rollback::<sqlx::Postgres>(conn).await?,
    }
    created
}

/// Where there are days, more of them are the pruner's to make: this user may have no right to.
pub(super) async fn create_if_needed(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    let is_needed = handlers().any(|handler| handler.time.is_some());
    if is_needed && (!exists(conn).await? || list(conn, None).await?.is_empty()) {
        let retain = Windows::of_handlers().retain_of_days();
        let retain = retain.and_then(Retain::seconds).unwrap_or(MONTH);
        create(conn, retain, DAYS_AHEAD).await?;
    }
    Ok(())
}

async fn create_in_transaction(
    conn: &mut PgConnection,
    retain: f64,
    ahead: u16,
) -> Result<u32, sqlx::Error> {
    // Several processes may come to do the same, hence the lock; its number is arbitrary.
    const TABLE: &str = concat!(
        "SELECT pg_advisory_xact_lock(7236837105318);\n",
        include_str!("../schema/postgres_by_day.sql")
    );
    if !exists(conn).await? {
        sqlx::raw_sql(TABLE).execute(&mut *conn).await?;
    }
    let missing = missing(conn, retain, ahead).await?;
    if missing.is_empty() {
        return Ok(0);
    }
    run(
        conn,
        "SELECT pg_advisory_xact_lock(7236837105318)".to_owned(),
    )
    .await?;
    let missing = self::missing(conn, retain, ahead).await?;
    for [name, from, to] in &missing {
        let table = format!("processed_messages_{name}");
        let create = format!(
            "CREATE TABLE {table} (LIKE processed_messages_by_day INCLUDING ALL); \
             ALTER TABLE processed_messages_by_day ATTACH PARTITION {table} FOR VALUES FROM ('{from}') TO ('{to}')"
        );
        run(conn, create).await?;
    }
    Ok(u32::try_from(missing.len()).unwrap_or(u32::MAX))
}

async fn missing(
    conn: &mut PgConnection,
    retain: f64,
    ahead: u16,
) -> Result<Vec<[String; 3]>, sqlx::Error> {
    let query = sqlx::query(MISSING).persistent(false).bind(retain);
    let rows = query.bind(i32::from(ahead)).fetch_all(conn).await?;
    rows.iter()
        .map(|row| Ok([row.try_get(0)?, row.try_get(1)?, row.try_get(2)?]))
        .collect()
}

async fn exists(conn: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("SELECT to_regclass('processed_messages_by_day') IS NOT NULL")
        .persistent(false)
        .fetch_one(conn)
        .await
}

/// A table of a day.
pub(crate) struct Table {
    pub(crate) public: Partition,
    is_detaching: bool,
    is_past: bool,
}

/// `retain` decides which of them are past the window.
pub(crate) async fn list(
    conn: &mut PgConnection,
    retain: Option<f64>,
) -> Result<Vec<Table>, sqlx::Error> {
    let query = sqlx::query(LIST).persistent(false).bind(retain).bind(MARK);
    let rows = query.fetch_all(conn).await?;
    rows.into_iter()
        .map(|row| {
            let rows: i64 = row.try_get(2)?;
            let day = Day::of_number(row.try_get(1)?);
            Ok(Table {
                public: Partition {
                    table: row.try_get(0)?,
                    day: day.ok_or_else(|| sqlx::Error::Decode("a day out of range".into()))?,
                    // -1 before the first vacuum or analyze.
                    rows: (rows >= 0).then_some(count(rows)),
                    bytes: count(row.try_get(3)?),
                    is_attached: row.try_get(4)?,
                },
                is_detaching: row.try_get(5)?,
                is_past: row.try_get(6)?,
            })
        })
        .collect()
}

/// What the pruner does for the table by days, if it is there: one process at a time. The lock is the session's, since a partition is
/// detached outside of a transaction; the connection is closed when this is dropped or fails.
pub(super) async fn keep(
    conn: &mut PgConnection,
    days: DaysToKeep,
    archive: &Archive,
    pruned: &mut Pruned,
) -> Result<(), PruneError> {
    if !exists(conn).await.map_err(failed)? {
        return Ok(());
    }
    let retain = days.retain.and_then(Retain::seconds);
    pruned.days_created += create(conn, retain.unwrap_or(MONTH), days.ahead)
        .await
        .map_err(failed)?;
    if let Some(retain) = retain {
        drop_past(conn, retain, archive, pruned).await?;
    }
    Ok(())
}

/// Detaches and drops the days that are past the window, from the oldest on.
pub(crate) async fn drop_past(
    conn: &mut PgConnection,
    retain: f64,
    archive: &Archive,
    pruned: &mut Pruned,
) -> Result<(), PruneError> {
    const LOCK: &str = "SELECT pg_try_advisory_lock((7236838::bigint << 32) | 'processed_messages_by_day'::regclass::oid::bigint)";
    const UNLOCK: &str = "SELECT pg_advisory_unlock((7236838::bigint << 32) | 'processed_messages_by_day'::regclass::oid::bigint); RESET lock_timeout";
    if !exists(conn).await.map_err(failed)? {
        return Ok(());
    }
    let is_alone: bool = sqlx::query_scalar(LOCK)
        .persistent(false)
        .fetch_one(&mut *conn)
        .await
        .map_err(failed)?;
    if !is_alone {
        pruned.is_busy = true;
        return Ok(());
    }
    let dropped = drop_alone(conn, retain, archive, pruned).await;
    run(conn, UNLOCK.to_owned()).await.map_err(failed)?;
    dropped
}

async fn drop_alone(
    conn: &mut PgConnection,
    retain: f64,
    archive: &Archive,
    pruned: &mut Pruned,
) -> Result<(), PruneError> {
    run(conn, "SET lock_timeout = '10s'".to_owned())
        .await
        .map_err(failed)?;
    for table in list(conn, Some(retain)).await.map_err(failed)? {
        if !table.is_past {
            continue;
        }
        let name = &table.public.table;
        // Waits for the transactions that may still use it, and lets nobody wait for that.
        // <https://www.postgresql.org/docs/current/sql-altertable.html>
        let detach =
            |how| format!("ALTER TABLE processed_messages_by_day DETACH PARTITION {name} {how}");
        if table.public.is_attached {
            let mark = format!("COMMENT ON TABLE {name} IS '{MARK}'");
            run(conn, mark).await.map_err(failed)?;
        }
        if table.is_detaching {
            run(conn, detach("FINALIZE")).await.map_err(failed)?;
        } else if table.public.is_attached {
            run(conn, detach("CONCURRENTLY")).await.map_err(failed)?;
        }
        archive_table(conn, name, archive, pruned).await?;
        run(conn, format!("DROP TABLE {name}"))
            .await
            .map_err(failed)?;
        pruned.days_dropped += 1;
    }
    Ok(())
}

/// Copies a table that nobody uses any more, and empties it on the way, so that what is archived once is not archived again.
async fn archive_table(
    conn: &mut PgConnection,
    name: &str,
    archive: &Archive,
    pruned: &mut Pruned,
) -> Result<(), PruneError> {
    const COLUMNS: &str = "consumer, message_id, day, processed_at, fingerprint, result";
    if archive.is_table() {
        let copy = format!(
            "WITH taken AS (DELETE FROM {name} RETURNING {COLUMNS}) INSERT INTO processed_messages_archive ({COLUMNS}) SELECT * FROM taken"
        );
        pruned.archived += run(conn, copy).await.map_err(failed)?;
        return Ok(());
    }
    while archive.is_file() {
        crate::backend::begin::<sqlx::Postgres>(conn, None)
            .await
            .map_err(failed)?;
        let take = format!(
            "DELETE FROM {name} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {name} LIMIT 5000)) \
             RETURNING consumer, message_id, day::text, to_char(processed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), fingerprint, result"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(take))
            .persistent(false)
            .fetch_all(&mut *conn)
            .await;
        let removed = rows.and_then(|rows| rows.iter().map(removed).collect::<Result<Vec<_>, _>>());
        let removed = removed.map_err(failed)?;
        archive.write(&removed)?;
        crate::backend::commit::<sqlx::Postgres>(conn)
            .await
            .map_err(failed)?;
        if removed.is_empty() {
            break;
        }
        pruned.archived += removed.len() as u64;
    }
    Ok(())
}

fn removed(row: &sqlx::postgres::PgRow) -> Result<Removed, sqlx::Error> {
    Ok(Removed {
        consumer: row.try_get(0)?,
        message_id: row.try_get(1)?,
        day: row.try_get(2)?,
        processed_at: row.try_get(3)?,
        fingerprint: row.try_get(4)?,
        result: row.try_get(5)?,
    })
}

fn failed(error: sqlx::Error) -> PruneError {
    PruneError::Database(Error::database(Step::Days)(error))
}
