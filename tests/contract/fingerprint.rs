//! P4: the same key with other content is no redelivery.

use serde::Serialize;

use super::by_hand::{WAYS, Way};
use super::*;

#[derive(Clone, Serialize)]
struct Content {
    amount: i64,
    currency: &'static str,
    tags: Vec<&'static str>,
}

fn content(amount: i64) -> Content {
    Content {
        amount,
        currency: "€",
        tags: vec!["a", "b"],
    }
}

#[idempotent(
    key = "message",
    consumer = "billing",
    fingerprint = "(content.amount, content.currency, &content.tags)"
)]
async fn pay(
    #[tx] tx: &mut Conn,
    message: &str,
    content: &Content,
    body: Body,
) -> Result<u64, Fail> {
    let _ = content;
    effect(tx, message).await?;
    body.end()
}

async fn deliver<'c>(
    way: Way,
    source: impl idem::Source<'c, Database = Db>,
    message: &str,
    content: &Content,
    body: Body,
) -> Result<Outcome<u64>, Fail> {
    if way == Way::Attribute {
        return pay(source, message, content, body).await;
    }
    let parts = (content.amount, content.currency, &content.tags);
    let delivery = db::of("billing", message).fingerprint(parts);
    way.deliver(source, delivery, message, body).await
}

#[track_caller]
fn assert_mismatch<T: std::fmt::Debug>(result: Result<T, Fail>, what: &str) {
    let error = result.unwrap_err();
    assert!(
        matches!(error, Fail::Delivery(Error::Mismatch)),
        "{what}: {error:?}"
    );
    assert!(!error.is_transient(), "{what}: for the dead letters");
}

#[tokio::test]
async fn p4_equal_content_is_a_duplicate_and_other_content_a_mismatch() {
    let test = Test::new(1).await;
    for first in WAYS {
        let message = format!("{first:?}");
        let failed = deliver(first, &test.pool, &message, &content(0), Body::Fails).await;
        assert!(matches!(failed, Err(Fail::Refused)), "{failed:?}");
        let outcome = deliver(first, &test.pool, &message, &content(1), Body::Succeeds).await;
        assert_eq!(outcome.unwrap(), Outcome::Processed(7), "{first:?}");
        for second in WAYS {
            let what = format!("{first:?}, {second:?}");
            for _ in 0..2 {
                let outcome =
                    deliver(second, &test.pool, &message, &content(1), Body::Panics).await;
                assert_eq!(outcome.unwrap(), Outcome::Duplicate, "{what}");
                let mut other = content(1);
                other.tags.reverse();
                for other in [content(2), other] {
                    let result = deliver(second, &test.pool, &message, &other, Body::Panics).await;
                    assert_mismatch(result, &what);
                    test.assert_pool_is_clean(&what).await;
                }
            }
            let mut outer = test.pool.begin().await.unwrap();
            let result = deliver(second, &mut outer, &message, &content(2), Body::Panics).await;
            assert_mismatch(result, &what);
            let outcome = deliver(second, &mut outer, &message, &content(1), Body::Panics).await;
            assert_eq!(outcome.unwrap(), Outcome::Duplicate, "{what}: joined");
        }
        assert_eq!(test.effects_of(&message).await, 1, "{first:?}");
    }
    assert_eq!(test.claims().await, 3);
}

#[tokio::test]
async fn p8_another_consumer_may_have_other_content() {
    let test = Test::new(1).await;
    for (consumer, amount) in [("billing", 1), ("shipping", 2)] {
        let delivery = db::of(consumer, "evt-1").fingerprint(content(amount));
        let outcome = Way::Claim.deliver(&test.pool, delivery, "evt-1", Body::Succeeds);
        assert_eq!(outcome.await.unwrap(), Outcome::Processed(7));
    }
}

#[tokio::test]
async fn p4_a_claim_without_a_fingerprint_matches_any() {
    let test = Test::new(1).await;
    for way in WAYS {
        let message = format!("{way:?}");
        let _ = on_connection(&test.pool, &message, Body::Succeeds)
            .await
            .unwrap();
        for amount in [1, 2] {
            let outcome = deliver(way, &test.pool, &message, &content(amount), Body::Panics).await;
            assert_eq!(outcome.unwrap(), Outcome::Duplicate, "{way:?}");
        }
        // And the other way round: who does not compare is not refused.
        let other = format!("other {message}");
        let _ = deliver(way, &test.pool, &other, &content(1), Body::Succeeds)
            .await
            .unwrap();
        let outcome = on_connection(&test.pool, &other, Body::Panics).await;
        assert_eq!(outcome.unwrap(), Outcome::Duplicate, "{way:?}");
    }
}

#[idempotent(key = "message", consumer = "billing", replay, fingerprint = "amount")]
async fn pay_and_replay(#[tx] tx: &mut Conn, message: &str, amount: i64) -> Result<i64, Fail> {
    effect(tx, message).await?;
    Ok(amount)
}

#[tokio::test]
async fn p4_with_replay() {
    let test = Test::new(1).await;
    for way in WAYS {
        let message = format!("{way:?}");
        let run = async |amount: i64| -> Result<Outcome<i64>, Fail> {
            let delivery = db::of("billing", message.as_str()).fingerprint(amount);
            match way {
                Way::Attribute => pay_and_replay(&test.pool, &message, amount).await,
                Way::Once => {
                    delivery
                        .replay(&test.pool, async |tx: &mut Conn| {
                            effect(tx, &message).await?;
                            Ok(amount)
                        })
                        .await
                }
                Way::Claim => match delivery.replaying().claim(&test.pool).await? {
                    Claimed::Fresh(mut claim) => {
                        effect(&mut claim, &message).await?;
                        claim.commit_with(&amount).await?;
                        Ok(Outcome::Processed(amount))
                    }
                    Claimed::Replayed(value) => Ok(Outcome::Replayed(value.decode()?)),
                    Claimed::Duplicate | Claimed::Stale => unreachable!(),
                },
            }
        };
        assert_eq!(run(1).await.unwrap(), Outcome::Processed(1), "{way:?}");
        assert_eq!(run(1).await.unwrap(), Outcome::Replayed(1), "{way:?}");
        assert_mismatch(run(2).await, &message);
        assert_eq!(test.effects_of(&message).await, 1, "{way:?}");
    }
}

/// Two ids for one action are one message, if their content is equal.
#[tokio::test]
async fn p4_with_a_business_key() {
    let test = Test::new(1).await;
    let run = async |id, action, amount: i64| {
        let delivery = db::with_business_key("billing", id, action).fingerprint(amount);
        Way::Once
            .deliver(&test.pool, delivery, action, Body::Succeeds)
            .await
    };
    assert_eq!(run("id1", "A", 1).await.unwrap(), Outcome::Processed(7));
    for (id, action) in [("id1", "A"), ("id2", "A"), ("id1", "B")] {
        assert_eq!(
            run(id, action, 1).await.unwrap(),
            Outcome::Duplicate,
            "{id} {action}"
        );
        assert_mismatch(run(id, action, 2).await, id);
    }
    assert_eq!(run("id3", "B", 2).await.unwrap(), Outcome::Processed(7));
    assert_eq!(test.claims().await, 5);
}

#[idempotent(
    key = "id",
    consumer = "billing",
    each = "(id, amount) in messages",
    fingerprint = "amount"
)]
async fn pay_all(#[tx] tx: &mut Conn, messages: Vec<(String, i64)>) -> Result<usize, Fail> {
    for (id, _) in &messages {
        effect(tx, id).await?;
    }
    Ok(messages.len())
}

/// The fresh ones' places.
async fn deliver_all(
    test: &Test,
    by_hand: bool,
    messages: &[(&str, i64)],
) -> Result<Vec<usize>, Fail> {
    let owned: Vec<_> = messages
        .iter()
        .map(|(id, amount)| ((*id).to_owned(), *amount))
        .collect();
    if !by_hand {
        return Ok(pay_all(&test.pool, owned).await?.fresh);
    }
    let mut batch = db::batch("billing");
    for (id, amount) in messages {
        db::push(&mut batch, id).fingerprint(amount);
    }
    let claimed = batch.claim(&test.pool).await?;
    if let Some(mut claim) = claimed.claim {
        for index in &claimed.fresh {
            effect(&mut claim, messages[*index].0).await?;
        }
        claim.commit().await?;
    }
    Ok(claimed.fresh)
}

#[tokio::test]
async fn p4_in_a_batch_a_mismatch_fails_all() {
    for by_hand in [false, true] {
        let test = Test::new(1).await;
        let run = async |messages: &[(&str, i64)]| deliver_all(&test, by_hand, messages).await;
        // An older one without a fingerprint.
        let _ = on_connection(&test.pool, "old", Body::Succeeds)
            .await
            .unwrap();
        let first = [("b", 2), ("old", 9), ("a", 1), ("b", 2)];
        assert_eq!(run(&first).await.unwrap(), [0, 2]);
        assert_eq!(run(&first).await.unwrap(), [0; 0]);
        for other in [
            [("c", 3), ("b", 7)],
            [("a", 7), ("c", 3)],
            [("c", 3), ("c", 4)],
        ] {
            assert_mismatch(run(&other).await, "batch");
            test.assert_pool_is_clean("batch").await;
            assert_eq!(test.effects_of("c").await, 0);
        }
        assert_eq!(
            run(&[("c", 3), ("b", 2), ("d", 1), ("a", 1)])
                .await
                .unwrap(),
            [0, 2]
        );
        // Alone and together are the same message.
        let alone = db::of("billing", "c").fingerprint(3);
        let outcome = Way::Once
            .deliver(&test.pool, alone, "c", Body::Panics)
            .await;
        assert_eq!(outcome.unwrap(), Outcome::Duplicate);
        for message in ["old", "a", "b", "c", "d"] {
            assert_eq!(test.effects_of(message).await, 1, "{message}");
        }
    }
}

/// More than a statement takes parameters on any database; those that were there are read in several, too.
#[tokio::test]
async fn p4_in_a_big_batch() {
    let test = Test::new(1).await;
    let batch = |odd_one: i64| {
        let mut batch = db::batch("billing");
        for number in 0..17_000 {
            let content = if number == 16_999 { odd_one } else { number };
            db::push(&mut batch, number).fingerprint(content);
        }
        batch
    };
    let claimed = batch(16_999).claim(&test.pool).await.unwrap();
    claimed.claim.unwrap().commit().await.unwrap();
    let other = batch(0).claim(&test.pool).await;
    assert!(matches!(other, Err(Error::Mismatch)));
}
