//! P4, P12: a message of a day that is no longer kept does not run, since nobody can tell whether it was processed.

use idem::BatchOutcome;

use super::*;
use crate::contract::by_hand::WAYS;

#[tokio::test]
async fn p12_an_expired_message_is_refused() {
    let clocked = Clocked::with_days("2026-11-30", 2, 1, 1).await;
    let (expired, kept) = (clocked.event("expired", -3), clocked.event("kept", -2));
    for way in WAYS {
        for _ in 0..2 {
            let result = expired.deliver(way, clocked.pool(), Body::Panics).await;
            assert_expired(result, "2026-11-27", "2026-11-28");
            clocked.test.assert_pool_is_clean("refused").await;
        }
        let mut held = clocked.pool().acquire().await.unwrap();
        let result = expired.deliver(way, &mut held, Body::Panics).await;
        assert_expired(result, "2026-11-27", "2026-11-28");
        effect(&mut held, "probe").await.unwrap();
        drop(held);
    }
    assert_eq!(
        clocked.test.effects_of("probe").await,
        3,
        "it is left in no transaction"
    );
    let outcome = kept
        .deliver(Way::Once, clocked.pool(), Body::Succeeds)
        .await;
    assert_eq!(
        outcome.unwrap(),
        Outcome::Processed(7),
        "the last day that is kept"
    );
    assert_eq!(clocked.test.effects_of("expired").await, 0);
    assert_eq!(clocked.test.claims().await, 1);
}

/// Also where the claim was there before the day was dropped.
#[tokio::test]
async fn p12_a_message_that_was_processed_is_refused_when_its_claim_is_gone() {
    let clocked = Clocked::with_days("2026-11-30", 3, 1, 1).await;
    let event = clocked.event("evt-1", -3);
    let outcome = event
        .deliver(Way::Attribute, clocked.pool(), Body::Succeeds)
        .await;
    assert!(outcome.unwrap().is_processed());
    clocked.next_day().await;
    // It expires by the removal of its claim, and not by the hour.
    let outcome = event
        .deliver(Way::Attribute, clocked.pool(), Body::Panics)
        .await;
    assert_eq!(outcome.unwrap(), Outcome::Duplicate);
    assert_eq!(clocked.days(3).drop_expired().await.unwrap(), 1);
    for way in WAYS {
        let result = event.deliver(way, clocked.pool(), Body::Panics).await;
        assert_expired(result, "2026-11-27", "2026-11-28");
    }
    assert_eq!(clocked.test.effects_of("evt-1").await, 1);
}

#[tokio::test]
async fn p12_a_refusal_leaves_the_outer_transaction_usable() {
    let clocked = Clocked::with_days("2026-11-30", 2, 1, 1).await;
    let (expired, kept) = (clocked.event("expired", -3), clocked.event("kept", -1));
    let ahead = clocked.event("ahead", 9);
    for way in WAYS {
        let kept = Event {
            id: format!("{way:?}"),
            ..kept.clone()
        };
        let mut outer = clocked.pool().begin().await.unwrap();
        effect(&mut outer, &format!("before {way:?}"))
            .await
            .unwrap();
        let result = expired.deliver(way, &mut outer, Body::Panics).await;
        assert_expired(result, "2026-11-27", "2026-11-28");
        let result = ahead.deliver(way, &mut outer, Body::Panics).await;
        assert!(matches!(
            result,
            Err(Fail::Delivery(Error::TooFarAhead { .. }))
        ));
        let outcome = kept.deliver(way, &mut outer, Body::Succeeds).await;
        assert!(outcome.unwrap().is_processed(), "{way:?}");
        idem::commit(outer).await.unwrap();
        for message in [&format!("before {way:?}"), &kept.id] {
            assert_eq!(clocked.test.effects_of(message).await, 1, "{message}");
        }
        clocked.test.assert_pool_is_clean("joined").await;
    }
    assert_eq!(clocked.test.claims().await, 3);
}

/// A handler's own error type may be `sqlx::Error`.
#[idem::idempotent(key = "event.id", consumer = "billing", time = "event.time")]
async fn returns_sqlx(#[tx] tx: &mut Conn, event: &Event) -> Result<(), sqlx::Error> {
    effect(tx, &event.id).await
}

#[tokio::test]
async fn p4_the_verdict_survives_sqlx_error() {
    let clocked = Clocked::with_days("2026-11-30", 2, 0, 1).await;
    for (days, text, is_transient) in [
        (-3, "claims are kept from 2026-11-28 on", false),
        (2, "today is 2026-11-30", false),
        (1, "no partition for 2026-12-01", true),
    ] {
        let error = returns_sqlx(clocked.pool(), &clocked.event("evt-1", days)).await;
        let error = error.unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(idem::is_transient(&error), is_transient, "{error}");
        // And behind a type that shows only the source of it.
        assert_eq!(Fail::Database(error).is_transient(), is_transient);
    }
    assert_eq!(clocked.test.claims().await, 0);
}

/// The other arguments do not get past it, and keep nothing of it.
#[tokio::test]
async fn p12_whatever_else_is_asked_for() {
    let clocked = Clocked::with_days("2026-11-30", 2, 1, 1).await;
    let expired = clocked.event("evt-1", -3);
    let with_action = Delivery::with_business_key("billing", "evt-1", "action").time(expired.time);
    for delivery in [
        expired.delivery().fingerprint(1),
        expired.delivery().replaying(),
        expired.delivery().from_plain(),
        expired.delivery().from_plain().fingerprint(1).replaying(),
        with_action.clone(),
        with_action.from_plain(),
    ] {
        let result = delivery.replay(clocked.pool(), async |_: &mut Conn| -> Result<u64, Fail> {
            panic!("it does not run")
        });
        assert_expired(result.await, "2026-11-27", "2026-11-28");
    }
    let all = "SELECT (SELECT count(*) FROM processed_messages) + (SELECT count(*) FROM processed_messages_by_day)";
    assert_eq!(clocked.test.number(all).await, 0);
    clocked.test.assert_pool_is_clean("refused").await;
}

#[idem::idempotent(
    key = "event.id",
    consumer = "billing",
    time = "event.time",
    each = "event in events"
)]
async fn pay_all(#[tx] tx: &mut Conn, events: Vec<Event>) -> Result<usize, Fail> {
    for event in &events {
        effect(tx, &event.id).await?;
    }
    Ok(events.len())
}

async fn pay_all_by_hand(
    clocked: &Clocked,
    events: Vec<Event>,
) -> Result<BatchOutcome<usize>, Fail> {
    let mut batch = idem::Deliveries::of("billing");
    for event in &events {
        batch.push(&event.id).time(event.time);
    }
    let claimed = batch.claim(clocked.pool()).await?;
    let mut value = None;
    if let Some(mut claim) = claimed.claim {
        for index in &claimed.fresh {
            effect(&mut claim, &events[*index].id).await?;
        }
        claim.commit().await?;
        value = Some(claimed.fresh.len());
    }
    Ok(BatchOutcome {
        value,
        fresh: claimed.fresh,
        duplicates: claimed.duplicates,
    })
}

#[tokio::test]
async fn p4_one_expired_message_fails_its_batch_and_only_itself_alone() {
    for by_hand in [false, true] {
        let clocked = Clocked::with_days("2026-11-30", 2, 1, 1).await;
        let deliver = async |events: Vec<Event>| {
            if by_hand {
                pay_all_by_hand(&clocked, events).await
            } else {
                pay_all(clocked.pool(), events).await
            }
        };
        // In every order of keys and days.
        let mut events: Vec<_> = [
            ("d", -2),
            ("a", 1),
            ("c", -3),
            ("b", 0),
            ("e", -1),
            ("a", 1),
        ]
        .map(|(id, days)| clocked.event(id, days))
        .into();
        assert_expired(deliver(events.clone()).await, "2026-11-27", "2026-11-28");
        clocked.test.assert_pool_is_clean("batch").await;
        assert_eq!(clocked.test.claims().await, 0, "nothing is kept of it");
        let results: Vec<Result<_, Fail>> = idem::batch(events.clone(), deliver).await;
        for (index, result) in results.into_iter().enumerate() {
            match index {
                2 => assert_expired(result, "2026-11-27", "2026-11-28"),
                5 => assert!(matches!(result, Ok(Outcome::Duplicate)), "{result:?}"),
                _ => assert!(matches!(result, Ok(Outcome::Processed(()))), "{result:?}"),
            }
        }
        for event in &events {
            let effects = clocked.test.effects_of(&event.id).await;
            assert_eq!(effects, i64::from(event.id != "c"), "{event:?}");
        }
        // Without it they are one batch, of many days.
        events.remove(2);
        let outcome = deliver(events).await.unwrap();
        assert_eq!(outcome.duplicates, [0, 1, 2, 3, 4]);
        let events = [("x", -2), ("y", 0), ("x", -2)].map(|(id, days)| clocked.event(id, days));
        let outcome = deliver(events.into()).await.unwrap();
        assert_eq!((outcome.fresh, outcome.duplicates), (vec![0, 1], vec![2]));
    }
}

/// Of several that cannot be claimed, the oldest is named.
#[tokio::test]
async fn p4_a_batch_names_the_first_day_at_fault() {
    let clocked = Clocked::with_days("2026-11-30", 2, 1, 1).await;
    let batch = |days: &[i64]| -> Vec<Event> {
        let event = |days: &i64| clocked.event(format!("{days}"), *days);
        days.iter().map(event).collect()
    };
    let result = pay_all(clocked.pool(), batch(&[9, 0, -5, -3])).await;
    assert_expired(result, "2026-11-25", "2026-11-28");
    let error = pay_all(clocked.pool(), batch(&[9, 0, 5]))
        .await
        .unwrap_err();
    let is_named = matches!(&error, Fail::Delivery(Error::TooFarAhead { day, .. }) if day.to_string() == "2026-12-05");
    assert!(is_named, "{error:?}");
    clocked.test.assert_pool_is_clean("batch").await;
}
