//! The partitions of the table by days: made ahead, and dropped when they are past the window.

mod past;

use sqlx::{PgConnection, Row as _};

use super::chunks::{count, run};
use crate::error::{Error, Step};
use crate::prune::DAYS_AHEAD;
use crate::prune::chunks::DaysToKeep;
use crate::time::Day;
use crate::{Partition, PruneError, Retain, Windows, handlers};

/// How far back days are made at first where no window says so, in seconds.
pub(crate) const MONTH: f64 = 31.0 * 24.0 * 60.0 * 60.0;

pub(crate) use past::{Keep, drop_past, past};

/// How far back days are made at most, in seconds: three years, which are some thousand partitions.
const LONGEST: f64 = 1096.0 * 24.0 * 60.0 * 60.0;

/// Days are known by their names, in the schema of the table by days, whatever the search path says besides.
pub(super) const NAMES: &str = "^processed_messages_[0-9]{4}_[0-9]{2}_[0-9]{2}$";

/// The schema, in quotes where it needs them, and the days that are missing there. Once there are days, none is made before the last of them
/// that has begun: one that is missing there was dropped with its claims, whose messages would run again. Of the first ones, the earliest is
/// the first day whose messages are within the window.
const MISSING: &str = "SELECT quote_ident(nspname), to_char(day, 'YYYY_MM_DD'), day::text, (day + 1)::text \
     FROM pg_class AS parent JOIN pg_namespace ON pg_namespace.oid = parent.relnamespace, LATERAL generate_series(\
       coalesce((SELECT coalesce(max(day) FILTER (WHERE day <= (now() AT TIME ZONE 'UTC')::date) + 1, min(day)) \
           FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid, LATERAL (SELECT to_date(right(relname, 10), 'YYYY_MM_DD') AS day) AS known \
           WHERE inhparent = parent.oid AND relname ~ $3), \
         ((now() AT TIME ZONE 'UTC') - make_interval(secs => $1))::date)::timestamp, \
       ((now() AT TIME ZONE 'UTC')::date + $2)::timestamp, interval '1 day') AS days (at), LATERAL (SELECT at::date AS day) AS of_day \
     WHERE parent.oid = 'processed_messages_by_day'::regclass \
       AND NOT EXISTS (SELECT FROM pg_class AS table_of_day WHERE table_of_day.relnamespace = parent.relnamespace \
         AND table_of_day.relname = 'processed_messages_' || to_char(day, 'YYYY_MM_DD')) \
     ORDER BY day LIMIT 31";

/// So many days are made in one transaction, as [`MISSING`] says: what it creates stays locked until its end, and the server has room for
/// some thousand locks. They are made in their order, so that there is no gap behind one that is interrupted.
const DAYS_AT_ONCE: u32 = 31;

/// What a day is marked with before it is detached, so that the next run goes on with it if this one does not get to the end. A table that
/// somebody else has detached is theirs.
const MARK: &str = "idem: past its window, to be dropped";

/// The tables of days, also those that are detached and marked with $1, from the oldest on, and how long ago each was over, in seconds.
const LIST: &str = "SELECT partition.relname::text, to_date(right(partition.relname, 10), 'YYYY_MM_DD') - date '1970-01-01', \
       partition.reltuples::bigint, coalesce(pg_total_relation_size(partition.oid), 0), inhrelid IS NOT NULL AND NOT inhdetachpending, coalesce(inhdetachpending, false), \
       extract(epoch FROM (now() AT TIME ZONE 'UTC') - (to_date(right(partition.relname, 10), 'YYYY_MM_DD') + 1)::timestamp)::float8, \
       quote_ident(nspname) || '.' || partition.relname, coalesce(obj_description(partition.oid, 'pg_class') = $1, false) \
     FROM pg_class AS parent JOIN pg_namespace ON pg_namespace.oid = parent.relnamespace JOIN pg_class AS partition ON partition.relnamespace = parent.relnamespace AND partition.relkind = 'r' \
     LEFT JOIN pg_inherits ON inhrelid = partition.oid AND inhparent = parent.oid \
     WHERE parent.oid = to_regclass('processed_messages_by_day') AND partition.relname ~ $2 \
       AND (inhrelid IS NOT NULL OR NOT partition.relispartition AND obj_description(partition.oid, 'pg_class') = $1) \
     ORDER BY partition.relname";

/// Attaching, unlike `CREATE TABLE … PARTITION OF`, lets consumers work meanwhile:
/// <https://www.postgresql.org/docs/current/ddl-partitioning.html>
pub(crate) async fn create(
    conn: &mut PgConnection,
    retain: f64,
    ahead: u16,
) -> Result<u32, sqlx::Error> {
    const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '10s'";
    let mut created = 0;
    loop {
        crate::backend::begin::<sqlx::Postgres>(conn, Some(BEGIN)).await?;
        let some = create_in_transaction(conn, retain, ahead).await;
        match &some {
            Ok(_) => crate::backend::commit::<sqlx::Postgres>(conn).await?,
            Err(_) => crate::backend::rollback::<sqlx::Postgres>(conn).await?,
        }
        let some = some?;
        created += some;
        if some < DAYS_AT_ONCE {
            return Ok(created);
        }
    }
}

/// Where there are days, more of them are the pruner's to make: this user may have no right to.
pub(super) async fn create_if_needed(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    let is_needed = handlers().any(|handler| handler.time.is_some());
    if is_needed && (!exists(conn).await? || list(conn).await?.is_empty()) {
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
    for [schema, name, from, to] in &missing {
        let table = format!("{schema}.processed_messages_{name}");
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
) -> Result<Vec<[String; 4]>, sqlx::Error> {
    let query = sqlx::query(MISSING)
        .persistent(false)
        .bind(retain.min(LONGEST));
    let rows = query
        .bind(i32::from(ahead))
        .bind(NAMES)
        .fetch_all(conn)
        .await?;
    rows.iter()
        .map(|row| {
            Ok([
                row.try_get(0)?,
                row.try_get(1)?,
                row.try_get(2)?,
                row.try_get(3)?,
            ])
        })
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
    /// How long ago it was over, in seconds; negative, if it is not.
    pub(super) age: f64,
    /// Its name with its schema, as SQL.
    name: String,
    is_marked: bool,
}

pub(crate) async fn list(conn: &mut PgConnection) -> Result<Vec<Table>, sqlx::Error> {
    let query = sqlx::query(LIST).persistent(false).bind(MARK).bind(NAMES);
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
                age: row.try_get(6)?,
                name: row.try_get(7)?,
                is_marked: row.try_get(8)?,
            })
        })
        .collect()
}

/// What the pruner does first, if the table is there: whatever becomes of the rest, there is a day for the messages to come.
pub(super) async fn create_ahead(
    conn: &mut PgConnection,
    days: &DaysToKeep<'_>,
) -> Result<u32, PruneError> {
    if !exists(conn).await.map_err(failed)? {
        return Ok(0);
    }
    let retain = days.windows.retain_of_days().and_then(Retain::seconds);
    create(conn, retain.unwrap_or(MONTH), days.ahead)
        .await
        .map_err(failed)
}

fn failed(error: sqlx::Error) -> PruneError {
    PruneError::Database(Error::database(Step::Days)(error))
}
