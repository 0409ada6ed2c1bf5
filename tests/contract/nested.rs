//! Deliveries that join a transaction of the caller's.

use idem::Error;
use sqlx::Acquire;

use super::*;

#[tokio::test]
async fn p1_a_joined_delivery_commits_with_the_outer_transaction() {
    let test = Test::new(2).await;
    for form in FORMS {
        let message = format!("{form:?}");
        let mut outer = test.pool.begin().await.unwrap();
        effect(&mut outer, &format!("outer {message}"))
            .await
            .unwrap();
        let outcome = deliver(form, &mut outer, &message, Body::Succeeds)
            .await
            .unwrap();
        assert_eq!(outcome, Outcome::Processed(7));
        let outcome = deliver(form, &mut outer, &message, Body::Panics)
            .await
            .unwrap();
        assert_eq!(
            outcome,
            Outcome::Duplicate,
            "it was done in this transaction"
        );
        assert_eq!(test.effects_of(&message).await, 0, "not committed yet");
        idem::commit(outer).await.unwrap();
        assert_eq!(test.effects_of(&message).await, 1);
        assert_eq!(test.effects_of(&format!("outer {message}")).await, 1);
        let outcome = deliver(form, &test.pool, &message, Body::Panics)
            .await
            .unwrap();
        assert_eq!(outcome, Outcome::Duplicate);
    }
    test.assert_pool_is_clean("joined").await;
}

#[tokio::test]
async fn p1_the_outer_rollback_undoes_the_claim() {
    let test = Test::new(2).await;
    for form in FORMS {
        let message = format!("{form:?}");
        let mut outer = test.pool.begin().await.unwrap();
        assert!(
            deliver(form, &mut outer, &message, Body::Succeeds)
                .await
                .unwrap()
                .is_processed()
        );
        outer.rollback().await.unwrap();
        assert_eq!(test.effects_of(&message).await, 0);
        assert!(
            deliver(form, &test.pool, &message, Body::Succeeds)
                .await
                .unwrap()
                .is_processed()
        );
        assert_eq!(test.effects_of(&message).await, 1);
    }
}

#[tokio::test]
async fn p1_a_failing_body_undoes_its_part_only() {
    let test = Test::new(2).await;
    for form in FORMS {
        let message = format!("{form:?}");
        let mut outer = test.pool.begin().await.unwrap();
        effect(&mut outer, &format!("before {message}"))
            .await
            .unwrap();
        let failed = deliver(form, &mut outer, &message, Body::Fails).await;
        assert!(matches!(failed, Err(Fail::Refused)), "{failed:?}");
        let other = format!("other {message}");
        assert!(
            deliver(form, &mut outer, &other, Body::Succeeds)
                .await
                .unwrap()
                .is_processed()
        );
        effect(&mut outer, &format!("after {message}"))
            .await
            .unwrap();
        outer.commit().await.unwrap();
        for (what, expected) in [("before ", 1), ("", 0), ("other ", 1), ("after ", 1)] {
            let effects = test.effects_of(&format!("{what}{message}")).await;
            assert_eq!(effects, expected, "{what}{message}");
        }
    }
    test.assert_pool_is_clean("failed").await;
}

/// A savepoint of the handler's own is for statements that may fail.
#[idempotent(key = "message", consumer = "savepoints")]
async fn with_savepoints(tx: &mut Transaction<'_, Db>, message: &str) -> Result<u64, Fail> {
    let mut kept = tx.begin().await?;
    effect(&mut kept, message).await?;
    kept.commit().await?;
    let mut undone = tx.begin().await?;
    effect(&mut undone, message).await?;
    undone.rollback().await?;
    let mut dropped = tx.begin().await?;
    effect(&mut dropped, message).await?;
    drop(dropped);
    let mut failed = tx.begin().await?;
    assert!(
        sqlx::raw_sql("INSERT INTO nowhere VALUES (1)")
            .execute(&mut *failed)
            .await
            .is_err()
    );
    Ok(9)
}

#[tokio::test]
async fn p11_savepoints_in_the_body() {
    let test = Test::new(2).await;
    assert_eq!(
        with_savepoints(&test.pool, "evt-1").await.unwrap(),
        Outcome::Processed(9)
    );
    assert_eq!(test.effects_of("evt-1").await, 1);
    let mut outer = test.pool.begin().await.unwrap();
    assert_eq!(
        with_savepoints(&mut outer, "evt-2").await.unwrap(),
        Outcome::Processed(9)
    );
    idem::commit(outer).await.unwrap();
    assert_eq!(test.effects_of("evt-2").await, 1);
    test.assert_pool_is_clean("savepoints").await;
}

/// One handler calls another within its transaction.
#[idempotent(key = "message", consumer = "outer")]
async fn calls_another(#[tx] tx: &mut Conn, message: &str, body: Body) -> Result<u64, Fail> {
    let mut savepoint = tx.begin().await?;
    let inner = on_connection(&mut savepoint, message, Body::Succeeds).await?;
    savepoint.commit().await?;
    assert_eq!(
        on_transaction(tx, message, Body::Panics).await?,
        Outcome::Duplicate
    );
    body.end()
        .map(|value| value + inner.value().unwrap_or_default())
}

#[tokio::test]
async fn p1_a_handler_within_a_handler() {
    let test = Test::new(1).await;
    assert!(
        calls_another(&test.pool, "evt-1", Body::Fails)
            .await
            .is_err()
    );
    assert_eq!(test.claims().await, 0);
    let outcome = calls_another(&test.pool, "evt-1", Body::Succeeds)
        .await
        .unwrap();
    assert_eq!(outcome, Outcome::Processed(14));
    assert_eq!(test.claims().await, 2);
    assert_eq!(test.effects_of("evt-1").await, 1);
    test.assert_pool_is_clean("nested").await;
}

/// The caller's transaction was rolled back by a nested begin that was dropped half-way, which its owner cannot see.
#[tokio::test]
async fn p3_a_lost_outer_transaction_is_not_joined_and_not_committed() {
    let test = Test::slow(1).await;
    for form in FORMS {
        let message = format!("{form:?}");
        let mut outer = test.pool.begin().await.unwrap();
        effect(&mut outer, &message).await.unwrap();
        // SQLite may be too quick for a future to be dropped half-way.
        while let Some(nested) = idem_tests::cancelled_after(1, outer.begin()).await {
            nested.unwrap().commit().await.unwrap();
        }
        // SQLite rolls back on another thread.
        sqlx::Connection::ping(&mut *outer).await.unwrap();
        let error = deliver(form, &mut outer, &message, Body::Succeeds)
            .await
            .unwrap_err();
        assert!(
            matches!(error, Fail::Delivery(Error::OuterTransaction(_))),
            "{form:?}: {error:?}"
        );
        let error = idem::commit(outer).await.unwrap_err();
        assert!(matches!(error, Error::OuterTransaction(_)), "{error:?}");
        assert!(error.is_transient());
        assert_eq!(test.effects_of(&message).await, 0);
    }
    test.assert_pool_is_clean("lost").await;
}
