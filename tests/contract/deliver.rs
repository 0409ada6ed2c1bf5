//! P1 to P4, P6, P8, P10: one delivery after the other.

use super::*;

#[tokio::test]
async fn p3_the_first_delivery_is_processed_and_committed() {
    let test = Test::new(2).await;
    for form in FORMS {
        let message = format!("{form:?}");
        let outcome = deliver(form, &test.pool, &message, Body::Succeeds).await;
        assert_eq!(outcome.unwrap(), Outcome::Processed(7), "{form:?}");
        assert_eq!(test.effects_of(&message).await, 1, "{form:?}");
    }
    assert_eq!(test.claims().await, 4);
    test.assert_pool_is_clean("processed").await;
}

#[tokio::test]
async fn p2_a_duplicate_does_not_run_the_body() {
    let test = Test::new(2).await;
    for first in FORMS {
        let message = format!("{first:?}");
        assert!(
            deliver(first, &test.pool, &message, Body::Succeeds)
                .await
                .unwrap()
                .is_processed()
        );
        for second in FORMS {
            let outcome = deliver(second, &test.pool, &message, Body::Panics).await;
            assert_eq!(
                outcome.unwrap(),
                Outcome::Duplicate,
                "{first:?}, {second:?}"
            );
        }
        assert_eq!(test.effects_of(&message).await, 1);
    }
    test.assert_pool_is_clean("duplicate").await;
}

#[tokio::test]
async fn p1_an_error_of_the_body_undoes_everything_and_the_redelivery_is_fresh() {
    let test = Test::new(2).await;
    for form in FORMS {
        let message = format!("{form:?}");
        let error = deliver(form, &test.pool, &message, Body::Fails)
            .await
            .unwrap_err();
        assert!(matches!(error, Fail::Refused), "{form:?}: {error:?}");
        assert!(!error.is_transient());
        assert_eq!(test.effects_of(&message).await, 0, "{form:?}");
        assert_eq!(test.claims().await, 0, "{form:?}");
        test.assert_pool_is_clean("failed").await;
        let outcome = deliver(form, &test.pool, &message, Body::ReturnsEarly).await;
        assert_eq!(outcome.unwrap(), Outcome::Processed(7), "{form:?}");
        assert_eq!(test.effects_of(&message).await, 1, "{form:?}");
        sqlx::raw_sql(db::FORGET).execute(&test.pool).await.unwrap();
    }
}

#[tokio::test]
async fn p6_a_panic_rolls_back_and_propagates() {
    let test = Test::new(1).await;
    for form in FORMS {
        let message = format!("{form:?}");
        let (pool, id) = (test.pool.clone(), message.clone());
        let task = tokio::spawn(async move { deliver(form, &pool, &id, Body::Panics).await });
        assert!(task.await.unwrap_err().is_panic(), "{form:?}");
        test.assert_pool_is_clean("panicked").await;
        assert_eq!(test.effects_of(&message).await, 0, "{form:?}");
        let outcome = deliver(form, &test.pool, &message, Body::Succeeds).await;
        assert_eq!(outcome.unwrap(), Outcome::Processed(7), "{form:?}");
        assert_eq!(test.effects_of(&message).await, 1, "{form:?}");
    }
}

#[idempotent(key = "message", consumer = "shipping")]
async fn ship(#[tx] tx: &mut Conn, message: &str) -> Result<u64, Fail> {
    effect(tx, message).await?;
    Ok(8)
}

#[tokio::test]
async fn p8_each_consumer_processes_the_message_once() {
    let test = Test::new(2).await;
    for expected in [Outcome::Processed(7), Outcome::Duplicate] {
        let outcome = on_connection(&test.pool, "evt-1", Body::Succeeds).await;
        assert_eq!(outcome.unwrap(), expected);
    }
    for expected in [Outcome::Processed(8), Outcome::Duplicate] {
        assert_eq!(ship(&test.pool, "evt-1").await.unwrap(), expected);
    }
    assert_eq!(test.effects_of("evt-1").await, 2);
    assert_eq!(test.claims().await, 2);
}

/// The pool has one connection, and the handler holds it.
#[tokio::test]
async fn p10_a_delivery_takes_one_connection() {
    let test = Test::new(1).await;
    for form in FORMS {
        for body in [Body::Fails, Body::Succeeds, Body::Succeeds] {
            let message = format!("{form:?}");
            let delivery = deliver(form, &test.pool, &message, body);
            tokio::time::timeout(std::time::Duration::from_secs(10), delivery)
                .await
                .expect("no second connection is waited for")
                .ok();
        }
    }
    assert_eq!(test.pool.size(), 1);
    assert_eq!(test.claims().await, 4);
}

#[tokio::test]
async fn p11_every_source_works() {
    let test = Test::new(2).await;
    for form in FORMS {
        let mut held = test.pool.acquire().await.unwrap();
        for (expected, message) in [
            (Outcome::Processed(7), format!("held {form:?}")),
            (Outcome::Duplicate, format!("held {form:?}")),
        ] {
            let outcome = deliver(form, &mut held, &message, Body::Succeeds).await;
            assert_eq!(outcome.unwrap(), expected, "{form:?}");
        }
        let message = format!("plain {form:?}");
        for body in [Body::Fails, Body::Succeeds, Body::Panics] {
            let outcome = deliver(form, &mut *held, &message, body).await;
            match body {
                Body::Fails => assert!(matches!(outcome, Err(Fail::Refused))),
                Body::Succeeds => assert_eq!(outcome.unwrap(), Outcome::Processed(7)),
                _ => assert_eq!(outcome.unwrap(), Outcome::Duplicate),
            }
            // The connection is not left in a transaction for its holder.
            let probe = format!("probe {form:?} {body:?}");
            effect(&mut held, &probe).await.unwrap();
            assert_eq!(test.effects_of(&probe).await, 1);
        }
        assert_eq!(test.effects_of(&message).await, 1);
        let unprepared = idem::Unprepared(&test.pool);
        let outcome = deliver(form, unprepared, &message, Body::Panics).await;
        assert_eq!(outcome.unwrap(), Outcome::Duplicate, "{form:?}");
    }
}

#[tokio::test]
async fn p4_a_closed_pool_is_a_transient_error() {
    let test = Test::new(1).await;
    test.pool.close().await;
    for form in FORMS {
        let error = deliver(form, &test.pool, "evt-1", Body::Succeeds)
            .await
            .unwrap_err();
        assert!(error.is_transient(), "{error}");
    }
}
