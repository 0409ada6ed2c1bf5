//! P2: the day of a message is its own, and not that of its delivery.

use super::*;
use crate::contract::by_hand::WAYS;

#[tokio::test]
async fn p2_a_redelivery_across_midnight_is_a_duplicate() {
    for first in WAYS {
        let clocked = Clocked::with_days("2028-02-28", 2, 3, 1).await;
        clocked.set_clock("2028-02-28 23:59:59.9+00").await;
        let mut event = clocked.event("evt-1", 0);
        // The last moment of the day.
        event.time += Duration::new(12 * 60 * 60 - 1, 999_999_999);
        let outcome = event.deliver(first, clocked.pool(), Body::Succeeds).await;
        assert_eq!(outcome.unwrap(), Outcome::Processed(7), "{first:?}");
        for now in [
            "2028-02-28 23:59:59.999999+00",
            "2028-02-29 00:00:00+00",
            "2028-03-01 00:00:01+00",
            // A clock that was set back.
            "2028-02-27 23:59:59+00",
        ] {
            clocked.set_clock(now).await;
            clocked.days(2).create().await.unwrap();
            for way in WAYS {
                let outcome = event.deliver(way, clocked.pool(), Body::Panics).await;
                assert_eq!(outcome.unwrap(), Outcome::Duplicate, "{way:?} at {now}");
            }
        }
        assert_eq!(clocked.test.effects_of("evt-1").await, 1, "{first:?}");
        clocked.test.assert_pool_is_clean("midnight").await;
    }
}

/// Why it is not the day of arrival: that makes the redelivery another claim.
#[tokio::test]
async fn a_partition_by_arrival_forgets_at_midnight() {
    let clocked = Clocked::new("2026-11-30", 1).await;
    clocked
        .run(
            "CREATE TABLE naive (message_id text, arrived date DEFAULT (now() AT TIME ZONE 'UTC')::date, \
               PRIMARY KEY (message_id, arrived)) PARTITION BY RANGE (arrived); \
             CREATE TABLE first PARTITION OF naive FOR VALUES FROM ('2026-11-30') TO ('2026-12-01'); \
             CREATE TABLE second PARTITION OF naive FOR VALUES FROM ('2026-12-01') TO ('2026-12-02')",
        )
        .await;
    let claim = "INSERT INTO naive (message_id) VALUES ('evt-1') ON CONFLICT DO NOTHING";
    for (now, claims) in [
        ("2026-11-30 23:59:59+00", 1),
        ("2026-11-30 23:59:59+00", 1),
        // The body would run once more.
        ("2026-12-01 00:00:01+00", 2),
    ] {
        clocked.set_clock(now).await;
        clocked.run(claim).await;
        assert_eq!(
            clocked.test.number("SELECT count(*) FROM naive").await,
            claims
        );
    }
}

/// Days are those of UTC, wherever a worker or the one that makes them is.
#[tokio::test]
async fn p2_the_time_zone_of_a_session_does_not_matter() {
    let clocked = Clocked::new("2026-11-30", 1).await;
    let mut pools = Vec::new();
    for zone in ["Pacific/Kiritimati", "Pacific/Niue", "UTC"] {
        let set = format!("SET TIME ZONE '{zone}'");
        let fixture = &clocked.test.fixture;
        let options = fixture.options(1).after_connect(move |conn, _| {
            let set = set.clone();
            Box::pin(async move { run(conn, set).await })
        });
        pools.push(options.connect(&fixture.url).await.unwrap());
    }
    for (round, now) in ["2026-11-30 00:00:01+00", "2026-11-30 23:59:59+00"]
        .into_iter()
        .enumerate()
    {
        clocked.set_clock(now).await;
        for (index, pool) in pools.iter().enumerate() {
            let days = Days::new(pool).retain(A_DAY).ahead(1);
            let created = days.create().await.unwrap();
            let expected = if (round, index) == (0, 0) { 3 } else { 0 };
            assert_eq!(created, expected, "{now} {index}");
        }
        for days in [-1, 0, 1] {
            let id = format!("{now} {days}");
            let event = clocked.event(&id, days);
            let mut processed = 0;
            for pool in &pools {
                let outcome = event.deliver(Way::Once, pool, Body::Succeeds).await;
                processed += i32::from(outcome.unwrap().is_processed());
            }
            assert_eq!(processed, 1, "{id}");
            assert_eq!(clocked.test.effects_of(&id).await, 1, "{id}");
        }
        for pool in &pools {
            let past = clocked.event("past", -2);
            let refused = past.deliver(Way::Claim, pool, Body::Panics).await;
            assert_expired(refused, "2026-11-28", "2026-11-29");
        }
    }
    assert_eq!(
        clocked.names().await,
        ["2026-11-29", "2026-11-30", "2026-12-01"]
    );
}
