use sqlx::{Row as _, Sqlite, SqliteConnection};

use crate::Due;
use crate::backend::BoxFuture;
use crate::prune::chunks::{Bounds, Chunks, Removed, Step, Taken, Takes};

/// One look at the index for each consumer.
const CONSUMERS: &str = "WITH RECURSIVE found (consumer) AS (\
       SELECT min(consumer) FROM processed_messages \
       UNION ALL SELECT (SELECT min(next.consumer) FROM processed_messages AS next WHERE next.consumer > found.consumer) \
       FROM found WHERE found.consumer IS NOT NULL) \
     SELECT consumer FROM found WHERE consumer IS NOT NULL";

/// The claims of a consumer that are past their window. A version is its aggregate's, and business keys begin with a bar. A time that another
/// program has stored in a form of its own does not compare, and its claim is kept.
macro_rules! past_window {
    () => {
        "FROM processed_messages WHERE consumer = ?1 AND processed_at < ?2 AND version IS NULL AND processed_at GLOB '[0-9][0-9][0-9][0-9]-*' AND (substr(message_id, 1, 1) = '|') = ?3"
    };
}

const DUE: &str = concat!("SELECT count(*), min(processed_at) ", past_window!());

/// The oldest of them. Within the one transaction that writes, this finds the same claims each time.
macro_rules! oldest {
    ($columns:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " ",
            past_window!(),
            " AND (?4 IS NULL OR processed_at >= ?4) ORDER BY processed_at, message_id LIMIT ?5"
        )
    };
}

const COPY: &str = concat!(
    "INSERT INTO processed_messages_archive (consumer, message_id, processed_at, fingerprint, result) ",
    oldest!("consumer, message_id, processed_at, fingerprint, result")
);

const TAKE: &str = concat!(
    "DELETE FROM processed_messages WHERE consumer = ?1 AND message_id IN (",
    oldest!("message_id"),
    ") RETURNING processed_at"
);

/// With what a file keeps of them.
const TAKE_ROWS: &str = concat!(
    "DELETE FROM processed_messages WHERE consumer = ?1 AND message_id IN (",
    oldest!("message_id"),
    ") RETURNING processed_at, message_id, fingerprint, result"
);

impl Chunks for Sqlite {
    const ROWS_OF_A_CHUNK: u32 = 1000;

    const BEGIN_CHUNK: &'static str = "BEGIN IMMEDIATE";

    const BEGIN_LOOK: &'static str = "BEGIN";

    const CREATE_ARCHIVE: &'static str = include_str!("../schema/sqlite_archive.sql");

    fn consumers(conn: &mut SqliteConnection) -> BoxFuture<'_, Result<Vec<String>, sqlx::Error>> {
        Box::pin(
            sqlx::query_scalar(CONSUMERS)
                .persistent(false)
                .fetch_all(conn),
        )
    }

    fn due<'a>(
        conn: &'a mut SqliteConnection,
        bounds: &'a Bounds,
        consumers: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<Due>, sqlx::Error>> {
        Box::pin(async move {
            let mut due: Vec<Due> = Vec::new();
            for step in Self::plan(conn, bounds, consumers, 0).await? {
                let Step::Claims {
                    consumer,
                    are_business_keys,
                    cutoff,
                    ..
                } = step
                else {
                    continue;
                };
                let row = sqlx::query(DUE)
                    .bind(&consumer)
                    .bind(cutoff)
                    .bind(are_business_keys)
                    .fetch_one(&mut *conn)
                    .await?;
                let claims = u64::try_from(row.try_get::<i64, _>(0)?).unwrap_or_default();
                let oldest: Option<String> = row.try_get(1)?;
                Due::add(
                    &mut due,
                    consumer,
                    are_business_keys,
                    claims,
                    oldest.map(|time| utc(&time)),
                );
            }
            Ok(due)
        })
    }

    fn plan<'a>(
        conn: &'a mut SqliteConnection,
        bounds: &'a Bounds,
        consumers: &'a [String],
        _: u32,
    ) -> BoxFuture<'a, Result<Vec<Step>, sqlx::Error>> {
        Box::pin(async move {
            let mut steps = Vec::new();
            for consumer in consumers {
                for (seconds, are_business_keys) in
                    bounds.of(consumer).into_iter().zip([false, true])
                {
                    let Some(seconds) = seconds else { continue };
                    let cutoff: Option<String> =
                        sqlx::query_scalar("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now', ?)")
                            .bind(format!("-{seconds:.3} seconds"))
                            .fetch_one(&mut *conn)
                            .await?;
                    // One look at the index. None is before the calendar begins, as all claims are after.
                    let oldest: Option<String> = sqlx::query_scalar(
                        "SELECT CAST(min(processed_at) AS text) FROM processed_messages WHERE consumer = ?",
                    )
                    .bind(consumer)
                    .fetch_one(&mut *conn)
                    .await?;
                    if let Some(cutoff) = cutoff.filter(|cutoff| oldest.as_ref() < Some(cutoff)) {
                        steps.push(Step::Claims {
                            consumer: consumer.clone(),
                            are_business_keys,
                            cutoff,
                            after: None,
                        });
                    }
                }
            }
            Ok(steps)
        })
    }

    /// There is one writer at a time, who may as well be a pruner.
    fn lock(_: &mut SqliteConnection) -> BoxFuture<'_, Result<bool, sqlx::Error>> {
        Box::pin(std::future::ready(Ok(true)))
    }

    fn take<'a>(
        conn: &'a mut SqliteConnection,
        _: &'a Bounds,
        step: &'a mut Step,
        chunk: u32,
        archive: Takes,
    ) -> BoxFuture<'a, Result<Taken, sqlx::Error>> {
        Box::pin(async move {
            let Step::Claims {
                consumer,
                are_business_keys,
                cutoff,
                after,
            } = step
            else {
                return Ok(Taken {
                    is_done: true,
                    ..Taken::default()
                });
            };
            let bind = |sql: &'static str| {
                sqlx::query(sql)
                    .bind(consumer.clone())
                    .bind(cutoff.clone())
                    .bind(*are_business_keys)
                    .bind(after.as_ref().map(|(time, _)| time.clone()))
                    .bind(chunk)
            };
            if archive == Takes::Copies {
                bind(COPY).execute(&mut *conn).await?;
            }
            let take = if archive == Takes::Rows {
                TAKE_ROWS
            } else {
                TAKE
            };
            let rows = bind(take).fetch_all(&mut *conn).await?;
            let mut taken = Taken {
                claims: rows.len() as u64,
                is_done: rows.len() < usize::try_from(chunk).unwrap_or(usize::MAX),
                ..Taken::default()
            };
            if *are_business_keys {
                taken.business_keys = taken.claims;
            }
            let mut last = after.take().map(|(time, _)| time);
            for row in rows {
                let processed_at: String = row.try_get(0)?;
                if archive == Takes::Rows {
                    taken.rows.push(Removed {
                        consumer: consumer.clone(),
                        message_id: row.try_get(1)?,
                        day: None,
                        processed_at: utc(&processed_at),
                        fingerprint: row.try_get(2)?,
                        result: row.try_get(3)?,
                    });
                }
                last = last.max(Some(processed_at));
            }
            *after = last.map(|time| (time, Vec::new()));
            Ok(taken)
        })
    }
}

/// `2026-11-30 08:46:20.123` as other formats write it.
fn utc(time: &str) -> String {
    format!("{}Z", time.replacen(' ', "T", 1))
}
