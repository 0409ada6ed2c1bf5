//! P2, P3: a duplicate gets the value that the first delivery returned.

use serde::{Deserialize, Serialize};

use super::by_hand::{WAYS, Way};
use super::*;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Receipt {
    number: i64,
    text: String,
    lines: Vec<Line>,
    note: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Line {
    Item { name: String, price: f64 },
    Discount(i8),
    Blank,
}

/// Whatever a text column may stumble over.
pub(super) fn receipt(number: i64) -> Receipt {
    Receipt {
        number,
        text: "NUL \0, quotes ' \" \\, ünïcödé ☃ 𝄞, a\u{301}, line\nbreak, \u{7f}\u{1}, blank "
            .into(),
        lines: vec![
            Line::Item {
                name: String::new(),
                price: 0.1,
            },
            Line::Discount(-5),
            Line::Blank,
        ],
        note: None,
    }
}

#[idempotent(key = "message", consumer = "billing", replay)]
pub(super) async fn issue(
    #[tx] tx: &mut Conn,
    message: &str,
    value: Receipt,
) -> Result<Receipt, Fail> {
    effect(tx, message).await?;
    Ok(value)
}

/// Delivers to a body that returns the value.
pub(super) async fn deliver<'c, T: idem::Replay + Send>(
    way: Way,
    source: impl idem::Source<'c, Database = Db>,
    delivery: Delivery<'_>,
    message: &str,
    value: T,
) -> Result<Outcome<T>, Fail> {
    if way == Way::Once {
        return delivery
            .replay(source, async |tx: &mut Conn| {
                effect(tx, message).await?;
                Ok(value)
            })
            .await;
    }
    Ok(match delivery.replaying().claim(source).await? {
        Claimed::Fresh(mut claim) => {
            effect(&mut claim, message).await?;
            claim.commit_with(&value).await?;
            Outcome::Processed(value)
        }
        Claimed::Duplicate => Outcome::Duplicate,
        Claimed::Replayed(value) => Outcome::Replayed(value.decode()?),
        Claimed::Stale => Outcome::Stale,
    })
}

async fn deliver_receipt<'c>(
    way: Way,
    source: impl idem::Source<'c, Database = Db>,
    message: &str,
    value: Receipt,
) -> Result<Outcome<Receipt>, Fail> {
    if way == Way::Attribute {
        return issue(source, message, value).await;
    }
    deliver(way, source, db::of("billing", message), message, value).await
}

#[tokio::test]
async fn p2_a_duplicate_gets_the_first_value() {
    let test = Test::new(1).await;
    for first in WAYS {
        let message = format!("{first:?}");
        let outcome = deliver_receipt(first, &test.pool, &message, receipt(1)).await;
        assert_eq!(outcome.unwrap(), Outcome::Processed(receipt(1)));
        for second in WAYS {
            let outcome = deliver_receipt(second, &test.pool, &message, receipt(2)).await;
            let outcome = outcome.unwrap();
            assert_eq!(
                outcome,
                Outcome::Replayed(receipt(1)),
                "{first:?}, {second:?}"
            );
            let mut held = test.pool.acquire().await.unwrap();
            let outcome = deliver_receipt(second, &mut held, &message, receipt(2)).await;
            assert!(matches!(outcome, Ok(Outcome::Replayed(_))), "{outcome:?}");
            drop(held);
            test.assert_pool_is_clean("replayed").await;
        }
        // Who does not ask gets none.
        let outcome = on_connection(&test.pool, &message, Body::Panics).await;
        assert_eq!(outcome.unwrap(), Outcome::Duplicate);
        assert_eq!(test.effects_of(&message).await, 1);
    }
}

#[tokio::test]
async fn p8_another_consumer_has_its_own_value() {
    let test = Test::new(1).await;
    for expected in ["processed", "replayed"] {
        for (number, consumer) in ["billing", "shipping"].into_iter().enumerate() {
            let number = i64::try_from(number).unwrap();
            for id in ["evt-1", "evt-2"] {
                let value = (number, id.to_owned());
                let delivery = db::of(consumer, id);
                let outcome = deliver(Way::Claim, &test.pool, delivery, id, value.clone()).await;
                let expected = match expected {
                    "processed" => Outcome::Processed(value),
                    _ => Outcome::Replayed(value),
                };
                assert_eq!(outcome.unwrap(), expected, "{consumer} {id}");
            }
        }
    }
}

#[tokio::test]
async fn p2_a_claim_without_a_value_is_a_plain_duplicate() {
    let test = Test::new(1).await;
    for way in WAYS {
        let message = format!("{way:?}");
        let _ = on_connection(&test.pool, &message, Body::Succeeds)
            .await
            .unwrap();
        let outcome = deliver_receipt(way, &test.pool, &message, receipt(1)).await;
        assert_eq!(outcome.unwrap(), Outcome::Duplicate, "{way:?}");
        // `replaying` without `commit_with` stores none either.
        let other = format!("other {message}");
        let delivery = || db::of("billing", other.as_str()).replaying();
        let Claimed::Fresh(claim) = delivery().claim(&test.pool).await.unwrap() else {
            panic!("it is new");
        };
        claim.commit().await.unwrap();
        let again = delivery().claim(&test.pool).await.unwrap();
        assert!(matches!(again, Claimed::Duplicate));
    }
}

#[idempotent(key = "id", consumer = "billing", business_key = "action", replay)]
async fn charge(
    #[tx] tx: &mut Conn,
    id: Option<&str>,
    action: &str,
    value: u8,
) -> Result<u8, Fail> {
    let _ = id;
    effect(tx, action).await?;
    Ok(value)
}

#[tokio::test]
async fn p2_the_value_is_found_by_either_key() {
    let test = Test::new(1).await;
    for way in WAYS {
        let name = |what: &str| format!("{what} {way:?}");
        let run = async |id: Option<&str>, action: &str, value| {
            let id = id.map(name);
            let (id, action) = (id.as_deref(), name(action));
            if way == Way::Attribute {
                return charge(&test.pool, id, &action, value).await.unwrap();
            }
            let delivery = db::with_business_key("billing", id, action.as_str());
            deliver(way, &test.pool, delivery, &action, value)
                .await
                .unwrap()
        };
        assert_eq!(run(Some("id1"), "A", 1).await, Outcome::Processed(1));
        assert_eq!(run(None, "B", 2).await, Outcome::Processed(2));
        for (id, action, expected) in [
            (Some("id1"), "A", 1),
            (Some("id2"), "A", 1),
            (Some("id1"), "C", 1),
            (None, "A", 1),
            (None, "B", 2),
            (Some("id3"), "B", 2),
        ] {
            let outcome = run(id, action, 9).await;
            assert_eq!(
                outcome,
                Outcome::Replayed(expected),
                "{way:?} {id:?} {action}"
            );
        }
    }
}

#[tokio::test]
async fn p1_values_in_an_outer_transaction() {
    let test = Test::new(1).await;
    for way in WAYS {
        let message = format!("{way:?}");
        let mut outer = test.pool.begin().await.unwrap();
        for expected in [
            Outcome::Processed(receipt(1)),
            Outcome::Replayed(receipt(1)),
        ] {
            let outcome = deliver_receipt(way, &mut outer, &message, receipt(1)).await;
            assert_eq!(outcome.unwrap(), expected, "{way:?}");
        }
        idem::commit(outer).await.unwrap();
        let outcome = deliver_receipt(way, &test.pool, &message, receipt(2)).await;
        assert_eq!(outcome.unwrap(), Outcome::Replayed(receipt(1)), "{way:?}");
        test.assert_pool_is_clean("joined").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p9_the_second_of_two_at_once_waits_and_gets_the_value() {
    let test = Test::new(4).await;
    for round in 0..10 {
        let message = format!("round {round}");
        let mut deliveries = tokio::task::JoinSet::new();
        for number in 0..6 {
            let (pool, message) = (test.pool.clone(), message.clone());
            let way = WAYS[number % 3];
            deliveries.spawn(async move {
                let value = receipt(i64::try_from(number).unwrap());
                loop {
                    match deliver_receipt(way, &pool, &message, value.clone()).await {
                        Ok(outcome) => return outcome,
                        Err(error) => assert!(error.is_transient(), "{error:?}"),
                    }
                }
            });
        }
        let outcomes = deliveries.join_all().await;
        let is_processed = |outcome: &&Outcome<Receipt>| outcome.is_processed();
        assert_eq!(
            outcomes.iter().filter(is_processed).count(),
            1,
            "{outcomes:?}"
        );
        let values: Vec<_> = outcomes.into_iter().map(Outcome::value).collect();
        assert!(values[0].is_some(), "{values:?}");
        assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
        assert_eq!(test.effects_of(&message).await, 1, "{message}");
    }
}
