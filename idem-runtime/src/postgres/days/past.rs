//! Days that are past the window.

use sqlx::{AssertSqlSafe, PgConnection, Row as _};

use super::{MARK, Table, exists, failed, list};
use crate::postgres::chunks::{CONSUMERS, run};
use crate::prune::chunks::Removed;
use crate::{Archive, PruneError, Pruned, Retain, Windows};

/// Which days stay.
#[derive(Clone, Copy)]
pub(crate) enum Keep<'a> {
    /// Those that were over less than so many seconds ago, whoever has claims in them.
    All(f64),
    /// Those within the longest window that is known of the table, or of any consumer that has claims in them.
    Windows(&'a Windows),
}

/// One look at the primary key for each consumer in a day.
async fn is_over(
    conn: &mut PgConnection,
    table: &Table,
    keep: Keep<'_>,
    pruned: &mut Pruned,
) -> Result<bool, sqlx::Error> {
    let windows = match keep {
        Keep::All(retain) => return Ok(table.age > retain),
        Keep::Windows(windows) => windows,
    };
    let is_past = |retain: Option<Retain>| {
        retain
            .and_then(Retain::seconds)
            .is_some_and(|retain| table.age > retain)
    };
    if !is_past(windows.retain_of_days()) {
        return Ok(false);
    }
    let consumers = CONSUMERS.replace("processed_messages", &table.name);
    let consumers: Vec<String> = sqlx::query_scalar(AssertSqlSafe(consumers))
        .persistent(false)
        .fetch_all(conn)
        .await?;
    for consumer in windows.without_window(&consumers) {
        if !pruned.without_window.contains(&consumer) {
            pruned.without_window.push(consumer);
        }
    }
    Ok(consumers
        .iter()
        .all(|consumer| is_past(windows.retain_of(consumer))))
}

/// Detaches and drops days from the oldest on, up to the first that is kept: one process at a time. The lock is the session's, since a
/// partition is detached outside of a transaction; the connection is closed when this is dropped or fails.
pub(crate) async fn drop_past(
    conn: &mut PgConnection,
    keep: Keep<'_>,
    archive: &Archive,
    pruned: &mut Pruned,
) -> Result<(), PruneError> {
    const LOCK: &str = "SELECT pg_try_advisory_lock((7236838::bigint << 32) | 'processed_messages_by_day'::regclass::oid::bigint), current_setting('lock_timeout')";
    const UNLOCK: &str = "SELECT pg_advisory_unlock((7236838::bigint << 32) | 'processed_messages_by_day'::regclass::oid::bigint), set_config('lock_timeout', $1, false)";
    if !exists(conn).await.map_err(failed)? {
        return Ok(());
    }
    let (is_alone, own_timeout): (bool, String) = sqlx::query_as(LOCK)
        .persistent(false)
        .fetch_one(&mut *conn)
        .await
        .map_err(failed)?;
    if !is_alone {
        pruned.is_busy = true;
        return Ok(());
    }
    let dropped = drop_alone(conn, keep, archive, pruned).await;
    let unlock = sqlx::query(UNLOCK).persistent(false).bind(own_timeout);
    let unlocked = unlock.execute(conn).await;
    // Where the first has failed in a transaction, the second says only that.
    dropped?;
    unlocked.map(drop).map_err(failed)
}

async fn drop_alone(
    conn: &mut PgConnection,
    keep: Keep<'_>,
    archive: &Archive,
    pruned: &mut Pruned,
) -> Result<(), PruneError> {
    run(conn, "SET lock_timeout = '10s'".to_owned())
        .await
        .map_err(failed)?;
    let tables = list(conn).await.map_err(failed)?;
    // It stays, whatever its age, and says which days there were: none of them is made again.
    let last = tables
        .iter()
        .rposition(|table| table.public.is_attached && !table.is_detaching);
    for (place, table) in tables.iter().enumerate() {
        let is_over = is_over(conn, table, keep, pruned).await.map_err(failed)?;
        if !is_over || Some(place) == last {
            break;
        }
        let name = &table.name;
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
        let rows = sqlx::query(AssertSqlSafe(take))
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
