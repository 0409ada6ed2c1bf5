//! P12: days are made ahead, each once, whoever makes them and whoever works meanwhile.

use std::sync::Arc;

use idem::{Pruner, Retain, Windows};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::*;

/// From the first to the last, none is missing.
async fn assert_without_gap(clocked: &Clocked, first: &str, last: &str) {
    let names = clocked.names().await;
    let days = format!(
        "SELECT count(*) FROM generate_series('{first}'::timestamp, '{last}'::timestamp, interval '1 day')"
    );
    let expected = clocked.test.number(days).await;
    assert_eq!(i64::try_from(names.len()).unwrap(), expected, "{names:?}");
    let (is_first, is_last) = (names.first(), names.last());
    assert_eq!(
        (is_first, is_last),
        (Some(&first.into()), Some(&last.into()))
    );
}

#[tokio::test]
async fn creation_is_idempotent_and_without_gap_around_midnight() {
    let clocked = Clocked::new("2028-02-27", 1).await;
    let days = clocked.days(2).ahead(1);
    for (now, created, last) in [
        ("2028-02-27 00:00:00+00", 4, "2028-02-28"),
        ("2028-02-27 23:59:59.999999+00", 0, "2028-02-28"),
        ("2028-02-28 00:00:00+00", 1, "2028-02-29"),
        // A clock that was set back, and one that goes on.
        ("2028-02-27 23:59:59.999999+00", 0, "2028-02-29"),
        ("2028-02-28 23:59:59+00", 0, "2028-02-29"),
        ("2028-02-29 00:00:01+00", 1, "2028-03-01"),
        // Nobody has made any for days, or for months.
        ("2028-03-05 12:00:00+00", 5, "2028-03-06"),
        ("2028-05-05 23:59:59+00", 61, "2028-05-06"),
        ("2028-05-06 00:00:00+00", 1, "2028-05-07"),
    ] {
        clocked.set_clock(now).await;
        assert_eq!(days.create().await.unwrap(), created, "{now}");
        assert_eq!(days.create().await.unwrap(), 0, "{now}");
        assert_without_gap(&clocked, "2028-02-25", last).await;
    }
    assert!(clocked.list().await.iter().all(|day| day.is_attached));
    // More days ahead.
    assert_eq!(days.ahead(10).create().await.unwrap(), 9);
}

/// A claim that was dropped with its day would be new again.
#[tokio::test]
async fn p12_a_dropped_day_is_never_made_again() {
    let clocked = Clocked::with_days("2026-11-30", 5, 1, 1).await;
    let old = clocked.event("old", -5);
    assert!(
        old.deliver(Way::Once, clocked.pool(), Body::Succeeds)
            .await
            .unwrap()
            .is_processed()
    );
    assert_eq!(clocked.days(2).drop_expired().await.unwrap(), 3);
    for retain in [Retain::For(30 * A_DAY), Retain::Forever] {
        let days = Days::new(clocked.pool()).retain(retain).ahead(1);
        assert_eq!(days.create().await.unwrap(), 0, "{retain}");
        let windows = Windows::new().default_window(retain);
        let pruner = Pruner::new(clocked.pool()).windows(windows).days_ahead(1);
        assert_eq!(pruner.run_once().await.unwrap().days_created, 0, "{retain}");
        let result = old.deliver(Way::Once, clocked.pool(), Body::Panics).await;
        assert_expired(result, "2026-11-25", "2026-11-28");
    }
    assert_without_gap(&clocked, "2026-11-28", "2026-12-01").await;
}

/// After months without a pruner, whichever of the two comes first.
#[tokio::test]
async fn p12_nor_when_all_days_have_passed() {
    let clocked = Clocked::with_days("2026-11-30", 2, 2, 1).await;
    let event = clocked.event("evt-1", 0);
    assert!(
        event
            .deliver(Way::Once, clocked.pool(), Body::Succeeds)
            .await
            .unwrap()
            .is_processed()
    );
    clocked.set_clock("2027-01-15 12:00:00+00").await;
    clocked.days(2).drop_expired().await.unwrap();
    clocked.days(1000).ahead(1).create().await.unwrap();
    let again = event.deliver(Way::Once, clocked.pool(), Body::Panics).await;
    assert!(
        matches!(
            again,
            Ok(Outcome::Duplicate) | Err(Fail::Delivery(Error::Expired { .. }))
        ),
        "{again:?}"
    );
}

/// The days and the table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_at_once_create_each_day_once() {
    for round in 0..5 {
        let clocked = Clocked::new("2026-11-30", 1).await;
        for (ahead, expected) in [(3, 7), (20, 17)] {
            let barrier = Arc::new(Barrier::new(8));
            let mut tasks = JoinSet::new();
            for index in 0..8 {
                // A pool each, as processes have.
                let pool = clocked.test.fixture.pool(1).await;
                let barrier = Arc::clone(&barrier);
                tasks.spawn(async move {
                    barrier.wait().await;
                    if index % 4 == 3 && ahead > 3 {
                        let windows = Windows::new().default_window(3 * A_DAY);
                        let pruner = Pruner::new(&pool).windows(windows).days_ahead(ahead);
                        return pruner
                            .run_once()
                            .await
                            .expect("no pruner fails")
                            .days_created;
                    }
                    let days = Days::new(&pool).retain(3 * A_DAY).ahead(ahead);
                    days.create().await.expect("none fails")
                });
            }
            let created: u32 = tasks.join_all().await.into_iter().sum();
            assert_eq!(created, expected, "round {round}");
        }
        assert_without_gap(&clocked, "2026-11-27", "2026-12-20").await;
    }
}

/// Neither waits for the other.
#[tokio::test]
async fn p10_creation_beside_an_open_claim() {
    let clocked = Clocked::with_days("2026-11-30", 1, 0, 3).await;
    let event = clocked.event("open", 0);
    let Claimed::Fresh(mut open) = event.delivery().claim(clocked.pool()).await.unwrap() else {
        panic!("it is new");
    };
    effect(&mut open, "open").await.unwrap();
    // What is created stays locked until its transaction ends: here that is held open, after the same statements.
    let mut creating = clocked.pool().begin().await.unwrap();
    run(
        &mut creating,
        "SET LOCAL lock_timeout = '5s'; SELECT pg_advisory_xact_lock(7236837105318); \
         CREATE TABLE processed_messages_2026_12_01 (LIKE processed_messages_by_day INCLUDING ALL); \
         ALTER TABLE processed_messages_by_day ATTACH PARTITION processed_messages_2026_12_01 \
           FOR VALUES FROM ('2026-12-01') TO ('2026-12-02')",
    )
    .await
    .expect("it does not wait for the claim");
    for way in crate::contract::by_hand::WAYS {
        let event = clocked.event(format!("{way:?}"), -1);
        let delivery = event.deliver(way, clocked.pool(), Body::Succeeds);
        let outcome = tokio::time::timeout(Duration::from_secs(5), delivery).await;
        assert!(outcome.expect("no wait for it").unwrap().is_processed());
    }
    creating.commit().await.unwrap();
    let days = clocked.days(1).ahead(5);
    let created = tokio::time::timeout(Duration::from_secs(5), days.create()).await;
    assert_eq!(created.expect("no wait for the claim").unwrap(), 4);
    open.commit().await.unwrap();
    assert_eq!(clocked.test.effects_of("open").await, 1);
    let ahead = clocked.event("ahead", 5);
    let outcome = ahead
        .deliver(Way::Once, clocked.pool(), Body::Succeeds)
        .await;
    assert!(outcome.unwrap().is_processed());
}

/// It leaves no transaction behind, and no days half made.
#[tokio::test]
async fn p5_a_creation_that_is_cancelled_anywhere() {
    for is_new in [true, false] {
        let mut polls = 0;
        loop {
            let clocked = Clocked::new("2026-11-30", 1).await;
            if !is_new {
                clocked.days(1).ahead(0).create().await.unwrap();
            }
            let url = &clocked.test.fixture.url;
            let proxy =
                idem_tests::Proxy::start(db::WIRE.unwrap(), url, Duration::from_millis(1)).await;
            let slow = clocked
                .test
                .fixture
                .options(1)
                .connect(&proxy.url(url))
                .await
                .unwrap();
            let days = Days::new(&slow).retain(A_DAY).ahead(3);
            let done = idem_tests::cancelled_after(polls, days.create()).await;
            let days = Days::new(clocked.pool()).retain(A_DAY).ahead(3);
            days.create().await.unwrap();
            assert_without_gap(&clocked, "2026-11-29", "2026-12-03").await;
            // The pool of one is usable.
            assert_eq!(Days::new(&slow).list().await.unwrap().len(), 5);
            if done.is_some() {
                break;
            }
            polls += 1;
        }
        assert!(polls > 6, "cancelled at {polls} places only");
    }
}

/// `migrate` makes the first days, in a transaction.
#[tokio::test]
async fn p5_a_migration_that_is_cancelled_anywhere() {
    let mut polls = 0;
    loop {
        let mut test = Clocked::new("2026-11-30", 1).await.test;
        let url = test.fixture.url.clone();
        let wire = db::WIRE.unwrap();
        let proxy = idem_tests::Proxy::start(wire, &url, Duration::from_millis(1)).await;
        let options = test.fixture.options(1);
        test.pool = options.connect(&proxy.url(&url)).await.unwrap();
        let done = idem_tests::cancelled_after(polls, idem::migrate(&test.pool)).await;
        test.assert_pool_is_clean(&format!("{polls}")).await;
        idem::migrate(&test.pool).await.unwrap();
        let days = Days::new(&test.pool).list().await.unwrap();
        assert!(days.len() > 7, "{polls}: {days:?}");
        if done.is_some() {
            break;
        }
        // The days follow, one like the other.
        polls += if polls < 20 { 1 } else { 40 };
    }
    assert!(polls > 6, "cancelled at {polls} places only");
}

/// What was in it is not known any more, so that it is as if it had been dropped for its age.
#[tokio::test]
async fn p12_a_day_that_somebody_has_dropped_is_not_made_again() {
    let clocked = Clocked::with_days("2026-11-30", 3, 1, 1).await;
    let event = clocked.event("evt-1", -1);
    let first = event.deliver(Way::Once, clocked.pool(), Body::Succeeds);
    assert!(first.await.unwrap().is_processed());
    clocked
        .run("DROP TABLE processed_messages_2026_11_29")
        .await;
    assert_eq!(clocked.days(3).ahead(2).create().await.unwrap(), 1);
    let again = event.deliver(Way::Once, clocked.pool(), Body::Panics).await;
    let Err(Fail::Delivery(error)) = again else {
        panic!("{again:?}");
    };
    assert!(matches!(error, Error::Expired { .. }), "{error:?}");
    assert!(!error.is_transient());
    assert_eq!(clocked.test.effects_of("evt-1").await, 1);
}
