//! P2: messages of different days that ask for one action.

use super::*;
use crate::contract::by_hand::WAYS;

#[idem::idempotent(
    key = "event.id",
    consumer = "billing",
    business_key = "action",
    time = "event.time"
)]
async fn charge(#[tx] tx: &mut Conn, event: &Event, action: &str, body: Body) -> Result<u64, Fail> {
    effect(tx, action).await?;
    let _ = event;
    body.end()
}

async fn deliver(
    clocked: &Clocked,
    way: Way,
    event: &Event,
    action: &str,
    body: Body,
) -> Result<Outcome<u64>, Fail> {
    if way == Way::Attribute {
        return charge(clocked.pool(), event, action, body).await;
    }
    let delivery = Delivery::with_business_key("billing", &event.id, action).time(event.time);
    way.deliver(clocked.pool(), delivery, action, body).await
}

#[tokio::test]
async fn p2_one_action_of_messages_of_different_days() {
    for first in WAYS {
        for second in WAYS {
            let clocked = Clocked::with_days("2026-11-30", 5, 1, 1).await;
            let action = format!("{first:?} {second:?}");
            let outcome = deliver(
                &clocked,
                first,
                &clocked.event("a", -5),
                &action,
                Body::Succeeds,
            )
            .await;
            assert_eq!(outcome.unwrap(), Outcome::Processed(7), "{action}");
            for days in [-4, -1, 0, 1] {
                let event = clocked.event(format!("{days}"), days);
                for _ in 0..2 {
                    let outcome = deliver(&clocked, second, &event, &action, Body::Panics).await;
                    assert_eq!(outcome.unwrap(), Outcome::Duplicate, "{action} {days}");
                }
                // Its own key is kept, for a redelivery that names another action.
                let outcome = deliver(&clocked, second, &event, "other", Body::Panics).await;
                assert_eq!(outcome.unwrap(), Outcome::Duplicate, "{action} {days}");
            }
            // The first message's day goes, and the action stays.
            assert_eq!(clocked.days(3).drop_expired().await.unwrap(), 2);
            let event = clocked.event("new", 0);
            let outcome = deliver(&clocked, second, &event, &action, Body::Panics).await;
            assert_eq!(outcome.unwrap(), Outcome::Duplicate, "{action}");
            assert_eq!(clocked.test.effects_of(&action).await, 1);
            assert_eq!(clocked.test.effects_of("other").await, 0);
            let actions = "SELECT count(*) FROM processed_messages";
            assert_eq!(
                clocked.test.number(actions).await,
                1,
                "keys of messages are elsewhere"
            );
        }
    }
}

/// A message that is refused has done no action.
#[tokio::test]
async fn p12_a_refused_message_claims_no_action() {
    let clocked = Clocked::with_days("2026-11-30", 2, 1, 1).await;
    for way in WAYS {
        let action = format!("{way:?}");
        let expired = clocked.event("expired", -3);
        let result = deliver(&clocked, way, &expired, &action, Body::Panics).await;
        assert_expired(result, "2026-11-27", "2026-11-28");
        let other = clocked.event(&action, 0);
        let outcome = deliver(&clocked, way, &other, &action, Body::Succeeds).await;
        assert_eq!(outcome.unwrap(), Outcome::Processed(7), "{way:?}");
    }
}

/// Both orders of the two tables at once would deadlock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_messages_and_actions_race() {
    let clocked = std::sync::Arc::new(Clocked::with_days("2026-11-30", 2, 1, 6).await);
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0_i64..6 {
        let clocked = std::sync::Arc::clone(&clocked);
        tasks.spawn(async move {
            for round in 0..20 {
                // The same ids with shifting actions, in both directions.
                let number = if worker % 2 == 0 {
                    round % 5
                } else {
                    4 - round % 5
                };
                let event = clocked.event(format!("evt {number}"), -(number % 3));
                let action = format!("action {}", (number + worker) % 5);
                let result = deliver(&clocked, Way::Once, &event, &action, Body::Succeeds).await;
                assert!(result.is_ok(), "{result:?}");
            }
        });
    }
    tasks.join_all().await;
    let twice = "SELECT count(*) FROM (SELECT message FROM effects GROUP BY message HAVING count(*) > 1) AS twice";
    assert_eq!(clocked.test.number(twice).await, 0);
    clocked.test.assert_pool_is_clean("raced").await;
}
