//! P1, P4: a claim that loses a conflict is tried again, so often and no more; in a transaction of the caller's not at all, since that would
//! take a new one behind the caller's back.

use std::time::Duration;

use idem_tests::Proxy;

use crate::contract::*;

/// The first claims fail with this error, as many as there are; counted by a sequence, which no rollback takes back.
async fn fail_claims(test: &Test, sqlstate: &str, failures: u32) {
    let sql = format!(
        "CREATE SEQUENCE tries; \
         CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
           IF nextval('tries') <= {failures} THEN RAISE EXCEPTION 'as asked' USING ERRCODE = '{sqlstate}'; END IF; \
           RETURN new; END $$; \
         CREATE TRIGGER fail BEFORE INSERT ON processed_messages FOR EACH ROW EXECUTE FUNCTION fail()"
    );
    let mut conn = test.pool.acquire().await.unwrap();
    run(&mut conn, sql).await.unwrap();
}

async fn tries(test: &Test) -> i64 {
    test.number("SELECT last_value FROM tries").await
}

#[idempotent(key = "message", consumer = "billing", retries = 2)]
async fn tries_again(#[tx] tx: &mut Conn, message: &str) -> Result<u64, Fail> {
    effect(tx, message).await?;
    Ok(7)
}

/// A claim is tried six times, and a delivery with two retries has three.
#[tokio::test]
async fn p4_a_claim_that_goes_on_losing_is_tried_again_and_not_for_ever() {
    for (failures, expected) in [(5, 6), (7, 8), (17, 18), (1000, 18)] {
        let test = Test::new(1).await;
        fail_claims(&test, "40001", failures).await;
        let result = tries_again(&test.pool, "evt-1").await;
        assert_eq!(tries(&test).await, expected, "{failures}: {result:?}");
        if failures < 18 {
            assert_eq!(result.unwrap(), Outcome::Processed(7), "{failures}");
        } else {
            assert!(result.unwrap_err().is_transient());
        }
        assert_eq!(test.effects_of("evt-1").await, i64::from(failures < 18));
        test.assert_pool_is_clean("tried again").await;
    }
}

#[tokio::test]
async fn p4_a_claim_that_fails_otherwise_is_not_tried_again() {
    let test = Test::new(1).await;
    fail_claims(&test, "23514", 1000).await;
    let error = tries_again(&test.pool, "evt-1").await.unwrap_err();
    assert!(!error.is_transient(), "{error:?}");
    assert_eq!(tries(&test).await, 1);
}

#[tokio::test]
async fn p4_in_a_transaction_of_the_callers_a_claim_is_tried_once() {
    let test = Test::new(1).await;
    fail_claims(&test, "40001", 1000).await;
    let mut outer = test.pool.begin().await.unwrap();
    effect(&mut outer, "the caller's").await.unwrap();
    let error = tries_again(&mut outer, "evt-1").await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    idem::commit(outer).await.unwrap();
    assert_eq!(tries(&test).await, 1);
    assert_eq!(test.effects_of("the caller's").await, 1);
}

#[tokio::test]
async fn p1_a_conflict_in_a_transaction_of_the_callers_leaves_the_callers_work() {
    let test = Test::new(2).await;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ";
    let mut outer = test.pool.begin_with(begin).await.unwrap();
    effect(&mut outer, "the caller's").await.unwrap();
    // After the snapshot of `outer`, which its claim then runs into.
    let first = deliver(Form::Once, &test.pool, "evt-1", Body::Succeeds).await;
    assert_eq!(first.unwrap(), Outcome::Processed(7));
    for form in FORMS {
        let error = deliver(form, &mut outer, "evt-1", Body::Panics).await;
        let error = error.unwrap_err();
        assert!(error.is_transient(), "{form:?}: {error:?}");
        assert!(
            matches!(error, Fail::Delivery(Error::Database { .. })),
            "{form:?}: {error:?}"
        );
    }
    idem::commit(outer).await.unwrap();
    assert_eq!(test.effects_of("the caller's").await, 1);
    assert_eq!(test.effects_of("evt-1").await, 1);
}

/// P10: BEGIN, claim, body, and the seal with COMMIT, where the connection goes back to a pool.
#[tokio::test]
async fn p10_a_delivery_on_a_pool_has_four_round_trips() {
    let test = Test::new(1).await;
    let url = &test.fixture.url;
    let proxy = Proxy::start(db::WIRE.unwrap(), url, Duration::ZERO).await;
    let options = test.fixture.options(1).test_before_acquire(false);
    let pool = options.connect(&proxy.url(url)).await.unwrap();
    let prepared = on_connection(&pool, "prepares", Body::Succeeds).await;
    assert!(prepared.is_ok());
    for message in ["evt-1", "evt-2"] {
        let held = pool.acquire().await.unwrap();
        let _ = proxy.take();
        drop(held);
        let outcome = on_connection(&pool, message, Body::Succeeds).await;
        // The connection goes back in a task, which has not run yet. The delivery had to wait for the ping of its last return.
        let trips = proxy.take().0 - 1;
        assert_eq!(outcome.unwrap(), Outcome::Processed(7));
        assert_eq!(trips, 4, "{message}");
    }
}
