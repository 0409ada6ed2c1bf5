//! What is particular to SQLite.

use std::time::Duration;

use idem::Error;

use crate::contract::*;

/// Runs a statement, drops its error, and returns `Ok`.
#[idempotent(key = "message", consumer = "billing")]
async fn swallows(#[tx] tx: &mut Conn, message: &str, sql: &'static str) -> Result<u64, Fail> {
    effect(tx, message).await?;
    sqlx::raw_sql(sql).execute(tx).await.ok();
    Ok(7)
}

/// A conflict can roll the transaction back, and another can take its place.
#[tokio::test]
async fn p3_a_transaction_that_was_rolled_back_is_noticed() {
    let test = Test::new(1).await;
    let table = "CREATE TABLE one (id integer PRIMARY KEY); INSERT INTO one VALUES (1)";
    sqlx::raw_sql(table).execute(&test.pool).await.unwrap();
    for sql in [
        "INSERT OR ROLLBACK INTO one VALUES (1)",
        "ROLLBACK; BEGIN",
        "ROLLBACK; SAVEPOINT something",
    ] {
        for held in [false, true] {
            let message = format!("{sql} {held}");
            let result = if held {
                let mut conn = test.pool.acquire().await.unwrap();
                swallows(&mut conn, &message, sql).await
            } else {
                swallows(&test.pool, &message, sql).await
            };
            let error = result.unwrap_err();
            assert!(
                matches!(error, Fail::Delivery(Error::TransactionLost(_))),
                "{sql}: {error:?}"
            );
            test.assert_pool_is_clean(&message).await;
            assert_eq!(test.effects_of(&message).await, 0, "{message}");
            let again = swallows(&test.pool, &message, "SELECT 1").await.unwrap();
            assert_eq!(again, Outcome::Processed(7), "{message}");
            assert_eq!(test.effects_of(&message).await, 1, "{message}");
        }
    }
}

#[idempotent(key = "message", consumer = "billing")]
async fn references(#[tx] tx: &mut Conn, message: &str, parent: i32) -> Result<u64, Fail> {
    effect(tx, message).await?;
    sqlx::query("INSERT INTO child VALUES (?)")
        .bind(parent)
        .execute(tx)
        .await?;
    Ok(7)
}

#[tokio::test]
async fn p1_a_deferred_constraint_fails_at_commit() {
    let test = Test::new(1).await;
    let tables = "CREATE TABLE parent (id integer PRIMARY KEY); INSERT INTO parent VALUES (1); \
        CREATE TABLE child (parent integer REFERENCES parent DEFERRABLE INITIALLY DEFERRED)";
    sqlx::raw_sql(tables).execute(&test.pool).await.unwrap();
    let error = references(&test.pool, "evt-1", 2).await.unwrap_err();
    assert!(
        matches!(error, Fail::Delivery(Error::Database { .. })),
        "{error:?}"
    );
    assert!(!error.is_transient());
    test.assert_pool_is_clean("deferred").await;
    assert_eq!(test.effects_of("evt-1").await, 0);
    let again = references(&test.pool, "evt-1", 1).await.unwrap();
    assert_eq!(again, Outcome::Processed(7));
}

/// The database has one writer; whoever waits longer than its `busy_timeout` is told so.
#[tokio::test]
async fn p9_waiting_is_bounded() {
    let test = Test::new(2).await;
    let Claimed::Fresh(first) = idem::claim(&test.pool, "billing", "evt-1").await.unwrap() else {
        panic!("it is new");
    };
    let options: sqlx::sqlite::SqliteConnectOptions = test.fixture.url.parse().unwrap();
    let options = options.busy_timeout(Duration::from_millis(50));
    let impatient = test.fixture.options(1).connect_with(options).await.unwrap();
    let error = on_connection(&impatient, "evt-1", Body::Panics)
        .await
        .unwrap_err();
    assert!(
        matches!(error, Fail::Delivery(Error::Database { .. })),
        "{error:?}"
    );
    assert!(error.is_transient());
    first.rollback().await;
    let outcome = on_connection(&impatient, "evt-1", Body::Succeeds)
        .await
        .unwrap();
    assert!(outcome.is_processed());
}
