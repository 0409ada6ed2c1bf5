mod keys;

use std::collections::HashMap;

use sqlx::{MySql, MySqlConnection, Row as _};

use keys::{KEYS_OF_A_STATEMENT, take_keys, utc};

use super::rows::text;
use crate::Due;
use crate::backend::BoxFuture;
use crate::prune::chunks::{Bounds, Chunks, Step, Taken, Takes, check_type};

/// The claims of a consumer that are past their window. A version is its aggregate's, and business keys begin with a bar.
///
/// `FROM_UNIXTIME` answers in the session's time zone, where an hour may come twice a year: it is for the index, and the condition beside it,
/// which knows no time zones, decides.
macro_rules! past_window {
    () => {
        "FROM processed_messages WHERE consumer = ? AND processed_at < FROM_UNIXTIME(?) AND UNIX_TIMESTAMP(processed_at) < ? \
         AND version IS NULL AND (LEFT(message_id, 1) = '|') = ?"
    };
}

const DUE: &str = concat!(
    "SELECT COUNT(*), ",
    utc!("MIN(processed_at)"),
    " ",
    past_window!()
);

/// The oldest, in an order without ties. Locks nothing: a search that locks keeps hold of every claim that it passes and that stays, such as the
/// versions of aggregates.
const OLDEST: &str = concat!(
    "SELECT message_id, CAST(UNIX_TIMESTAMP(processed_at) AS CHAR) ",
    past_window!(),
    " AND processed_at >= FROM_UNIXTIME(CAST(? AS DECIMAL(20, 6))) \
     AND (UNIX_TIMESTAMP(processed_at) > CAST(? AS DECIMAL(20, 6)) \
       OR UNIX_TIMESTAMP(processed_at) = CAST(? AS DECIMAL(20, 6)) AND message_id > ?) \
     ORDER BY processed_at, message_id LIMIT ?"
);

/// One look at the pruner's index for each.
const OLDEST_OF_EACH: &str = "SELECT consumer, CAST(FLOOR(UNIX_TIMESTAMP(MIN(processed_at))) AS SIGNED) FROM processed_messages GROUP BY consumer";

const CONSUMERS: &str = "SELECT DISTINCT consumer FROM processed_messages ORDER BY consumer";

impl Chunks for MySql {
    const ROWS_OF_A_CHUNK: u32 = 1000;

    const BEGIN_CHUNK: &'static str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN";

    const BEGIN_LOOK: &'static str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN";

    const CREATE_ARCHIVE: &'static str = include_str!("../schema/mysql_archive.sql");

    fn consumers(conn: &mut MySqlConnection) -> BoxFuture<'_, Result<Vec<String>, sqlx::Error>> {
        Box::pin(async move {
            let found: Vec<Vec<u8>> = sqlx::query_scalar(CONSUMERS)
                .persistent(false)
                .fetch_all(conn)
                .await?;
            // Only a text can have a window.
            Ok(found
                .into_iter()
                .filter_map(|name| text(name).ok())
                .collect())
        })
    }

    fn due<'a>(
        conn: &'a mut MySqlConnection,
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
                let row = bind(DUE, &consumer, &cutoff, are_business_keys)
                    .fetch_one(&mut *conn)
                    .await?;
                let claims = u64::try_from(row.try_get::<i64, _>(0)?).unwrap_or_default();
                Due::add(
                    &mut due,
                    consumer,
                    are_business_keys,
                    claims,
                    row.try_get(1)?,
                );
            }
            Ok(due)
        })
    }

    /// Whole seconds, rounded so that claims are kept a little longer.
    fn plan<'a>(
        conn: &'a mut MySqlConnection,
        bounds: &'a Bounds,
        consumers: &'a [String],
        _: u32,
    ) -> BoxFuture<'a, Result<Vec<Step>, sqlx::Error>> {
        Box::pin(async move {
            let kind: String = sqlx::query_scalar(
                "SELECT CAST(data_type AS CHAR) FROM information_schema.columns \
                 WHERE table_schema = DATABASE() AND table_name = 'processed_messages' AND column_name = 'processed_at'",
            )
            .persistent(false)
            .fetch_one(&mut *conn)
            .await?;
            check_type(&kind, "timestamp")?;
            let now: i64 = sqlx::query_scalar("SELECT CAST(UNIX_TIMESTAMP() AS SIGNED)")
                .persistent(false)
                .fetch_one(&mut *conn)
                .await?;
            let oldest: HashMap<Vec<u8>, i64> = sqlx::query_as::<_, (Vec<u8>, i64)>(OLDEST_OF_EACH)
                .persistent(false)
                .fetch_all(conn)
                .await?
                .into_iter()
                .collect();
            let mut steps = Vec::new();
            for consumer in consumers {
                let oldest = oldest.get(consumer.as_bytes()).copied().unwrap_or(i64::MAX);
                for (seconds, are_business_keys) in
                    bounds.of(consumer).into_iter().zip([false, true])
                {
                    #[allow(clippy::cast_possible_truncation, reason = "a bound is far below")]
                    let cutoff = seconds.map(|seconds| now - seconds.ceil() as i64);
                    // There are no claims from before 1970.
                    if let Some(cutoff) = cutoff.filter(|cutoff| *cutoff > 0 && oldest < *cutoff) {
                        steps.push(Step::Claims {
                            consumer: consumer.clone(),
                            are_business_keys,
                            cutoff: cutoff.to_string(),
                            after: None,
                        });
                    }
                }
            }
            Ok(steps)
        })
    }

    /// A lock by name is the server's, not the database's, and stays with the session.
    fn lock(conn: &mut MySqlConnection) -> BoxFuture<'_, Result<bool, sqlx::Error>> {
        Box::pin(async move {
            // Not prepared: closing a statement costs some 40 ms, since the next command waits for a delayed acknowledgement.
            let row = sqlx::raw_sql(
                "SELECT CAST(GET_LOCK(CONCAT('idem.prune.', MD5(DATABASE())), 0) AS SIGNED)",
            )
            .fetch_one(conn)
            .await?;
            Ok(row.try_get::<Option<i64>, _>(0)? == Some(1))
        })
    }

    fn unlock(conn: &mut MySqlConnection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move {
            sqlx::raw_sql("DO RELEASE_LOCK(CONCAT('idem.prune.', MD5(DATABASE())))")
                .execute(conn)
                .await
                .map(drop)
        })
    }

    fn take<'a>(
        conn: &'a mut MySqlConnection,
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
            let (time, key) = after.take().unwrap_or_else(|| ("0".to_owned(), Vec::new()));
            let oldest = bind(OLDEST, consumer, cutoff, *are_business_keys)
                .bind(time.clone())
                .bind(time.clone())
                .bind(time)
                .bind(key)
                .bind(chunk)
                .fetch_all(&mut *conn)
                .await?;
            if let Some(row) = oldest.last() {
                *after = Some((row.try_get(1)?, row.try_get(0)?));
            }
            let found: Vec<Vec<u8>> = oldest
                .iter()
                .map(|row| row.try_get(0))
                .collect::<Result<_, _>>()?;
            let mut taken = Taken {
                is_done: oldest.len() < usize::try_from(chunk).unwrap_or(usize::MAX),
                ..Taken::default()
            };
            for keys in found.chunks(KEYS_OF_A_STATEMENT) {
                take_keys(conn, (consumer, cutoff), keys, archive, &mut taken).await?;
            }
            if *are_business_keys {
                taken.business_keys = taken.claims;
            }
            Ok(taken)
        })
    }
}

type Query<'q> = sqlx::query::Query<'q, MySql, sqlx::mysql::MySqlArguments>;

fn bind(
    sql: &'static str,
    consumer: &str,
    cutoff: &str,
    are_business_keys: bool,
) -> Query<'static> {
    sqlx::query(sql)
        .bind(consumer.as_bytes().to_vec())
        .bind(cutoff.to_owned())
        .bind(cutoff.to_owned())
        .bind(are_business_keys)
}
