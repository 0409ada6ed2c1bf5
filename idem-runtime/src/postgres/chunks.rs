mod brin;

use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row as _};

use super::days;
use crate::backend::BoxFuture;
use crate::prune::chunks::{Bounds, Chunks, DaysToKeep, Removed, Step, Taken, Takes, check_type};
use crate::{Archive, Due, PruneError, Pruned};

/// The claims that are past their window, as `claim`. $1 to $3 are the consumers with windows of their own, $4 is the default, and $5 the
/// shortest window of all, for the index. A version is its aggregate's, and business keys begin with a bar.
macro_rules! past_window {
    ($more:literal) => {
        concat!(
            "FROM processed_messages AS claim \
             LEFT JOIN unnest($1::text[], $2::float8[], $3::float8[]) AS bound (consumer, messages, business_keys) \
               ON bound.consumer = claim.consumer \
             WHERE claim.version IS NULL AND claim.processed_at < now() - make_interval(secs => $5) \
               AND claim.processed_at < now() - make_interval(secs => CASE \
                 WHEN claim.message_id LIKE '|%' THEN bound.business_keys \
                 WHEN bound.consumer IS NULL THEN $4 ELSE bound.messages END)",
            $more
        )
    };
}

const DUE: &str = concat!(
    "SELECT claim.consumer, count(*), count(*) FILTER (WHERE claim.message_id LIKE '|%'), \
     to_char(min(claim.processed_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') ",
    past_window!(" GROUP BY claim.consumer ORDER BY claim.consumer")
);

/// Neighbouring pages with some $6 claims. No more than 1024 pages, which are eight megabytes, since all between them are read.
const PLAN: &str = concat!(
    "SELECT min(page), max(page) + 1 FROM (\
       SELECT page, page / 1024 AS region, (sum(claims) OVER (ORDER BY page) - claims)::bigint / $6 AS chunk FROM (\
         SELECT (claim.ctid::text::point)[0]::bigint AS page, count(*) AS claims ",
    past_window!(" GROUP BY page) AS pages) AS chunks GROUP BY region, chunk ORDER BY 1")
);

/// Claims that somebody has locked are skipped, so that nothing is waited for. What is in a page now counts, not what the plan saw there.
/// Where the table has partitions, several rows have the same place, each in its own.
macro_rules! take {
    () => {
        concat!(
            "WITH past AS (SELECT claim.tableoid AS part, claim.ctid AS place ",
            past_window!(
                " AND claim.ctid >= $6::tid AND claim.ctid < $7::tid FOR UPDATE OF claim SKIP LOCKED"
            ),
            "), taken AS (DELETE FROM processed_messages WHERE ctid = ANY (ARRAY(SELECT place FROM past)) \
               AND (tableoid, ctid) IN (SELECT part, place FROM past) RETURNING consumer, message_id, processed_at, fingerprint, result) "
        )
    };
}

const TAKE: &str = concat!(
    take!(),
    "SELECT count(*), count(*) FILTER (WHERE message_id LIKE '|%') FROM taken"
);

const TAKE_COPIES: &str = concat!(
    take!(),
    ", copied AS (INSERT INTO processed_messages_archive (consumer, message_id, processed_at, fingerprint, result) SELECT * FROM taken) \
     SELECT count(*), count(*) FILTER (WHERE message_id LIKE '|%') FROM taken"
);

const TAKE_ROWS: &str = concat!(
    take!(),
    "SELECT consumer, message_id, to_char(processed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), fingerprint, result FROM taken"
);

/// One look at the index for each consumer.
pub(super) const CONSUMERS: &str = "WITH RECURSIVE found AS (\
       (SELECT consumer FROM processed_messages ORDER BY consumer LIMIT 1) \
       UNION ALL SELECT (SELECT next.consumer FROM processed_messages AS next WHERE next.consumer > found.consumer \
         ORDER BY next.consumer LIMIT 1) FROM found WHERE found.consumer IS NOT NULL) \
     SELECT consumer FROM found WHERE consumer IS NOT NULL";

impl Chunks for Postgres {
    const ROWS_OF_A_CHUNK: u32 = 5000;

    /// The first bound is for DDL of somebody's, which is the only thing that it may wait for, and the second for a pruner that stands still
    /// while others wait for its lock. How long a statement may take is for people's statements to heed.
    const BEGIN_CHUNK: &'static str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '1s'; \
        SET LOCAL idle_in_transaction_session_timeout = '1min'; SET LOCAL statement_timeout = 0";

    const BEGIN_LOOK: &'static str =
        "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; SET LOCAL statement_timeout = 0";

    const CREATE_ARCHIVE: &'static str = concat!(
        "SELECT pg_advisory_xact_lock(7236837105319);\n",
        include_str!("../schema/postgres_archive.sql")
    );

    fn consumers(conn: &mut PgConnection) -> BoxFuture<'_, Result<Vec<String>, sqlx::Error>> {
        Box::pin(
            sqlx::query_scalar(CONSUMERS)
                .persistent(false)
                .fetch_all(conn),
        )
    }

    fn due<'a>(
        conn: &'a mut PgConnection,
        bounds: &'a Bounds,
        _: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<Due>, sqlx::Error>> {
        Box::pin(async move {
            let rows = bind(DUE, bounds).fetch_all(conn).await?;
            rows.into_iter()
                .map(|row| {
                    Ok(Due {
                        consumer: row.try_get(0)?,
                        claims: count(row.try_get(1)?),
                        business_keys: count(row.try_get(2)?),
                        oldest: row.try_get(3)?,
                    })
                })
                .collect()
        })
    }

    fn plan<'a>(
        conn: &'a mut PgConnection,
        bounds: &'a Bounds,
        _: &'a [String],
        chunk: u32,
    ) -> BoxFuture<'a, Result<Vec<Step>, sqlx::Error>> {
        Box::pin(async move {
            let kind: String = sqlx::query_scalar(
                "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = 'processed_messages'::regclass AND attname = 'processed_at'",
            )
            .persistent(false)
            .fetch_one(&mut *conn)
            .await?;
            check_type(&kind, "timestamp with time zone")?;
            let planning = bind(PLAN, bounds).bind(i64::from(chunk));
            let rows = planning.fetch_all(conn).await?;
            rows.into_iter()
                .map(|row| {
                    Ok(Step::Pages {
                        first: row.try_get(0)?,
                        end: row.try_get(1)?,
                    })
                })
                .collect()
        })
    }

    /// Of the transaction, so that it goes with it, also behind a pooler. The upper half of the number is arbitrary.
    fn lock(conn: &mut PgConnection) -> BoxFuture<'_, Result<bool, sqlx::Error>> {
        Box::pin(
            sqlx::query_scalar(
                "SELECT pg_try_advisory_xact_lock((7236837::bigint << 32) | 'processed_messages'::regclass::oid::bigint)",
            )
            .persistent(false)
            .fetch_one(conn),
        )
    }

    fn take<'a>(
        conn: &'a mut PgConnection,
        bounds: &'a Bounds,
        step: &'a mut Step,
        _: u32,
        archive: Takes,
    ) -> BoxFuture<'a, Result<Taken, sqlx::Error>> {
        Box::pin(async move {
            let Step::Pages { first, end } = step else {
                return Ok(Taken {
                    is_done: true,
                    ..Taken::default()
                });
            };
            let sql = match archive {
                Takes::Nothing => TAKE,
                Takes::Copies => TAKE_COPIES,
                Takes::Rows => TAKE_ROWS,
            };
            let taking = bind(sql, bounds)
                .bind(format!("({first},0)"))
                .bind(format!("({end},0)"));
            let rows = taking.fetch_all(conn).await?;
            let mut taken = Taken {
                is_done: true,
                ..Taken::default()
            };
            if archive == Takes::Rows {
                taken.rows = rows.iter().map(removed).collect::<Result<_, _>>()?;
                let business_keys = taken
                    .rows
                    .iter()
                    .filter(|row| row.message_id.starts_with('|'));
                taken.business_keys = business_keys.count() as u64;
                taken.claims = taken.rows.len() as u64;
            } else if let Some(row) = rows.first() {
                taken.claims = count(row.try_get(0)?);
                taken.business_keys = count(row.try_get(1)?);
            }
            Ok(taken)
        })
    }

    fn create_days<'a>(
        conn: &'a mut PgConnection,
        days: &'a DaysToKeep<'a>,
    ) -> BoxFuture<'a, Result<u32, PruneError>> {
        Box::pin(days::create_ahead(conn, days))
    }

    fn drop_days<'a>(
        conn: &'a mut PgConnection,
        days: &'a DaysToKeep<'a>,
        archive: &'a Archive,
        pruned: &'a mut Pruned,
    ) -> BoxFuture<'a, Result<(), PruneError>> {
        Box::pin(days::drop_past(
            conn,
            days::Keep::Windows(days.windows),
            archive,
            pruned,
        ))
    }

    fn tidy<'a>(conn: &'a mut PgConnection, steps: &'a [Step]) -> BoxFuture<'a, ()> {
        Box::pin(brin::forget(conn, steps))
    }
}

type Query<'q> = sqlx::query::Query<'q, Postgres, sqlx::postgres::PgArguments>;

fn bind(sql: &'static str, bounds: &Bounds) -> Query<'static> {
    let consumers: Vec<String> = bounds
        .named
        .iter()
        .map(|bound| bound.consumer.clone())
        .collect();
    let messages: Vec<Option<f64>> = bounds.named.iter().map(|bound| bound.messages).collect();
    let business_keys: Vec<Option<f64>> = bounds
        .named
        .iter()
        .map(|bound| bound.business_keys)
        .collect();
    sqlx::query(sql)
        .persistent(false)
        .bind(consumers)
        .bind(messages)
        .bind(business_keys)
        .bind(bounds.default)
        .bind(bounds.shortest())
}

fn removed(row: &sqlx::postgres::PgRow) -> Result<Removed, sqlx::Error> {
    Ok(Removed {
        consumer: row.try_get(0)?,
        message_id: row.try_get(1)?,
        day: None,
        processed_at: row.try_get(2)?,
        fingerprint: row.try_get(3)?,
        result: row.try_get(4)?,
    })
}

/// A count is not negative.
pub(super) fn count(count: i64) -> u64 {
    u64::try_from(count).unwrap_or_default()
}

pub(super) async fn run(conn: &mut PgConnection, sql: String) -> Result<u64, sqlx::Error> {
    let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await?;
    Ok(done.rows_affected())
}
