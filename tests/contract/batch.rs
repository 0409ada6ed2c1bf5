//! P1, P2, P10: messages that are claimed in one statement and processed in one transaction, by `each` and by `Deliveries`.

use idem::BatchOutcome;

use super::*;

/// The ways to write a handler of batches; the promises are the same.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Together {
    Each,
    ByHand,
}

pub(crate) const TOGETHER: [Together; 2] = [Together::Each, Together::ByHand];

pub(crate) fn batch_of<'m>(messages: impl IntoIterator<Item = &'m str>) -> Vec<String> {
    messages.into_iter().map(str::to_owned).collect()
}

/// The effects of all messages, in one statement.
pub(crate) async fn effects(conn: &mut Conn, messages: &[String]) -> Result<(), sqlx::Error> {
    let values: Vec<_> = messages.iter().map(|name| format!("('{name}')")).collect();
    let values = values.join(", ");
    run(
        conn,
        format!("INSERT INTO effects (message) VALUES {values}"),
    )
    .await
}

/// Its value is what it got.
#[idempotent(key = "message", consumer = "billing", each = "message in messages")]
async fn each(#[tx] tx: &mut Conn, messages: Vec<String>, body: Body) -> Result<Vec<String>, Fail> {
    effects(tx, &messages).await?;
    body.end()?;
    Ok(messages)
}

impl Together {
    pub(crate) async fn deliver<'c>(
        self,
        source: impl idem::Source<'c, Database = Db>,
        messages: Vec<String>,
        body: Body,
    ) -> Result<BatchOutcome<Vec<String>>, Fail> {
        let Together::ByHand = self else {
            return each(source, messages, body).await;
        };
        let mut batch = db::batch("billing");
        for message in &messages {
            db::push(&mut batch, message);
        }
        let claimed = batch.claim(source).await?;
        let mut value = None;
        if let Some(mut claim) = claimed.claim {
            let fresh: Vec<_> = claimed
                .fresh
                .iter()
                .map(|at| messages[*at].clone())
                .collect();
            let done = effects(&mut claim, &fresh).await.map_err(Fail::from);
            if let Err(error) = done.and_then(|()| body.end()) {
                claim.rollback().await;
                return Err(error);
            }
            claim.commit().await?;
            value = Some(fresh);
        }
        Ok(BatchOutcome {
            value,
            fresh: claimed.fresh,
            duplicates: claimed.duplicates,
        })
    }
}

#[tokio::test]
async fn p2_fresh_and_duplicates_by_their_place() {
    for together in TOGETHER {
        let test = Test::new(1).await;
        let _ = on_connection(&test.pool, "b", Body::Succeeds)
            .await
            .unwrap();
        let messages = batch_of(["c", "b", "a", "c", "d", "b", "á", "A", "a ", "a"]);
        let outcome = together.deliver(&test.pool, messages.clone(), Body::Succeeds);
        let outcome = outcome.await.unwrap();
        assert_eq!(outcome.fresh, [0, 2, 4, 6, 7, 8], "{together:?}");
        assert_eq!(outcome.duplicates, [1, 3, 5, 9], "{together:?}");
        let expected = batch_of(["c", "a", "d", "á", "A", "a "]);
        assert_eq!(outcome.value, Some(expected), "in their order");
        for message in &messages {
            assert_eq!(test.effects_of(message).await, 1, "{together:?} {message}");
        }
        assert_eq!(test.claims().await, 7);
        // What a batch has done is done for single deliveries too.
        for message in &messages {
            let outcome = on_connection(&test.pool, message, Body::Panics).await;
            assert_eq!(outcome.unwrap(), Outcome::Duplicate, "{message}");
        }
        test.assert_pool_is_clean("batch").await;
    }
}

#[tokio::test]
async fn p2_a_batch_of_duplicates_does_not_run_the_body() {
    let test = Test::new(1).await;
    let messages = batch_of(["a", "b", "c"]);
    let first = Together::Each.deliver(&test.pool, messages.clone(), Body::Succeeds);
    assert!(first.await.unwrap().duplicates.is_empty());
    for together in TOGETHER {
        for _ in 0..3 {
            let again = together.deliver(&test.pool, messages.clone(), Body::Panics);
            let again = again.await.unwrap();
            assert_eq!(again.value, None, "{together:?}");
            assert!(again.fresh.is_empty(), "{together:?}");
            assert_eq!(again.duplicates, [0, 1, 2], "{together:?}");
            test.assert_pool_is_clean("duplicates").await;
        }
    }
    for message in &messages {
        assert_eq!(test.effects_of(message).await, 1, "{message}");
    }
}

#[tokio::test]
async fn p10_an_empty_batch_takes_no_connection() {
    let test = Test::new(1).await;
    test.pool.close().await;
    for together in TOGETHER {
        let outcome = together.deliver(&test.pool, Vec::new(), Body::Panics).await;
        let outcome = outcome.expect("a closed pool is not asked");
        assert_eq!(outcome.value, None);
        assert!(outcome.fresh.is_empty() && outcome.duplicates.is_empty());
        let one = together.deliver(&test.pool, batch_of(["a"]), Body::Panics);
        assert!(one.await.unwrap_err().is_transient());
    }
}

#[tokio::test]
async fn p1_an_error_of_the_body_undoes_the_whole_batch() {
    for together in TOGETHER {
        let test = Test::new(1).await;
        let messages = batch_of(["a", "b", "a"]);
        for held in [false, true] {
            let error = if held {
                let mut conn = test.pool.acquire().await.unwrap();
                together
                    .deliver(&mut conn, messages.clone(), Body::Fails)
                    .await
            } else {
                together
                    .deliver(&test.pool, messages.clone(), Body::Fails)
                    .await
            };
            assert!(matches!(error, Err(Fail::Refused)), "{error:?}");
            assert_eq!(test.claims().await, 0, "{together:?}");
            test.assert_pool_is_clean("failed").await;
        }
        let outcome = together.deliver(&test.pool, messages, Body::Succeeds).await;
        assert_eq!(outcome.unwrap().fresh, [0, 1], "{together:?}");
        for message in ["a", "b"] {
            assert_eq!(test.effects_of(message).await, 1, "{together:?}");
        }
    }
}

#[tokio::test]
async fn p6_a_panic_undoes_the_whole_batch() {
    let test = Test::new(1).await;
    for together in TOGETHER {
        let pool = test.pool.clone();
        let panicking = tokio::spawn(async move {
            together
                .deliver(&pool, batch_of(["a", "b"]), Body::Panics)
                .await
        });
        assert!(panicking.await.unwrap_err().is_panic());
        test.assert_pool_is_clean("panicked").await;
        assert_eq!(test.claims().await, 0, "{together:?}");
    }
}

#[tokio::test]
async fn p7_one_bad_key_fails_the_batch_before_a_connection_is_taken() {
    let test = Test::new(1).await;
    test.pool.close().await;
    let long = "k".repeat(idem::MAX_KEY_BYTES + 1);
    for together in TOGETHER {
        for bad in ["", "nul\0", &long] {
            for messages in [["a", bad, "b"], [bad, "a", ""], ["a", "a", bad]] {
                let result = together.deliver(&test.pool, batch_of(messages), Body::Panics);
                let error = result.await.unwrap_err();
                assert!(
                    matches!(error, Fail::Delivery(Error::InvalidKey(_))),
                    "{together:?}: {error:?}"
                );
                assert!(!error.is_transient());
            }
        }
    }
}

#[tokio::test]
async fn p1_a_batch_joins_an_outer_transaction() {
    for together in TOGETHER {
        let test = Test::new(1).await;
        let mut outer = test.pool.begin().await.unwrap();
        let first = together.deliver(&mut outer, batch_of(["a", "b"]), Body::Succeeds);
        assert_eq!(first.await.unwrap().fresh, [0, 1], "{together:?}");
        let failed = together.deliver(&mut outer, batch_of(["c", "b", "d"]), Body::Fails);
        assert!(matches!(failed.await, Err(Fail::Refused)));
        // Of the same transaction, and of one that was undone in it.
        let second = together.deliver(&mut outer, batch_of(["c", "b", "a"]), Body::Succeeds);
        let second = second.await.unwrap();
        assert_eq!(
            (second.fresh, second.duplicates),
            (vec![0], vec![1, 2]),
            "{together:?}"
        );
        assert_eq!(test.claims().await, 0, "not committed yet");
        idem::commit(outer).await.unwrap();
        for (message, expected) in [("a", 1), ("b", 1), ("c", 1), ("d", 0)] {
            assert_eq!(test.effects_of(message).await, expected, "{message}");
        }
        assert_eq!(test.claims().await, 3);
        test.assert_pool_is_clean("joined").await;
    }
}

/// More messages than a statement takes parameters on MySQL and SQLite.
#[tokio::test]
async fn p2_a_big_batch() {
    let test = Test::new(1).await;
    let all: Vec<_> = (0..12_000)
        .map(|number| format!("message {number}"))
        .collect();
    let known = batch_of(["message 7", "message 9999", "message 11999"]);
    let first = Together::Each.deliver(&test.pool, known.clone(), Body::Succeeds);
    assert_eq!(first.await.unwrap().fresh.len(), 3);
    let messages = idem_tests::shuffled(&all, 1);
    let outcome = Together::Each.deliver(&test.pool, messages.clone(), Body::Succeeds);
    let outcome = outcome.await.unwrap();
    assert_eq!(outcome.fresh.len(), 11_997);
    let mut duplicates: Vec<_> = outcome.duplicates.iter().map(|at| &messages[*at]).collect();
    duplicates.sort();
    assert_eq!(duplicates, [&known[2], &known[0], &known[1]]);
    let again = Together::ByHand
        .deliver(&test.pool, messages, Body::Panics)
        .await;
    assert_eq!(again.unwrap().duplicates.len(), 12_000);
    let effects = test.number("SELECT count(*) FROM effects").await;
    let distinct = test
        .number("SELECT count(DISTINCT message) FROM effects")
        .await;
    assert_eq!((effects, distinct), (12_000, 12_000));
    assert_eq!(test.claims().await, 12_000);
}
