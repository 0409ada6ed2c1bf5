use sqlx::{Row as _, Sqlite, SqlitePool};

use super::{Answer, Claim, Consumer, Shape, Size, Store, Table, hex, unsigned};

macro_rules! rfc3339 {
    ($time:literal) => {
        concat!("strftime('%Y-%m-%dT%H:%M:%fZ', ", $time, ")")
    };
}

macro_rules! age {
    ($time:literal) => {
        concat!(
            "CAST(round((julianday('now') - julianday(",
            $time,
            ")) * 86400) AS integer)"
        )
    };
}

/// A reader keeps writers from committing (in WAL mode: the log from being reused), so that nobody reads for long: so many rows at a
/// time, from one key on.
const COUNT: &str = concat!(
    "SELECT count(*), coalesce(sum(substr(message_id, 1, 1) = '|'), 0), count(version), ",
    rfc3339!("min(processed_at)"),
    ", ",
    age!("min(processed_at)"),
    ", ",
    rfc3339!("max(processed_at)"),
    ", ",
    age!("max(processed_at)"),
    ", coalesce(sum(julianday(processed_at) > julianday('now', '-1 hour')), 0), \
       coalesce(sum(julianday(processed_at) > julianday('now', '-1 day')), 0), max(message_id) \
     FROM (SELECT message_id, version, processed_at FROM processed_messages \
       WHERE consumer = ? AND message_id > ? ORDER BY message_id LIMIT 20000)"
);

const FIND: &str = concat!(
    "SELECT ",
    rfc3339!("processed_at"),
    ", ",
    age!("processed_at"),
    ", version, fingerprint, result FROM processed_messages WHERE consumer = ? AND message_id = ?"
);

impl Store for Sqlite {
    const COLUMNS: &'static [&'static str] = &[
        "consumer",
        "message_id",
        "processed_at",
        "version",
        "fingerprint",
        "result",
    ];

    const ESTIMATES: bool = false;

    async fn shape(pool: &SqlitePool) -> Answer<Shape> {
        let columns = "SELECT name FROM pragma_table_info('processed_messages')";
        let index = "SELECT count(*) > 0 FROM pragma_index_list('processed_messages') WHERE name = 'processed_messages_processed_at'";
        let file = "SELECT file FROM pragma_database_list WHERE name = 'main'";
        let file: Option<String> = sqlx::query_scalar(file).fetch_optional(pool).await?;
        Ok(Shape {
            columns: sqlx::query_scalar(columns).fetch_all(pool).await?,
            has_index: sqlx::query_scalar(index).fetch_one(pool).await?,
            has_days: false,
            place: format!("the file `{}`", file.unwrap_or_default()),
        })
    }

    /// Of the whole file.
    async fn size(pool: &SqlitePool, _: Table) -> Answer<Size> {
        let bytes = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
        let bytes: i64 = sqlx::query_scalar(bytes).fetch_one(pool).await?;
        Ok(Size {
            bytes: unsigned(bytes),
            rows: None,
        })
    }

    async fn now(pool: &SqlitePool) -> Answer<String> {
        sqlx::query_scalar(concat!("SELECT ", rfc3339!("'now'")))
            .fetch_one(pool)
            .await
    }

    async fn count(pool: &SqlitePool, table: Table) -> Answer<Vec<Consumer>> {
        let mut consumers = Vec::new();
        for name in Self::consumer_names(pool, table, usize::MAX).await? {
            consumers.push(count(pool, name).await?);
        }
        Ok(consumers)
    }

    async fn estimate(pool: &SqlitePool, table: Table) -> Answer<Vec<Consumer>> {
        Self::count(pool, table).await
    }

    async fn consumer_names(pool: &SqlitePool, _: Table, limit: usize) -> Answer<Vec<String>> {
        let mut names: Vec<String> = Vec::new();
        while names.len() < limit {
            let last = names.last().map(String::as_str).unwrap_or_default();
            let next = "SELECT consumer FROM processed_messages WHERE consumer > ? ORDER BY consumer LIMIT 1";
            let name = sqlx::query_scalar(next)
                .bind(last)
                .fetch_optional(pool)
                .await?;
            let Some(name) = name else { break };
            names.push(name);
        }
        Ok(names)
    }

    async fn find(
        pool: &SqlitePool,
        table: Table,
        consumer: &str,
        key: &str,
    ) -> Answer<Vec<Claim>> {
        let rows = sqlx::query(FIND)
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
                    day: None,
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

    async fn has_business_keys(pool: &SqlitePool, _: Table, consumer: &str) -> Answer<bool> {
        let exists = "SELECT EXISTS (SELECT 1 FROM processed_messages WHERE consumer = ? AND message_id >= '|' AND message_id < '}')";
        sqlx::query_scalar(exists)
            .bind(consumer)
            .fetch_one(pool)
            .await
    }

    /// A statement on its own is a transaction, which waits for other writers for five seconds.
    async fn remove(pool: &SqlitePool, claim: &Claim) -> Answer<u64> {
        let done =
            sqlx::query("DELETE FROM processed_messages WHERE consumer = ? AND message_id = ?")
                .bind(&claim.consumer)
                .bind(&claim.key)
                .execute(pool)
                .await?;
        Ok(done.rows_affected())
    }
}

async fn count(pool: &SqlitePool, name: String) -> Answer<Consumer> {
    let mut total = Consumer {
        name,
        ..Consumer::default()
    };
    let mut last = String::new();
    loop {
        let row = sqlx::query(COUNT)
            .bind(&total.name)
            .bind(&last)
            .fetch_one(pool)
            .await?;
        let Some(key) = row.try_get::<Option<String>, _>(9)? else {
            return Ok(total);
        };
        last = key;
        let add = |sum: &mut Option<u64>, at: usize| {
            *sum = Some(sum.unwrap_or(0) + unsigned(row.try_get::<i64, _>(at)?));
            Ok::<_, sqlx::Error>(())
        };
        add(&mut total.rows, 0)?;
        add(&mut total.business_keys, 1)?;
        add(&mut total.versions, 2)?;
        add(&mut total.last_hour, 7)?;
        add(&mut total.last_day, 8)?;
        let oldest: Option<String> = row.try_get(3)?;
        if total.oldest.is_none() || oldest < total.oldest {
            total.oldest = oldest;
            total.oldest_age_seconds = row.try_get(4)?;
        }
        let newest: Option<String> = row.try_get(5)?;
        if newest > total.newest {
            total.newest = newest;
            total.newest_age_seconds = row.try_get(6)?;
        }
    }
}
