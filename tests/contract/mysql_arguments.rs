//! What is particular to MariaDB and MySQL about the attribute's arguments. The column that counts how often a claim was met tells new
//! claims of a batch from others.

use super::contract::batch::{TOGETHER, batch_of};
use super::contract::*;

impl Test {
    /// -1 for a claim that no batch has met.
    async fn repeats_of(&self, message: &str) -> i64 {
        let sql = format!(
            "SELECT CAST(COALESCE(repeats, -1) AS SIGNED) FROM processed_messages WHERE message_id = '{message}'"
        );
        self.number(sql).await
    }
}

#[tokio::test]
async fn p2_repeats_tell_new_claims_from_others() {
    let test = Test::new(1).await;
    let _ = on_connection(&test.pool, "single", Body::Succeeds)
        .await
        .unwrap();
    for round in 0..6_i64 {
        let new = format!("new {round}");
        let messages = batch_of(["single", &new, "single", "first"]);
        let together = TOGETHER[usize::try_from(round % 2).unwrap()];
        let outcome = together
            .deliver(&test.pool, messages, Body::Succeeds)
            .await
            .unwrap();
        let fresh: &[usize] = if round == 0 { &[1, 3] } else { &[1] };
        assert_eq!(outcome.fresh, fresh, "{round}");
        assert_eq!(test.repeats_of(&new).await, -1, "{round}: new");
        // What is rolled back with a batch of duplicates is not counted, and need not be.
        assert_eq!(test.repeats_of("single").await, round + 1, "{round}");
        // A single delivery counts nothing.
        let outcome = on_connection(&test.pool, "single", Body::Panics).await;
        assert_eq!(outcome.unwrap(), Outcome::Duplicate);
        assert_eq!(test.repeats_of("single").await, round + 1, "{round}");
    }
    assert_eq!(test.repeats_of("first").await, 5);
}

/// Within one transaction: what one batch claims, the next one meets.
#[tokio::test]
async fn p2_repeats_within_an_outer_transaction() {
    for together in TOGETHER {
        let test = Test::new(1).await;
        let mut outer = test.pool.begin().await.unwrap();
        for (messages, expected) in [
            (["a", "b", "c"], vec![0, 1, 2]),
            (["c", "d", "a"], vec![1]),
            (["d", "e", "c"], vec![1]),
        ] {
            let failed = together
                .deliver(&mut outer, batch_of(messages), Body::Fails)
                .await;
            assert!(matches!(failed, Err(Fail::Refused)), "{failed:?}");
            let outcome = together
                .deliver(&mut outer, batch_of(messages), Body::Succeeds)
                .await;
            assert_eq!(
                outcome.unwrap().fresh,
                expected,
                "{together:?} {messages:?}"
            );
        }
        idem::commit(outer).await.unwrap();
        for (message, repeats) in [("a", 1), ("b", -1), ("c", 2), ("d", 1), ("e", -1)] {
            assert_eq!(test.repeats_of(message).await, repeats, "{message}");
            assert_eq!(test.effects_of(message).await, 1, "{message}");
        }
    }
}

/// A claim that a snapshot does not see was met all the same.
#[tokio::test]
async fn p2_a_batch_meets_what_was_committed_after_its_snapshot() {
    let test = Test::new(2).await;
    let mut outer = test.pool.begin().await.unwrap();
    let found = number(&mut outer, "SELECT count(*) FROM effects").await;
    assert_eq!(found.unwrap(), 0);
    for message in ["a", "b"] {
        let _ = on_connection(&test.pool, message, Body::Succeeds)
            .await
            .unwrap();
    }
    let together = TOGETHER[0];
    let outcome = together
        .deliver(&mut outer, batch_of(["b", "c", "a"]), Body::Succeeds)
        .await;
    assert_eq!(outcome.unwrap().fresh, [1]);
    let outcome = on_connection(&mut outer, "a", Body::Panics).await;
    assert_eq!(outcome.unwrap(), Outcome::Duplicate);
    idem::commit(outer).await.unwrap();
    for message in ["a", "b", "c"] {
        assert_eq!(test.effects_of(message).await, 1, "{message}");
    }
}

#[idempotent(
    key = "message",
    consumer = "billing",
    in_flight = "fail",
    isolation = "serializable"
)]
async fn bounded(#[tx] tx: &mut Conn, message: &str) -> Result<u64, Fail> {
    effect(tx, message).await?;
    Ok(7)
}

/// The level cannot be set in a transaction that was begun by hand, which sqlx does not know of.
#[tokio::test]
async fn p9_nothing_is_left_set_when_begin_fails() {
    let test = Test::new(1).await;
    let mut conn = test.pool.acquire().await.unwrap();
    run(&mut conn, db::SET_OWN_WAIT).await.unwrap();
    run(&mut conn, "BEGIN").await.unwrap();
    let failed = bounded(&mut *conn, "evt-1").await;
    assert!(failed.is_err(), "{failed:?}");
    assert_eq!(number(&mut conn, db::OWN_WAIT).await.unwrap(), db::SET);
    run(&mut conn, "ROLLBACK").await.unwrap();
    let outcome = bounded(&mut *conn, "evt-1").await.unwrap();
    assert_eq!(outcome, Outcome::Processed(7));
    assert_eq!(number(&mut conn, db::OWN_WAIT).await.unwrap(), db::SET);
}

/// COMMIT would take its answer for that of a transaction which the server has begun by itself.
#[tokio::test]
async fn p3_without_autocommit_an_outer_transaction_that_has_ended_is_not_committed() {
    let test = Test::new(1).await;
    let mut outer = test.pool.begin().await.unwrap();
    run(&mut outer, "SET autocommit = 0").await.unwrap();
    let outcome = on_connection(&mut outer, "evt-1", Body::Succeeds).await;
    // Refused at once, or at the latest when it is committed: nothing may be acknowledged.
    if outcome.is_ok() {
        run(&mut outer, "ROLLBACK").await.unwrap();
        let error = idem::commit(outer).await.unwrap_err();
        assert!(matches!(error, Error::OuterTransaction(_)), "{error:?}");
        assert!(error.is_transient(), "no message is at fault");
    }
    assert_eq!(test.effects_of("evt-1").await, 0);
}
