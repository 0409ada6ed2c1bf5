//! P4: messages of days that are still to come.

use super::*;
use crate::contract::by_hand::WAYS;

#[tokio::test]
async fn p4_a_clock_that_is_days_ahead_is_a_permanent_error() {
    let clocked = Clocked::with_days("2026-12-31", 2, 0, 1).await;
    for days in [2, 3, 400] {
        let event = clocked.event("evt-1", days);
        for way in WAYS {
            let error = event.deliver(way, clocked.pool(), Body::Panics).await;
            let Err(Fail::Delivery(error)) = error else {
                panic!("{error:?}");
            };
            let Error::TooFarAhead { day, today } = &error else {
                panic!("{error:?}");
            };
            assert_eq!(today.to_string(), "2026-12-31");
            assert!(day > today);
            assert!(!error.is_transient(), "{error}");
            assert!(error.to_string().contains("clock"), "{error}");
            clocked.test.assert_pool_is_clean("ahead").await;
        }
    }
    assert_eq!(clocked.test.claims().await, 0);
    assert_eq!(clocked.test.effects_of("evt-1").await, 0);
}

/// A producer whose clock is fast by some days does no harm, as long as these days are there.
#[tokio::test]
async fn p2_a_day_ahead_that_is_there_takes_its_messages() {
    let clocked = Clocked::with_days("2026-12-31", 2, 3, 1).await;
    for days in [1, 2, 3] {
        let event = clocked.event(format!("{days}"), days);
        for way in WAYS {
            let outcome = event.deliver(way, clocked.pool(), Body::Succeeds).await;
            let expected = match way {
                Way::Attribute => Outcome::Processed(7),
                _ => Outcome::Duplicate,
            };
            assert_eq!(outcome.unwrap(), expected, "{days} {way:?}");
        }
        assert_eq!(clocked.test.effects_of(&event.id).await, 1);
    }
}

/// Nobody has made the day: that is no fault of the message.
#[tokio::test]
async fn p4_a_day_that_was_not_made_is_transient() {
    for (clock, days) in [("2026-12-31 12:00:00+00", 1), ("2027-01-02 00:00:00+00", 2)] {
        let clocked = Clocked::with_days("2026-12-31", 2, 0, 1).await;
        clocked.set_clock(clock).await;
        let event = clocked.event("evt-1", days);
        for way in WAYS {
            let error = event.deliver(way, clocked.pool(), Body::Panics).await;
            let Err(Fail::Delivery(error)) = error else {
                panic!("{error:?}");
            };
            let Error::NoPartition { day, .. } = &error else {
                panic!("{error:?}");
            };
            assert!(error.is_transient(), "{error}");
            for part in [&day.to_string(), "Pruner", "idem::Days"] {
                assert!(error.to_string().contains(part), "{error}");
            }
            clocked.test.assert_pool_is_clean("not made").await;
        }
        clocked.days(2).ahead(1).create().await.unwrap();
        let outcome = event
            .deliver(Way::Once, clocked.pool(), Body::Succeeds)
            .await;
        assert!(outcome.unwrap().is_processed(), "it is redelivered");
        let outcome = event
            .deliver(Way::Claim, clocked.pool(), Body::Panics)
            .await;
        assert_eq!(outcome.unwrap(), Outcome::Duplicate);
    }
}

/// The table is there and has no days at all: nothing was dropped, so that no message is expired.
#[tokio::test]
async fn p4_a_table_without_days_is_transient() {
    let clocked = Clocked::new("2026-11-30", 1).await;
    clocked.run(idem::sql::POSTGRES_BY_DAY).await;
    for days in [-5, 0, 1] {
        let event = clocked.event("evt-1", days);
        let error = event.deliver(Way::Once, clocked.pool(), Body::Panics).await;
        assert!(
            matches!(error, Err(Fail::Delivery(Error::NoPartition { .. }))),
            "{error:?}"
        );
    }
    let event = clocked.event("evt-1", 2);
    let error = event.deliver(Way::Once, clocked.pool(), Body::Panics).await;
    assert!(matches!(
        error,
        Err(Fail::Delivery(Error::TooFarAhead { .. }))
    ));
}
