//! Tables as they are after a while: claims of ten days, of which the oldest are past their window.

use idem::Days;
use sqlx::postgres::PgPool;

use crate::DAY;

/// An id with the form of a UUIDv7, of the time `at`.
macro_rules! id {
    () => {
        "overlay(lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') PLACING '-' FROM 9 FOR 0) || '-7000-8000-' || left(md5(n::text), 12)"
    };
}

/// The first of them were made ten to seven days ago, the others in the last six days.
const PLAIN: &str = concat!(
    "INSERT INTO processed_messages (consumer, message_id, processed_at) SELECT 'plain', ",
    id!(),
    ", at FROM (SELECT n, now() - CASE WHEN n <= $2 THEN interval '7 days 1 minute' + interval '3 days' * (1 - n / $2::float8) \
       ELSE interval '6 days' * (1 - (n - $2) / ($1 - $2)::float8) END AS at FROM generate_series(1, $1) AS numbers (n)) AS claims"
);

/// Messages of one day, so many days ago.
const OF_A_DAY: &str = concat!(
    "INSERT INTO processed_messages_by_day (consumer, message_id, day, processed_at) SELECT 'by-day', ",
    id!(),
    ", day, at FROM (SELECT n, day, (day + interval '1 day' * ((n - 1) / $2::float8)) AT TIME ZONE 'UTC' AS at \
       FROM (SELECT (now() AT TIME ZONE 'UTC')::date - $1 AS day) AS today, generate_series(1, $2) AS numbers (n)) AS claims"
);

pub(crate) async fn plain(pool: &PgPool, rows: i64, due: i64) -> sqlx::Result<()> {
    sqlx::raw_sql("TRUNCATE processed_messages")
        .execute(pool)
        .await?;
    let fill = sqlx::query(PLAIN).bind(rows).bind(due);
    fill.execute(pool).await?;
    vacuum(pool, "processed_messages").await
}

/// So many days back that one day holds what is `due`: the oldest, which is past a window that is a day shorter. The others share the rest.
/// Returns the days of that window.
pub(crate) async fn by_day(pool: &PgPool, rows: i64, due: i64) -> anyhow::Result<u32> {
    let days = u32::try_from(rows / due).unwrap_or(1).clamp(2, 60);
    // `migrate` has made days, and none before its first is made later.
    sqlx::raw_sql("DROP TABLE IF EXISTS processed_messages_by_day")
        .execute(pool)
        .await?;
    Days::new(pool).retain(days * DAY).create().await?;
    let others = i64::from(days - 1);
    for day in (1..=days).rev() {
        let claims = if day == days {
            due
        } else {
            let rest = rows - due;
            rest / others + i64::from(i64::from(day) <= rest % others)
        };
        let fill = sqlx::query(OF_A_DAY).bind(i32::try_from(day)?);
        fill.bind(claims).execute(pool).await?;
    }
    vacuum(pool, "processed_messages_by_day").await?;
    Ok(days - 1)
}

pub(crate) async fn vacuum(pool: &PgPool, table: &str) -> sqlx::Result<()> {
    let vacuum = sqlx::AssertSqlSafe(format!("VACUUM (ANALYZE) {table}"));
    sqlx::raw_sql(vacuum).execute(pool).await?;
    Ok(())
}
