//! The statements on the table by days. A day is sent as its number, which needs no type of a date library.

use sqlx::{PgConnection, Row as _};

use super::rows::{bound, lock_timeout, unbound};
use crate::rows::{Call, Dated, DatedRow, Stored, Value};
use crate::time::Day;

/// Rows of days without a partition are left out, since one that has none would abort the transaction without saying which days there
/// are. Partitions are known by their names, which is one look-up in an index of the catalogue; one that is being detached takes no rows
/// any more.
const INSERT: &str = concat!(
    "WITH asked AS (\
       SELECT claim.*, date '1970-01-01' + claim.number AS day, EXISTS (\
         SELECT FROM pg_class AS parent JOIN pg_class AS partition ON partition.relnamespace = parent.relnamespace \
           JOIN pg_inherits ON inhrelid = partition.oid AND inhparent = parent.oid \
         WHERE parent.oid = 'processed_messages_by_day'::regclass AND NOT inhdetachpending \
           AND partition.relname = 'processed_messages_' || to_char(date '1970-01-01' + claim.number, 'YYYY_MM_DD')) AS has_partition \
       FROM unnest($3::text[], $4::int[], $5::bytea[]) WITH ORDINALITY AS claim (message_id, number, fingerprint, place)), \
     claimed AS (\
       INSERT INTO processed_messages_by_day (consumer, message_id, day, fingerprint) \
       SELECT $2, asked.message_id, asked.day, asked.fingerprint FROM ",
    bound!(),
    " , asked WHERE asked.has_partition ORDER BY asked.place \
       ON CONFLICT (consumer, message_id, day) DO NOTHING RETURNING message_id) \
     SELECT array_agg(message_id), ",
    unbound!(),
    ", (SELECT min(number) FROM asked WHERE NOT has_partition), \
       CASE WHEN EXISTS (SELECT FROM asked WHERE NOT has_partition) THEN (\
         SELECT ARRAY[min(to_date(right(partition.relname, 10), 'YYYY_MM_DD')) - date '1970-01-01', \
           max(to_date(right(partition.relname, 10), 'YYYY_MM_DD')) - date '1970-01-01'] \
         FROM pg_inherits JOIN pg_class AS partition ON partition.oid = inhrelid \
         WHERE inhparent = 'processed_messages_by_day'::regclass AND NOT inhdetachpending \
           AND partition.relname ~ '^processed_messages_[0-9]{4}_[0-9]{2}_[0-9]{2}$') END, \
       (now() AT TIME ZONE 'UTC')::date - date '1970-01-01' \
     FROM claimed"
);

const STORE: &str = "UPDATE processed_messages_by_day SET result = $4 \
    WHERE consumer = $1 AND message_id = $2 AND day = date '1970-01-01' + $3 AND result IS NULL \
    AND (NOT $5 OR coalesce(current_setting('idem.seal', true), '') = 'set')";

pub(super) async fn insert(
    conn: &mut PgConnection,
    call: Call<'_>,
    rows: &[DatedRow<'_>],
) -> Result<Dated, sqlx::Error> {
    let keys: Vec<&str> = rows.iter().map(|row| row.key).collect();
    let days: Vec<i32> = rows.iter().map(|row| row.day.number()).collect();
    let fingerprints: Vec<Option<&[u8]>> = rows
        .iter()
        .map(|row| row.fingerprint.map(<[u8; 32]>::as_slice))
        .collect();
    let row = sqlx::query(INSERT)
        .persistent(call.persistent)
        .bind(lock_timeout(call))
        .bind(call.consumer)
        .bind(keys)
        .bind(days)
        .bind(fingerprints)
        .fetch_one(conn)
        .await?;
    let day = |index| {
        Ok::<_, sqlx::Error>(
            row.try_get::<Option<i32>, _>(index)?
                .and_then(Day::of_number),
        )
    };
    if let (Some(missing), Some(today)) = (day(2)?, day(4)?) {
        let kept: Vec<Option<i32>> = row.try_get::<Option<_>, _>(3)?.unwrap_or_default();
        let mut kept = kept.into_iter().flatten().filter_map(Day::of_number);
        return Ok(Dated::NoPartition {
            day: missing,
            kept: kept.next().zip(kept.next()),
            today,
        });
    }
    let fresh: Option<Vec<String>> = row.try_get(0)?;
    let fresh: std::collections::HashSet<_> = fresh.into_iter().flatten().collect();
    Ok(Dated::New(
        rows.iter().map(|row| fresh.contains(row.key)).collect(),
    ))
}

pub(super) async fn read(
    conn: &mut PgConnection,
    call: Call<'_>,
    claims: &[(&str, Day)],
) -> Result<Vec<Stored>, sqlx::Error> {
    let keys: Vec<&str> = claims.iter().map(|(key, _)| *key).collect();
    let days: Vec<i32> = claims.iter().map(|(_, day)| day.number()).collect();
    let rows = sqlx::query(
        "SELECT claim.message_id, claim.fingerprint, claim.result \
         FROM unnest($2::text[], $3::int[]) AS asked (message_id, number) \
         JOIN processed_messages_by_day AS claim \
           ON claim.consumer = $1 AND claim.message_id = asked.message_id AND claim.day = date '1970-01-01' + asked.number",
    )
    .persistent(call.persistent)
    .bind(call.consumer)
    .bind(keys)
    .bind(days)
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(Stored {
                key: row.try_get(0)?,
                version: None,
                fingerprint: row.try_get(1)?,
                result: row.try_get(2)?,
            })
        })
        .collect()
}

pub(super) async fn store(
    conn: &mut PgConnection,
    call: Call<'_>,
    (key, day): (&str, Day),
    value: Value<'_>,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(STORE)
        .persistent(call.persistent)
        .bind(call.consumer)
        .bind(key)
        .bind(day.number())
        .bind(value.json)
        .bind(value.is_sealed)
        .execute(conn)
        .await?;
    Ok(done.rows_affected())
}
