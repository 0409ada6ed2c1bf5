use sqlx::postgres::PgRow;
use sqlx::{PgPool, Postgres, Row as _};

use super::{Answer, Claim, Consumer, Shape, Size, Store, Table, hex, unsigned};

/// Nothing stays prepared, so that poolers in transaction mode do not mind.
macro_rules! query {
    ($sql:expr) => {
        sqlx::query($sql).persistent(false)
    };
}

/// The same statement for both tables.
macro_rules! of_table {
    ($table:expr, $statement:ident) => {
        match $table {
            Table::Plain => $statement!("processed_messages", "version", "NULL::text"),
            Table::ByDay => {
                $statement!("processed_messages_by_day", "NULL::bigint", "day::text")
            }
        }
    };
}

macro_rules! rfc3339 {
    ($time:literal) => {
        concat!(
            "to_char(",
            $time,
            " AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
        )
    };
}

macro_rules! age {
    ($time:literal) => {
        concat!("extract(epoch FROM now() - ", $time, ")::bigint")
    };
}

const SHAPE: &str = "SELECT ARRAY(SELECT attname::text FROM pg_attribute \
      WHERE attrelid = to_regclass('processed_messages') AND attnum > 0 AND NOT attisdropped ORDER BY attnum), \
    to_regclass('processed_messages_by_day') IS NOT NULL, current_setting('search_path'), \
    to_regclass('processed_messages_processed_at') IS NOT NULL";

/// A partitioned table has no rows of its own. -1 rows: never counted.
macro_rules! size {
    ($table:literal, $version:literal, $day:literal) => {
        concat!(
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint, \
               CASE WHEN min(c.reltuples) < 0 THEN NULL ELSE sum(c.reltuples)::bigint END \
             FROM pg_class AS c WHERE c.relkind IN ('r', 'p') AND (c.oid = to_regclass('",
            $table,
            "') OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass('",
            $table,
            "'))) AND (c.relkind = 'r' OR NOT c.relhassubclass)"
        )
    };
}

/// $1 is how much of the table stands behind the rows that are read, in percent.
macro_rules! aggregate {
    ($table:literal, $version:literal, $source:literal) => {
        concat!(
            "SELECT consumer, count(*), count(*) FILTER (WHERE left(message_id, 1) = '|'), count(",
            $version,
            "), ",
            rfc3339!("min(processed_at)"),
            ", ",
            age!("min(processed_at)"),
            ", ",
            rfc3339!("max(processed_at)"),
            ", ",
            age!("max(processed_at)"),
            ", count(*) FILTER (WHERE processed_at > now() - interval '1 hour'), \
               count(*) FILTER (WHERE processed_at > now() - interval '1 day') FROM ",
            $table,
            $source,
            " GROUP BY consumer ORDER BY consumer"
        )
    };
}

macro_rules! count {
    ($table:literal, $version:literal, $day:literal) => {
        aggregate!($table, $version, "")
    };
}

/// Whole pages are taken at random, so that few are read.
macro_rules! sample {
    ($table:literal, $version:literal, $day:literal) => {
        aggregate!($table, $version, " TABLESAMPLE SYSTEM ($1)")
    };
}

/// Jumps from one consumer to the next in the primary key's index.
macro_rules! next_consumer {
    ($table:literal, $version:literal, $day:literal) => {
        concat!(
            "SELECT consumer FROM ",
            $table,
            " WHERE consumer > $1 ORDER BY consumer LIMIT 1"
        )
    };
}

macro_rules! find {
    ($table:literal, $version:literal, $day:literal) => {
        concat!(
            "SELECT ",
            rfc3339!("processed_at"),
            ", ",
            age!("processed_at"),
            ", ",
            $version,
            ", fingerprint, result, ",
            $day,
            " FROM ",
            $table,
            " WHERE consumer = $1 AND message_id = $2 ORDER BY processed_at"
        )
    };
}

macro_rules! business {
    ($table:literal, $version:literal, $day:literal) => {
        concat!(
            "SELECT EXISTS (SELECT FROM ",
            $table,
            " WHERE consumer = $1 AND message_id >= '|' AND message_id < '}')"
        )
    };
}

/// Of a table this large, so many rows are looked at.
const SAMPLE: u64 = 300_000;

impl Store for Postgres {
    const COLUMNS: &'static [&'static str] = &[
        "consumer",
        "message_id",
        "processed_at",
        "version",
        "fingerprint",
        "result",
    ];

    async fn shape(pool: &PgPool) -> Answer<Shape> {
        let row = query!(SHAPE).fetch_one(pool).await?;
        let path: String = row.try_get(2)?;
        Ok(Shape {
            columns: row.try_get(0)?,
            has_index: row.try_get(3)?,
            has_days: row.try_get(1)?,
            place: format!("the schemas of `search_path` ({path})"),
        })
    }

    async fn size(pool: &PgPool, table: Table) -> Answer<Size> {
        let row = query!(of_table!(table, size)).fetch_one(pool).await?;
        Ok(Size {
            bytes: unsigned(row.try_get(0)?),
            rows: row.try_get::<Option<i64>, _>(1)?.map(unsigned),
        })
    }

    async fn now(pool: &PgPool) -> Answer<String> {
        let row = query!(concat!("SELECT ", rfc3339!("now()")))
            .fetch_one(pool)
            .await?;
        row.try_get(0)
    }

    async fn count(pool: &PgPool, table: Table) -> Answer<Vec<Consumer>> {
        let rows = query!(of_table!(table, count)).fetch_all(pool).await?;
        rows.iter().map(|row| consumer(row, 1.0)).collect()
    }

    async fn estimate(pool: &PgPool, table: Table) -> Answer<Vec<Consumer>> {
        let size = Self::size(pool, table).await?;
        // Never counted: a row is hardly smaller than this.
        let rows = size.rows.unwrap_or(size.bytes / 100).max(1);
        let percent = (share(SAMPLE, rows) * 100.0).min(100.0);
        let sampled = query!(of_table!(table, sample))
            .bind(percent)
            .fetch_all(pool)
            .await?;
        let mut consumers: Vec<Consumer> = sampled
            .iter()
            .map(|row| consumer(row, 100.0 / percent))
            .collect::<Answer<_>>()?;
        // Those with few rows are hardly met by chance.
        for name in Self::consumer_names(pool, table, usize::MAX).await? {
            if !consumers.iter().any(|found| found.name == name) {
                consumers.push(Consumer {
                    name,
                    ..Consumer::default()
                });
            }
        }
        consumers.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(consumers)
    }

    async fn consumer_names(pool: &PgPool, table: Table, limit: usize) -> Answer<Vec<String>> {
        let mut names: Vec<String> = Vec::new();
        while names.len() < limit {
            let last = names.last().map(String::as_str).unwrap_or_default();
            let row = query!(of_table!(table, next_consumer))
                .bind(last)
                .fetch_optional(pool)
                .await?;
            let Some(row) = row else { break };
            names.push(row.try_get(0)?);
        }
        Ok(names)
    }

    async fn find(pool: &PgPool, table: Table, consumer: &str, key: &str) -> Answer<Vec<Claim>> {
        let rows = query!(of_table!(table, find))
            .bind(consumer)
            .bind(key)
            .fetch_all(pool)
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Claim {
                    table,
                    consumer: consumer.to_owned(),
                    key: key.to_owned(),
                    day: row.try_get(5)?,
                    processed_at: row.try_get(0)?,
                    age_seconds: row.try_get(1)?,
                    version: row.try_get(2)?,
                    fingerprint: row
                        .try_get::<Option<Vec<u8>>, _>(3)?
                        .map(|bytes| hex(&bytes)),
                    result: row.try_get(4)?,
                })
            })
            .collect()
    }

    async fn has_business_keys(pool: &PgPool, table: Table, consumer: &str) -> Answer<bool> {
        let row = query!(of_table!(table, business))
            .bind(consumer)
            .fetch_one(pool)
            .await?;
        row.try_get(0)
    }

    async fn remove(pool: &PgPool, claim: &Claim) -> Answer<u64> {
        let mut transaction = pool.begin().await?;
        query!("SET LOCAL lock_timeout = '5s'")
            .execute(&mut *transaction)
            .await?;
        let delete = match claim.day {
            None => "DELETE FROM processed_messages WHERE consumer = $1 AND message_id = $2",
            Some(_) => {
                "DELETE FROM processed_messages_by_day WHERE consumer = $1 AND message_id = $2 AND day = $3::date"
            }
        };
        let mut delete = query!(delete).bind(&claim.consumer).bind(&claim.key);
        if let Some(day) = &claim.day {
            delete = delete.bind(day);
        }
        let done = delete.execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(done.rows_affected())
    }
}

fn consumer(row: &PgRow, factor: f64) -> Answer<Consumer> {
    let number = |at| {
        row.try_get::<i64, usize>(at)
            .map(|number| Some(scaled(number, factor)))
    };
    Ok(Consumer {
        name: row.try_get(0)?,
        rows: number(1)?,
        business_keys: number(2)?,
        versions: number(3)?,
        oldest: row.try_get(4)?,
        oldest_age_seconds: row.try_get(5)?,
        newest: row.try_get(6)?,
        newest_age_seconds: row.try_get(7)?,
        last_hour: number(8)?,
        last_day: number(9)?,
    })
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate, which is not negative"
)]
fn scaled(number: i64, factor: f64) -> u64 {
    (number as f64 * factor).round() as u64
}

#[allow(clippy::cast_precision_loss, reason = "an estimate")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
