//! The pruner's index on PostgreSQL, in the long run.

use std::time::Duration;

use idem::Pruner;
use idem_tests::Fixture;
use sqlx::Row as _;

use super::pruner::{WEEK, many, table};

const DAY: f64 = 24.0 * 60.0 * 60.0;

/// How many pages the server reads to find that nothing is due.
async fn pages_read(pool: &sqlx::PgPool) -> i64 {
    sqlx::raw_sql("SET enable_seqscan = off")
        .execute(pool)
        .await
        .unwrap();
    let row = sqlx::raw_sql(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT ctid FROM processed_messages WHERE version IS NULL AND processed_at < now() - interval '7 days'",
    )
    .fetch_one(pool)
    .await
    .unwrap();
    let plan: serde_json::Value = serde_json::from_str(row.get_unchecked(0)).unwrap();
    let plan = &plan[0]["Plan"];
    assert_eq!(plan["Node Type"], "Bitmap Heap Scan", "{plan}");
    plan["Lossy Heap Blocks"].as_i64().unwrap() + plan["Exact Heap Blocks"].as_i64().unwrap()
}

/// Vacuum makes the pages of pruned claims free, and new claims use them again. Were the index to remember the old times of these pages, every
/// run would read the whole table after a while.
#[tokio::test]
async fn the_index_stays_narrow_when_pages_are_used_again() {
    // In a database of its own: vacuum keeps what an open transaction in the same database may still see.
    let server: Fixture<sqlx::Postgres> = Fixture::new().await;
    let name = server.name().to_owned();
    let administration = server.pool(1).await;
    let administer = async |sql: &str| {
        let sql = sqlx::AssertSqlSafe(format!("{sql} DATABASE {name}"));
        sqlx::raw_sql(sql).execute(&administration).await.unwrap();
    };
    administer("CREATE").await;
    let options = sqlx::postgres::PgConnectOptions::clone(&administration.connect_options());
    let options = options.database(&name).options([("search_path", "public")]);
    let pool = sqlx::postgres::PgPoolOptions::new()
        .max_connections(1)
        .connect_lazy_with(options);
    let rounds = tokio::spawn({
        let pool = pool.clone();
        async move { rounds(&pool).await }
    });
    let rounds = rounds.await;
    pool.close().await;
    administer("DROP").await;
    rounds.unwrap();
}

async fn rounds(pool: &sqlx::PgPool) {
    idem::migrate(pool).await.unwrap();
    // One that came by at the wrong moment would hold the lock that forgetting a range takes.
    let quiet = "ALTER TABLE processed_messages SET (autovacuum_enabled = off)";
    sqlx::raw_sql(quiet).execute(pool).await.unwrap();
    let pruner = Pruner::new(pool)
        .window("billing", WEEK)
        .pause(Duration::ZERO);
    let mut sizes = Vec::new();
    for round in 0..3 {
        many(
            pool,
            "billing",
            &format!("{round} old "),
            30.0 * DAY,
            40_000,
        )
        .await;
        assert_eq!(pruner.run_once().await.unwrap().claims, 40_000);
        sqlx::raw_sql("VACUUM processed_messages")
            .execute(pool)
            .await
            .unwrap();
        many(pool, "billing", &format!("{round} new "), 0.0, 40_000).await;
        sqlx::raw_sql("VACUUM processed_messages")
            .execute(pool)
            .await
            .unwrap();
        let size: i64 = sqlx::query_scalar("SELECT pg_relation_size('processed_messages') / 8192")
            .fetch_one(pool)
            .await
            .unwrap();
        sizes.push(size);
        let read = pages_read(pool).await;
        assert!(
            read * 4 < size,
            "round {round}: {read} of {size} pages are read for nothing"
        );
        for sql in [
            "DELETE FROM processed_messages",
            "VACUUM processed_messages",
        ] {
            sqlx::raw_sql(sql).execute(pool).await.unwrap();
        }
    }
    assert!(
        sizes[2] < sizes[0] * 2,
        "the pages were used again: {sizes:?}"
    );
}

/// Who may not work on the index prunes all the same.
#[tokio::test]
async fn without_the_right_to_the_index_the_same_goes() {
    let (fixture, pool) = table(1).await;
    let (name, schema) = (format!("{}_role", fixture.name()), fixture.name());
    many(&pool, "billing", "old ", 30.0 * DAY, 500).await;
    let grants = format!(
        "CREATE ROLE {name}; GRANT USAGE ON SCHEMA {schema} TO {name}; GRANT SELECT, INSERT, UPDATE, DELETE ON processed_messages TO {name}; SET ROLE {name}"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(grants))
        .execute(&pool)
        .await
        .unwrap();
    let pruned = Pruner::new(&pool).window("billing", WEEK).run_once().await;
    let drop = format!("RESET ROLE; DROP OWNED BY {name}; DROP ROLE {name}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(drop))
        .execute(&pool)
        .await
        .unwrap();
    assert_eq!(pruned.unwrap().claims, 500);
}
