//! Days that are past the window.

use sqlx::{AssertSqlSafe, PgConnection, Row as _};

use super::{MARK, Table, exists, failed, list};
use crate::postgres::chunks::{CONSUMERS, run};
use crate::prune::chunks::{Chunks as _, Removed};
use crate::{Archive, Partition, PruneError, Pruned, Retain, Windows};

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
    if table.age <= 0.0 {
        return Ok(false);
    }
    let is_past = |retain: Retain| {
        let seconds = retain.seconds();
        seconds.is_some_and(|seconds| table.age > seconds)
    };
    let consumers = CONSUMERS.replace("processed_messages", &table.name);
    let consumers: Vec<String> = sqlx::query_scalar(AssertSqlSafe(consumers))
        .persistent(false)
        .fetch_all(conn)
        .await?;
    // Where nothing is known of the table as a whole, a day is over when it is for everybody who is in it.
    let known = windows.retain_of_days();
    let is_past_for_others = known.map_or(!consumers.is_empty(), is_past);
    let mut of_consumers = consumers.iter().filter_map(|name| windows.retain_of(name));
    if !is_past_for_others || !of_consumers.all(is_past) {
        return Ok(false);
    }
    let unknown = windows.without_window(&consumers);
    let is_over = unknown.is_empty();
    for consumer in unknown {
        if !pruned.without_window.contains(&consumer) {
            pruned.without_window.push(consumer);
        }
    }
    Ok(is_over)
}

/// The days that [`drop_past`] would drop.
pub(crate) async fn past(
    conn: &mut PgConnection,
    keep: Keep<'_>,
) -> Result<Vec<Partition>, sqlx::Error> {
    let tables = list(conn).await?;
    let last = tables.iter().rposition(|table| table.public.is_attached);
    let mut past = Vec::new();
    for (place, table) in tables.into_iter().enumerate() {
        let is_over = is_over(conn, &table, keep, &mut Pruned::default()).await?;
        if is_over && Some(place) != last && (table.public.is_attached || table.is_marked) {
            past.push(table.public);
        } else if table.public.is_attached {
            break;
        }
    }
    Ok(past)
}

/// Detaches and drops days from the oldest on, up to the first that is kept. A day is detached outside of a transaction, so that the session says
/// how long it waits; the connection is closed when this is dropped or fails.
pub(crate) async fn drop_past(
    conn: &mut PgConnection,
    keep: Keep<'_>,
    archive: &Archive,
    pruned: &mut Pruned,
) -> Result<(), PruneError> {
    if !exists(conn).await.map_err(failed)? {
        return Ok(());
    }
    // Its own is read before it is set: the subquery is not flattened.
    let (own_timeout, _): (String, String) = sqlx::query_as(
        "SELECT own.timeout, set_config('lock_timeout', '10s', false) \
         FROM (SELECT current_setting('lock_timeout') AS timeout OFFSET 0) AS own",
    )
    .persistent(false)
    .fetch_one(&mut *conn)
    .await
    .map_err(failed)?;
    let tables = list(conn).await.map_err(failed)?;
    // It stays, whatever its age, and says which days there were: none of them is made again.
    let last = tables.iter().rposition(|table| table.public.is_attached);
    for (place, table) in tables.iter().enumerate() {
        if table.is_detaching {
            // Of whomever it was, it can only go on.
            let finalize = detach(table, "FINALIZE");
            if !is_done(run(conn, finalize).await, pruned)? {
                break;
            }
        }
        let is_over = match is_over(conn, table, keep, pruned).await {
            Err(error) if is_of_others(&error) => {
                pruned.is_busy = true;
                break;
            }
            known => known.map_err(failed)?,
        };
        if Some(place) == last || !is_over {
            if table.public.is_attached {
                break;
            }
            continue;
        }
        if table.public.is_attached {
            let mark = format!("COMMENT ON TABLE {} IS '{MARK}'", table.name);
            if !is_done(run(conn, mark).await, pruned)? {
                break;
            }
            // Waits for the transactions that may still use it, and lets nobody wait for that.
            // <https://www.postgresql.org/docs/current/sql-altertable.html>
            if !is_done(run(conn, detach(table, "CONCURRENTLY")).await, pruned)? {
                break;
            }
        } else if !table.is_marked {
            continue;
        }
        if !drop_table(conn, &table.name, archive, pruned).await? {
            pruned.is_busy = true;
            break;
        }
        pruned.days_dropped += 1;
    }
    sqlx::query("SELECT set_config('lock_timeout', $1, false)")
        .persistent(false)
        .bind(own_timeout)
        .execute(conn)
        .await
        .map(drop)
        .map_err(failed)
}

fn detach(table: &Table, how: &str) -> String {
    let name = &table.name;
    format!("ALTER TABLE processed_messages_by_day DETACH PARTITION {name} {how}")
}

/// Whether it was done by us, and not by another process meanwhile: one detaches a day, and one drops it.
fn is_done(result: Result<u64, sqlx::Error>, pruned: &mut Pruned) -> Result<bool, PruneError> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if is_of_others(&error) => {
            pruned.is_busy = true;
            Ok(false)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Whether another process has detached or dropped the day meanwhile.
fn is_of_others(error: &sqlx::Error) -> bool {
    let error = error.as_database_error();
    let code = error.and_then(sqlx::error::DatabaseError::code);
    // undefined_table; object_not_in_prerequisite_state; deadlock_detected, of two that detach
    matches!(code.as_deref(), Some("42P01" | "55000" | "40P01"))
}

/// Drops a table that nobody uses any more, and before that moves its claims to the archive, in steps, so that what is archived once is not
/// archived again. Each step locks the table, so that no other process drops it meanwhile; `false` if one is at work on it.
async fn drop_table(
    conn: &mut PgConnection,
    name: &str,
    archive: &Archive,
    pruned: &mut Pruned,
) -> Result<bool, PruneError> {
    loop {
        crate::backend::begin::<sqlx::Postgres>(conn, Some(sqlx::Postgres::BEGIN_CHUNK))
            .await
            .map_err(failed)?;
        // One that comes to detach it too holds it until it fails. Were it not waited for, both would give up.
        let lock = format!("LOCK TABLE {name} IN SHARE ROW EXCLUSIVE MODE");
        if let Err(error) = run(conn, lock).await {
            crate::backend::rollback::<sqlx::Postgres>(conn)
                .await
                .map_err(failed)?;
            let error_of_server = error.as_database_error();
            let code = error_of_server.and_then(sqlx::error::DatabaseError::code);
            // lock_not_available, undefined_table
            return match code.as_deref() {
                Some("55P03" | "42P01") => Ok(false),
                _ => Err(failed(error)),
            };
        }
        let moved = move_claims(conn, name, archive).await?;
        if moved == 0 {
            run(conn, format!("DROP TABLE {name}"))
                .await
                .map_err(failed)?;
        }
        crate::backend::commit::<sqlx::Postgres>(conn)
            .await
            .map_err(failed)?;
        if moved == 0 {
            return Ok(true);
        }
        pruned.archived += moved;
    }
}

/// Some claims, or none if none is left or there is no archive.
async fn move_claims(
    conn: &mut PgConnection,
    name: &str,
    archive: &Archive,
) -> Result<u64, PruneError> {
    const COLUMNS: &str = "consumer, message_id, day, processed_at, fingerprint, result";
    let take =
        format!("DELETE FROM {name} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {name} LIMIT 1000))");
    if archive.is_table() {
        let copy = format!(
            "WITH taken AS ({take} RETURNING {COLUMNS}) INSERT INTO processed_messages_archive ({COLUMNS}) SELECT * FROM taken"
        );
        return run(conn, copy).await.map_err(failed);
    }
    if !archive.is_file() {
        return Ok(0);
    }
    let take = format!(
        "{take} RETURNING consumer, message_id, day::text, to_char(processed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), fingerprint, result"
    );
    let rows = sqlx::query(AssertSqlSafe(take))
        .persistent(false)
        .fetch_all(conn)
        .await
        .map_err(failed)?;
    let removed: Vec<Removed> = rows
        .iter()
        .map(removed)
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    archive.write(&removed)?;
    Ok(removed.len() as u64)
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
