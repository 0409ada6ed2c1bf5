use sqlx::mysql::MySqlRow;
use sqlx::{MySql, MySqlPool, Row as _};

use super::{Answer, Claim, Consumer, Shape, Size, Store, Table, hex, unsigned};

macro_rules! rfc3339 {
    ($time:literal) => {
        concat!("DATE_FORMAT(", $time, ", '%Y-%m-%dT%H:%i:%s.%fZ')")
    };
}

macro_rules! age {
    ($time:literal) => {
        concat!("TIMESTAMPDIFF(SECOND, ", $time, ", CURRENT_TIMESTAMP(6))")
    };
}

/// In lower case, since MySQL 8 names the columns of its information schema in upper case.
const COLUMNS: &str = "SELECT column_name AS name FROM information_schema.columns \
    WHERE table_schema = DATABASE() AND table_name = 'processed_messages' ORDER BY ordinal_position";

const SIZE: &str = "SELECT CAST(data_length + index_length AS SIGNED), CAST(table_rows AS SIGNED) FROM information_schema.tables \
    WHERE table_schema = DATABASE() AND table_name = 'processed_messages'";

/// A consistent read, which takes no locks.
const COUNT: &str = concat!(
    "SELECT consumer, COUNT(*), CAST(SUM(LEFT(message_id, 1) = '|') AS SIGNED), COUNT(version), ",
    rfc3339!("MIN(processed_at)"),
    ", ",
    age!("MIN(processed_at)"),
    ", ",
    rfc3339!("MAX(processed_at)"),
    ", ",
    age!("MAX(processed_at)"),
    ", CAST(SUM(processed_at > CURRENT_TIMESTAMP(6) - INTERVAL 1 HOUR) AS SIGNED), \
       CAST(SUM(processed_at > CURRENT_TIMESTAMP(6) - INTERVAL 1 DAY) AS SIGNED) \
     FROM processed_messages GROUP BY consumer ORDER BY consumer"
);

const FIND: &str = concat!(
    "SELECT ",
    rfc3339!("processed_at"),
    ", ",
    age!("processed_at"),
    ", version, fingerprint, result FROM processed_messages WHERE consumer = ? AND message_id = ?"
);

/// For the planner's estimate InnoDB looks into its index, and not into its statistics.
macro_rules! planned {
    ($index:literal, $condition:literal) => {
        concat!(
            "EXPLAIN SELECT 1 FROM processed_messages FORCE INDEX (",
            $index,
            ") WHERE consumer = ? AND ",
            $condition
        )
    };
}

const ROWS: &str = planned!("PRIMARY", "1 = 1");
const BUSINESS_ROWS: &str = planned!("PRIMARY", "message_id >= '|' AND message_id < '}'");
const LAST_HOUR: &str = planned!(
    "processed_messages_processed_at",
    "processed_at > CURRENT_TIMESTAMP(6) - INTERVAL 1 HOUR"
);
const LAST_DAY: &str = planned!(
    "processed_messages_processed_at",
    "processed_at > CURRENT_TIMESTAMP(6) - INTERVAL 1 DAY"
);

const HAS_INDEX: &str = "SELECT COUNT(*) > 0 FROM information_schema.statistics WHERE table_schema = DATABASE() \
    AND table_name = 'processed_messages' AND index_name = 'processed_messages_processed_at'";

/// Both ends of the pruner's index.
const ENDS: &str = concat!(
    "SELECT ",
    rfc3339!("oldest"),
    ", ",
    age!("oldest"),
    ", ",
    rfc3339!("newest"),
    ", ",
    age!("newest"),
    " FROM (SELECT MIN(processed_at) AS oldest, MAX(processed_at) AS newest \
       FROM processed_messages FORCE INDEX (processed_messages_processed_at) WHERE consumer = ?) AS ends"
);

impl Store for MySql {
    const COLUMNS: &'static [&'static str] = &[
        "consumer",
        "message_id",
        "processed_at",
        "version",
        "fingerprint",
        "result",
        "repeats",
    ];

    async fn shape(pool: &MySqlPool) -> Answer<Shape> {
        let database: String = sqlx::query_scalar("SELECT DATABASE()")
            .fetch_one(pool)
            .await?;
        let columns = sqlx::query(COLUMNS).fetch_all(pool).await?;
        let columns = columns
            .iter()
            .map(|row| Ok(text(row.try_get_unchecked(0)?).to_lowercase()));
        Ok(Shape {
            columns: columns.collect::<Answer<_>>()?,
            has_index: sqlx::query_scalar(HAS_INDEX).fetch_one(pool).await?,
            has_days: false,
            place: format!("the database `{database}`"),
        })
    }

    async fn size(pool: &MySqlPool, _: Table) -> Answer<Size> {
        let row = sqlx::query(SIZE).fetch_one(pool).await?;
        Ok(Size {
            bytes: row.try_get::<Option<i64>, _>(0)?.map_or(0, unsigned),
            rows: row.try_get::<Option<i64>, _>(1)?.map(unsigned),
        })
    }

    async fn now(pool: &MySqlPool) -> Answer<String> {
        sqlx::query_scalar(concat!("SELECT ", rfc3339!("CURRENT_TIMESTAMP(6)")))
            .fetch_one(pool)
            .await
    }

    async fn count(pool: &MySqlPool, _: Table) -> Answer<Vec<Consumer>> {
        let rows = sqlx::query(COUNT).fetch_all(pool).await?;
        rows.iter().map(consumer).collect()
    }

    async fn estimate(pool: &MySqlPool, table: Table) -> Answer<Vec<Consumer>> {
        let has_index: bool = sqlx::query_scalar(HAS_INDEX).fetch_one(pool).await?;
        let mut consumers = Vec::new();
        for name in Self::consumer_names(pool, table, usize::MAX).await? {
            let mut found = Consumer {
                rows: planned(pool, ROWS, &name).await?,
                business_keys: Some(0),
                ..Consumer::default()
            };
            if Self::has_business_keys(pool, table, &name).await? {
                found.business_keys = planned(pool, BUSINESS_ROWS, &name).await?;
            }
            if has_index {
                let ends = sqlx::query(ENDS)
                    .bind(name.as_bytes())
                    .fetch_one(pool)
                    .await?;
                found.oldest = ends.try_get(0)?;
                found.oldest_age_seconds = ends.try_get(1)?;
                found.newest = ends.try_get(2)?;
                found.newest_age_seconds = ends.try_get(3)?;
                found.last_hour = planned(pool, LAST_HOUR, &name).await?;
                found.last_day = planned(pool, LAST_DAY, &name).await?;
            }
            found.name = name;
            consumers.push(found);
        }
        Ok(consumers)
    }

    async fn consumer_names(pool: &MySqlPool, _: Table, limit: usize) -> Answer<Vec<String>> {
        let mut names: Vec<String> = Vec::new();
        while names.len() < limit {
            let last = names.last().map(String::as_str).unwrap_or_default();
            let next = "SELECT consumer FROM processed_messages WHERE consumer > ? ORDER BY consumer LIMIT 1";
            let row = sqlx::query(next)
                .bind(last.as_bytes())
                .fetch_optional(pool)
                .await?;
            let Some(row) = row else { break };
            names.push(text(row.try_get(0)?));
        }
        Ok(names)
    }

    async fn find(pool: &MySqlPool, table: Table, consumer: &str, key: &str) -> Answer<Vec<Claim>> {
        let rows = sqlx::query(FIND)
            .bind(consumer.as_bytes())
            .bind(key.as_bytes())
            .fetch_all(pool)
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Claim {
                    table,
                    consumer: consumer.to_owned(),
                    key: key.to_owned(),
                    day: None,
                    processed_at: row.try_get(0)?,
                    age_seconds: row.try_get(1)?,
                    version: row.try_get(2)?,
                    fingerprint: row
                        .try_get::<Option<Vec<u8>>, _>(3)?
                        .map(|bytes| hex(&bytes)),
                    result: row.try_get::<Option<Vec<u8>>, _>(4)?.map(text),
                })
            })
            .collect()
    }

    async fn has_business_keys(pool: &MySqlPool, _: Table, consumer: &str) -> Answer<bool> {
        let first = "SELECT 1 FROM processed_messages WHERE consumer = ? AND message_id >= '|' AND message_id < '}' LIMIT 1";
        let row = sqlx::query(first)
            .bind(consumer.as_bytes())
            .fetch_optional(pool)
            .await?;
        Ok(row.is_some())
    }

    async fn remove(pool: &MySqlPool, claim: &Claim) -> Answer<u64> {
        let mut connection = pool.acquire().await?;
        sqlx::query("SET SESSION innodb_lock_wait_timeout = 5")
            .execute(&mut *connection)
            .await?;
        let done =
            sqlx::query("DELETE FROM processed_messages WHERE consumer = ? AND message_id = ?")
                .bind(claim.consumer.as_bytes())
                .bind(claim.key.as_bytes())
                .execute(&mut *connection)
                .await?;
        Ok(done.rows_affected())
    }
}

/// How many rows the planner expects.
async fn planned(pool: &MySqlPool, explain: &'static str, consumer: &str) -> Answer<Option<u64>> {
    let row = sqlx::query(explain)
        .bind(consumer.as_bytes())
        .fetch_one(pool)
        .await?;
    // A text on MariaDB, a number on MySQL.
    if let Ok(rows) = row.try_get::<Option<String>, _>("rows") {
        return Ok(rows.and_then(|rows| rows.parse().ok()));
    }
    row.try_get("rows")
}

fn consumer(row: &MySqlRow) -> Answer<Consumer> {
    let number = |at| {
        row.try_get::<i64, usize>(at)
            .map(|number| Some(unsigned(number)))
    };
    Ok(Consumer {
        name: text(row.try_get(0)?),
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

/// The columns hold bytes.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
