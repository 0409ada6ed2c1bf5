//! SQLite rolls back by itself when a disk is full, which sqlx does not notice: <https://www.sqlite.org/lang_transaction.html>.

use std::time::Duration;

use idem::{Outcome, Pruner};
use sqlx::{SqliteConnection, SqlitePool};

use super::pruner::{claim, keys, table};

async fn deliver(pool: &SqlitePool, key: &str) -> Result<Outcome<()>, idem::Error> {
    idem::once(pool, "other", key, async |_: &mut SqliteConnection| Ok(())).await
}

/// The connection serves the next delivery as if nothing had been.
#[tokio::test]
async fn p5_a_chunk_that_sqlite_has_rolled_back_leaves_the_pool_clean() {
    let (_fixture, pool) = table(1).await;
    let pruner = Pruner::new(&pool)
        .window("billing", Duration::from_hours(7 * 24))
        .window("other", Duration::from_hours(7 * 24));
    claim(&pool, "billing", "old", 30.0 * 86_400.0).await;
    let refuse = "CREATE TRIGGER refuse BEFORE DELETE ON processed_messages BEGIN SELECT RAISE(ROLLBACK, 'full'); END";
    sqlx::raw_sql(refuse).execute(&pool).await.unwrap();
    pruner.run_once().await.unwrap_err();
    assert_eq!(
        deliver(&pool, "evt-1").await.unwrap(),
        Outcome::Processed(())
    );
    assert_eq!(keys(&pool).await.len(), 2);
    sqlx::raw_sql("DROP TRIGGER refuse")
        .execute(&pool)
        .await
        .unwrap();
    assert_eq!(pruner.run_once().await.unwrap().claims, 1);
}

#[tokio::test]
async fn p5_a_migration_on_a_full_disk_leaves_the_pool_clean() {
    let fixture = idem_tests::Fixture::<sqlx::Sqlite>::new().await;
    let pool = fixture.pool(1).await;
    // What there is already takes up all the room that there may be.
    let fill = "CREATE TABLE filler (bytes); INSERT INTO filler VALUES (zeroblob(9000)); PRAGMA max_page_count = 1";
    sqlx::raw_sql(fill).execute(&pool).await.unwrap();
    let error = idem::migrate(&pool).await.unwrap_err();
    assert!(error.to_string().contains("full"), "{error}");
    sqlx::raw_sql("PRAGMA max_page_count = 100000")
        .execute(&pool)
        .await
        .unwrap();
    idem::migrate(&pool).await.unwrap();
    assert_eq!(
        deliver(&pool, "evt-1").await.unwrap(),
        Outcome::Processed(())
    );
}
