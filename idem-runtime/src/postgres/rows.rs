use sqlx::{PgConnection, Postgres, Row as _};

use super::by_day;
use crate::backend::BoxFuture;
use crate::rows::{Call, Dated, DatedRow, Row, Rows, Stored, Value};
use crate::time::Day;
use crate::version::ClaimedVersion;

/// Bounds the wait for another worker's claim, within the statement: by $1, or by ten seconds where the session has no bound of its own.
/// The session's own value is kept beside it, for [`unbound`] to take it back, so that the handler's statements run under it. What ends
/// without RETURNING is rolled back, and the settings with it. The inner call is the CASE's operand, so that it runs whatever the
/// planner knows of $1.
macro_rules! bound {
    () => {
        "set_config('lock_timeout', \
           CASE set_config('idem.lock_timeout', current_setting('lock_timeout'), true) \
             WHEN '0' THEN coalesce($1, '10s') ELSE coalesce($1, current_setting('lock_timeout')) END, true)"
    };
}

macro_rules! unbound {
    () => {
        "set_config('lock_timeout', current_setting('idem.lock_timeout'), true)"
    };
}

pub(super) use {bound, unbound};

/// The row that RETURNING makes says that the claim is new.
const INSERT: &str = concat!(
    "INSERT INTO processed_messages (consumer, message_id) SELECT $2, $3 FROM ",
    bound!(),
    " ON CONFLICT (consumer, message_id) DO NOTHING RETURNING ",
    unbound!()
);

/// The rows are inserted in the order of the query. RETURNING would take the bound back after the first of them; an aggregate is computed
/// after the last.
const INSERT_MANY: &str = concat!(
    "WITH claimed AS (\
       INSERT INTO processed_messages (consumer, message_id, fingerprint) \
       SELECT $2, claim.message_id, claim.fingerprint FROM ",
    bound!(),
    " , unnest($3::text[], $4::bytea[]) WITH ORDINALITY AS claim (message_id, fingerprint, place) \
       ORDER BY claim.place \
       ON CONFLICT (consumer, message_id) DO NOTHING RETURNING message_id) \
     SELECT array_agg(message_id), ",
    unbound!(),
    " FROM claimed"
);

/// $5 is what a missing version counts as, and $6 the lowest that may be followed.
macro_rules! may_follow {
    () => {
        "(processed_messages.version IS NULL OR processed_messages.version < $4) \
         AND coalesce(processed_messages.version, $5) >= $6"
    };
}

const INSERT_VERSION: &str = concat!(
    "INSERT INTO processed_messages (consumer, message_id, version) SELECT $2, $3, $4 FROM ",
    bound!(),
    " ON CONFLICT (consumer, message_id) \
      DO UPDATE SET version = excluded.version, processed_at = excluded.processed_at WHERE ",
    may_follow!(),
    " RETURNING ",
    unbound!()
);

const UPDATE_VERSION: &str = concat!(
    "UPDATE processed_messages SET version = $4, processed_at = now() FROM ",
    bound!(),
    " WHERE consumer = $2 AND message_id = $3 AND ",
    may_follow!(),
    " RETURNING ",
    unbound!()
);

const STORE: &str = "UPDATE processed_messages SET result = $3 WHERE consumer = $1 AND message_id = ANY($2) AND result IS NULL \
    AND (NOT $4 OR coalesce(current_setting('idem.seal', true), '') = 'set')";

impl Rows for Postgres {
    fn insert<'a>(
        conn: &'a mut PgConnection,
        call: Call<'a>,
        key: &'a str,
    ) -> BoxFuture<'a, Result<bool, sqlx::Error>> {
        Box::pin(async move {
            let row = sqlx::query(INSERT)
                .persistent(call.persistent)
                .bind(lock_timeout(call))
                .bind(call.consumer)
                .bind(key)
                .fetch_optional(conn)
                .await?;
            Ok(row.is_some())
        })
    }

    fn insert_many<'a>(
        conn: &'a mut PgConnection,
        call: Call<'a>,
        rows: &'a [Row<'a>],
    ) -> BoxFuture<'a, Result<Vec<bool>, sqlx::Error>> {
        Box::pin(async move {
            let keys: Vec<&str> = rows.iter().map(|row| row.key).collect();
            let fingerprints: Vec<Option<&[u8]>> = rows
                .iter()
                .map(|row| row.fingerprint.map(<[u8; 32]>::as_slice))
                .collect();
            let row = sqlx::query(INSERT_MANY)
                .persistent(call.persistent)
                .bind(lock_timeout(call))
                .bind(call.consumer)
                .bind(keys)
                .bind(fingerprints)
                .fetch_one(conn)
                .await?;
            let fresh: Option<Vec<String>> = row.try_get(0)?;
            let fresh: std::collections::HashSet<_> = fresh.into_iter().flatten().collect();
            Ok(rows.iter().map(|row| fresh.contains(row.key)).collect())
        })
    }

    /// A version that may not be the first of its key can only update.
    fn advance<'a>(
        conn: &'a mut PgConnection,
        call: Call<'a>,
        key: &'a str,
        version: ClaimedVersion,
    ) -> BoxFuture<'a, Result<bool, sqlx::Error>> {
        Box::pin(async move {
            let statement = if version.may_be_first() {
                INSERT_VERSION
            } else {
                UPDATE_VERSION
            };
            let row = sqlx::query(statement)
                .persistent(call.persistent)
                .bind(lock_timeout(call))
                .bind(call.consumer)
                .bind(key)
                .bind(version.number)
                .bind(version.floor())
                .bind(version.lowest())
                .fetch_optional(conn)
                .await?;
            Ok(row.is_some())
        })
    }

    fn read<'a>(
        conn: &'a mut PgConnection,
        call: Call<'a>,
        keys: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<Stored>, sqlx::Error>> {
        Box::pin(async move {
            let rows = sqlx::query(
                "SELECT message_id, version, fingerprint, result FROM processed_messages WHERE consumer = $1 AND message_id = ANY($2)",
            )
            .persistent(call.persistent)
            .bind(call.consumer)
            .bind(keys)
            .fetch_all(conn)
            .await?;
            rows.into_iter()
                .map(|row| {
                    Ok(Stored {
                        key: row.try_get(0)?,
                        version: row.try_get(1)?,
                        fingerprint: row.try_get(2)?,
                        result: row.try_get(3)?,
                    })
                })
                .collect()
        })
    }

    fn store<'a>(
        conn: &'a mut PgConnection,
        call: Call<'a>,
        keys: &'a [&'a str],
        value: Value<'a>,
    ) -> BoxFuture<'a, Result<u64, sqlx::Error>> {
        Box::pin(async move {
            let done = sqlx::query(STORE)
                .persistent(call.persistent)
                .bind(call.consumer)
                .bind(keys)
                .bind(value.json)
                .bind(value.is_sealed)
                .execute(conn)
                .await?;
            Ok(done.rows_affected())
        })
    }

    fn insert_by_day<'a>(
        conn: &'a mut PgConnection,
        call: Call<'a>,
        rows: &'a [DatedRow<'a>],
    ) -> BoxFuture<'a, Result<Dated, sqlx::Error>> {
        Box::pin(by_day::insert(conn, call, rows))
    }

    fn read_by_day<'a>(
        conn: &'a mut PgConnection,
        call: Call<'a>,
        claims: &'a [(&'a str, Day)],
    ) -> BoxFuture<'a, Result<Vec<Stored>, sqlx::Error>> {
        Box::pin(by_day::read(conn, call, claims))
    }

    fn store_by_day<'a>(
        conn: &'a mut PgConnection,
        call: Call<'a>,
        claim: (&'a str, Day),
        value: Value<'a>,
    ) -> BoxFuture<'a, Result<u64, sqlx::Error>> {
        Box::pin(by_day::store(conn, call, claim, value))
    }
}

/// As the setting takes it; 0 would wait without bound.
pub(super) fn lock_timeout(call: Call<'_>) -> Option<String> {
    let milliseconds = call.in_flight.milliseconds()?;
    Some(format!("{}ms", milliseconds.max(1)))
}
