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
        matches!(error, Fail::Delivery(Error::InFlight(_))),
        "{error:?}"
    );
    assert!(error.is_transient());
    first.rollback().await;
    let outcome = on_connection(&impatient, "evt-1", Body::Succeeds)
        .await
        .unwrap();
    assert!(outcome.is_processed());
}

/// SQLite ends the transaction by itself, and sqlx does not notice: neither the connection nor its pool may be left believing in it.
#[tokio::test]
async fn p3_after_an_automatic_rollback_the_connection_is_in_no_transaction() {
    let test = Test::new(1).await;
    let trigger = "CREATE TRIGGER guard BEFORE INSERT ON effects WHEN NEW.message LIKE 'bad%' \
        BEGIN SELECT RAISE(ROLLBACK, 'over the limit'); END";
    sqlx::raw_sql(trigger).execute(&test.pool).await.unwrap();
    for form in FORMS {
        for source in ["pool", "held", "plain"] {
            let name = |what: &str| format!("{what} {form:?} {source}");
            let mut conn = test.fixture.pool(1).await.acquire().await.unwrap();
            for what in ["good 1", "bad", "good 1", "good 2", "bad", "good 3"] {
                let message = name(what);
                let result = match source {
                    "pool" => deliver(form, &test.pool, &message, Body::Succeeds).await,
                    "held" => deliver(form, &mut conn, &message, Body::Succeeds).await,
                    _ => deliver(form, &mut *conn, &message, Body::Succeeds).await,
                };
                assert_eq!(result.is_ok(), what != "bad", "{message}: {result:?}");
                let effects = test.effects_of(&message).await;
                assert_eq!(effects, i64::from(what != "bad"), "{message}");
            }
            test.assert_pool_is_clean(source).await;
        }
    }
}

#[tokio::test]
async fn p3_an_outer_transaction_that_was_rolled_back_is_not_joined_and_not_committed() {
    let test = Test::new(1).await;
    let trigger = "CREATE TRIGGER guard BEFORE INSERT ON effects WHEN NEW.message LIKE 'bad%' \
        BEGIN SELECT RAISE(ROLLBACK, 'over the limit'); END";
    sqlx::raw_sql(trigger).execute(&test.pool).await.unwrap();
    for form in FORMS {
        let messages = ["before", "bad", "after"].map(|what| format!("{what} {form:?}"));
        let [before, bad, after] = &messages;
        let mut outer = test.pool.begin().await.unwrap();
        assert!(
            deliver(form, &mut outer, before, Body::Succeeds)
                .await
                .unwrap()
                .is_processed()
        );
        assert!(
            deliver(form, &mut outer, bad, Body::Succeeds)
                .await
                .is_err()
        );
        let error = deliver(form, &mut outer, after, Body::Succeeds)
            .await
            .unwrap_err();
        assert!(
            matches!(error, Fail::Delivery(Error::OuterTransaction(_))),
            "{error:?}"
        );
        let error = idem::commit(outer).await.unwrap_err();
        assert!(matches!(error, Error::OuterTransaction(_)), "{error:?}");
        test.assert_pool_is_clean("outer").await;
        for message in [before, after] {
            assert!(
                deliver(form, &test.pool, message, Body::Succeeds)
                    .await
                    .unwrap()
                    .is_processed()
            );
            assert_eq!(test.effects_of(message).await, 1, "{message}");
        }
        // sqlx's own commit says so too.
        let mut outer = test.pool.begin().await.unwrap();
        assert!(
            deliver(form, &mut outer, bad, Body::Succeeds)
                .await
                .is_err()
        );
        assert!(outer.commit().await.is_err());
        // It leaves its pool with the connection as it is; the next delivery closes that.
        let closed = deliver(form, &test.pool, "closes", Body::Succeeds).await;
        assert!(closed.is_err_and(|error| error.is_transient()));
        test.assert_pool_is_clean("plain commit").await;
    }
}

/// A table that would merge or repeat messages is refused, whatever its age.
#[tokio::test]
async fn p8_a_table_with_another_key_is_refused() {
    let test = Test::new(1).await;
    for key in [", PRIMARY KEY (message_id)", ""] {
        let table = format!(
            "DROP TABLE processed_messages; CREATE TABLE processed_messages \
             (consumer text NOT NULL, message_id text NOT NULL, processed_at text{key})"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(table))
            .execute(&test.pool)
            .await
            .unwrap();
        let error = on_connection(&test.pool, "evt-1", Body::Succeeds)
            .await
            .unwrap_err();
        assert!(
            matches!(error, Fail::Delivery(Error::Schema(_))),
            "{key}: {error:?}"
        );
    }
}

/// A delivery that is dropped while it finds out must not revive the transaction.
#[tokio::test]
async fn p5_cancelled_while_joining_a_dead_transaction() {
    let test = Test::new(1).await;
    let table = "CREATE TABLE one (id integer PRIMARY KEY); INSERT INTO one VALUES (1)";
    sqlx::raw_sql(table).execute(&test.pool).await.unwrap();
    for form in FORMS {
        for polls in 0..8 {
            let [before, dropped, after] =
                ["before", "dropped", "after"].map(|what| format!("{what} {form:?} {polls}"));
            let mut outer = test.pool.begin().await.unwrap();
            let outcome = deliver(form, &mut outer, &before, Body::Succeeds).await;
            assert!(outcome.unwrap().is_processed());
            let conflict = run(&mut outer, "INSERT OR ROLLBACK INTO one VALUES (1)").await;
            assert!(conflict.is_err(), "it rolls back");
            let delivery = deliver(form, &mut outer, &dropped, Body::Succeeds);
            let _ = idem_tests::cancelled_after(polls, delivery).await;
            let joined = deliver(form, &mut outer, &after, Body::Succeeds).await;
            assert!(joined.is_err(), "{after}: {joined:?}");
            let committed = idem::commit(outer).await;
            assert!(committed.is_err(), "{before} was lost");
            test.assert_pool_is_clean(&after).await;
            for message in [&before, &dropped, &after] {
                let again = deliver(form, &test.pool, message, Body::Succeeds).await;
                assert!(again.unwrap().is_processed(), "{message}");
                assert_eq!(test.effects_of(message).await, 1, "{message}");
            }
        }
    }
}
