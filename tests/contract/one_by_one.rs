//! P4: `idem::batch`, which delivers a failed batch's messages one by one.

use std::sync::atomic::{AtomicUsize, Ordering};

use idem::BatchOutcome;

use super::batch::{TOGETHER, batch_of};
use super::*;

type Results = Vec<Result<Outcome<()>, Fail>>;

/// A handler that refuses batches with a poisoned message, and counts its calls.
async fn batch(test: &Test, messages: &[String], calls: &AtomicUsize) -> Results {
    idem::batch(messages.to_vec(), |messages| async {
        let call = calls.fetch_add(1, Ordering::SeqCst);
        let is_poisoned = messages.iter().any(|message| message.starts_with("poison"));
        let body = if is_poisoned {
            Body::Fails
        } else {
            Body::Succeeds
        };
        TOGETHER[call % 2].deliver(&test.pool, messages, body).await
    })
    .await
}

#[tokio::test]
async fn p4_one_poisoned_message_does_not_hold_up_the_others() {
    let test = Test::new(1).await;
    let mut messages: Vec<_> = (0..20).map(|number| format!("message {number}")).collect();
    messages[11] = "poison".to_owned();
    let calls = AtomicUsize::new(0);
    let results = batch(&test, &messages, &calls).await;
    assert_eq!(results.len(), 20);
    for (index, result) in results.iter().enumerate() {
        let message = &messages[index];
        if index == 11 {
            assert!(matches!(result, Err(Fail::Refused)), "{result:?}");
        } else {
            assert!(matches!(result, Ok(Outcome::Processed(()))), "{result:?}");
        }
        assert_eq!(
            test.effects_of(message).await,
            i64::from(index != 11),
            "{message}"
        );
    }
    assert_eq!(calls.load(Ordering::SeqCst), 21);
    assert_eq!(test.claims().await, 19);
    // The redelivery of the whole batch finds the rest done.
    let results = batch(&test, &messages, &calls).await;
    for (index, result) in results.iter().enumerate() {
        if index == 11 {
            assert!(matches!(result, Err(Fail::Refused)), "{result:?}");
        } else {
            assert!(matches!(result, Ok(Outcome::Duplicate)), "{result:?}");
        }
    }
    test.assert_pool_is_clean("poisoned").await;
}

#[tokio::test]
async fn p2_duplicates_are_reported() {
    let test = Test::new(1).await;
    let _ = on_connection(&test.pool, "a", Body::Succeeds)
        .await
        .unwrap();
    let calls = AtomicUsize::new(0);
    for (messages, expected_calls) in [
        (batch_of(["a", "b", "c", "b"]), 1),
        // One by one, the first of two equal ones is processed.
        (batch_of(["a", "d", "poison", "d"]), 5),
    ] {
        calls.store(0, Ordering::SeqCst);
        let results = batch(&test, &messages, &calls).await;
        let is = |index: usize, processed: bool| match &results[index] {
            Ok(outcome) => outcome.is_processed() == processed,
            Err(_) => false,
        };
        assert!(is(0, false) && is(1, true) && is(3, false), "{results:?}");
        assert_eq!(is(2, true), expected_calls == 1, "{results:?}");
        assert_eq!(calls.load(Ordering::SeqCst), expected_calls);
    }
    for message in ["a", "b", "c", "d"] {
        assert_eq!(test.effects_of(message).await, 1, "{message}");
    }
}

#[tokio::test]
async fn p4_a_single_message_and_none() {
    let test = Test::new(1).await;
    let calls = AtomicUsize::new(0);
    assert!(batch(&test, &[], &calls).await.is_empty());
    let results = batch(&test, &batch_of(["poison"]), &calls).await;
    assert!(
        matches!(results.as_slice(), [Err(Fail::Refused)]),
        "{results:?}"
    );
    assert_eq!(calls.load(Ordering::SeqCst), 2, "it is not tried twice");
    let results = batch(&test, &batch_of(["a"]), &calls).await;
    assert!(matches!(results.as_slice(), [Ok(Outcome::Processed(()))]));
}

/// A hundred messages do not wait for a hundred time-outs.
#[tokio::test]
async fn p4_a_database_out_of_reach_is_asked_once() {
    let test = Test::new(1).await;
    test.pool.close().await;
    let calls = AtomicUsize::new(0);
    let results: Vec<Result<_, Error>> = idem::batch(batch_of(["a", "b", "c"]), |messages| {
        calls.fetch_add(1, Ordering::SeqCst);
        let mut batch = db::batch("billing");
        for message in messages {
            db::push(&mut batch, message);
        }
        let pool = &test.pool;
        async move {
            let claimed = batch.claim(pool).await?;
            Ok(BatchOutcome {
                value: Some(()),
                fresh: claimed.fresh,
                duplicates: claimed.duplicates,
            })
        }
    })
    .await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert!(
        matches!(
            results.as_slice(),
            [
                Err(Error::Database { .. }),
                Err(Error::NotTried { .. }),
                Err(Error::NotTried { .. })
            ]
        ),
        "{results:?}"
    );
    for result in results {
        assert!(result.unwrap_err().is_transient());
    }
}

/// `#[error(transparent)]` hides that it was the library's own connection, so that a second message is tried.
#[tokio::test]
async fn p4_a_database_that_goes_out_of_reach_half_way() {
    let test = Test::new(1).await;
    let messages = batch_of(["a", "b", "poison", "c", "d", "e", "f"]);
    let calls = AtomicUsize::new(0);
    let results: Results = idem::batch(messages, |messages| {
        let (test, calls) = (&test, &calls);
        async move {
            // The batch, "a", "b" and the poison before.
            if calls.fetch_add(1, Ordering::SeqCst) == 4 {
                test.pool.close().await;
            }
            let is_poisoned = messages.iter().any(|message| message == "poison");
            let body = if is_poisoned {
                Body::Fails
            } else {
                Body::Succeeds
            };
            TOGETHER[0].deliver(&test.pool, messages, body).await
        }
    })
    .await;
    assert_eq!(calls.load(Ordering::SeqCst), 6);
    assert!(
        matches!(
            results.as_slice(),
            [
                Ok(Outcome::Processed(())),
                Ok(Outcome::Processed(())),
                Err(Fail::Refused),
                Err(Fail::Delivery(Error::Database { .. })),
                Err(Fail::Delivery(Error::Database { .. })),
                Err(Fail::Delivery(Error::NotTried { .. })),
                Err(Fail::Delivery(Error::NotTried { .. })),
            ]
        ),
        "{results:?}"
    );
    for (message, expected) in [("a", 1), ("b", 1), ("c", 0), ("d", 0), ("e", 0)] {
        assert_eq!(test.effects_of(message).await, expected, "{message}");
    }
    for result in results.into_iter().skip(3) {
        assert!(result.unwrap_err().is_transient());
    }
}

/// A connection of the handler's own to somewhere else says nothing about the other messages.
#[tokio::test]
async fn p4_another_connection_that_fails_does_not_stop_the_rest() {
    let test = Test::new(1).await;
    let messages = batch_of(["other 1", "a", "other 2", "b"]);
    let results: Results = idem::batch(messages, |messages| async {
        if messages.iter().any(|message| message.starts_with("other")) {
            let error = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
            return Err(Fail::Database(sqlx::Error::Io(error)));
        }
        TOGETHER[1]
            .deliver(&test.pool, messages, Body::Succeeds)
            .await
    })
    .await;
    assert!(
        matches!(
            results.as_slice(),
            [
                Err(Fail::Database(_)),
                Ok(Outcome::Processed(())),
                Err(Fail::Database(_)),
                Ok(Outcome::Processed(())),
            ]
        ),
        "{results:?}"
    );
}
