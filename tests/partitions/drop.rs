//! P12: days are dropped when they are past the window, by the database's clock, and nobody is disturbed by it.

use idem::{Archive, PruneError, Pruner, Retain, Windows};
use tokio::time::timeout;

use super::alone::Alone;
use super::*;
use crate::contract::by_hand::WAYS;

const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn p12_a_day_is_past_the_window_when_its_last_moment_is() {
    let clocked = Clocked::with_days("2026-11-30", 3, 3, 1).await;
    let days = clocked.days(2);
    for (now, dropped, first) in [
        ("2026-11-29 23:59:59.999999+00", 0, "2026-11-27"),
        ("2026-11-30 00:00:00+00", 0, "2026-11-27"),
        ("2026-11-30 00:00:00.000001+00", 1, "2026-11-28"),
        ("2026-11-30 23:59:59+00", 0, "2026-11-28"),
        ("2026-12-03 12:00:00+00", 3, "2026-12-01"),
    ] {
        clocked.set_clock(now).await;
        assert_eq!(days.drop_expired().await.unwrap(), dropped, "{now}");
        assert_eq!(clocked.names().await[0], first, "{now}");
    }
}

#[tokio::test]
async fn p12_without_a_window_nothing_is_dropped() {
    let clocked = Clocked::with_days("2026-11-30", 3, 3, 1).await;
    clocked.set_clock("2027-01-10 12:00:00+00").await;
    for days in [
        Days::new(clocked.pool()),
        Days::new(clocked.pool()).retain(Retain::Forever),
    ] {
        assert_eq!(days.drop_expired().await.unwrap(), 0);
    }
    for windows in [
        Windows::new(),
        Windows::new().default_window(Retain::Forever),
    ] {
        let pruner = Pruner::new(clocked.pool()).windows(windows).days_ahead(0);
        assert_eq!(pruner.run_once().await.unwrap().days_dropped, 0);
    }
    assert_eq!(clocked.names().await[0], "2026-11-27");
}

/// A transaction that has used the table is waited for, by the one who drops and by nobody else.
#[tokio::test]
async fn p12_a_drop_makes_no_consumer_wait() {
    let clocked = Clocked::with_days("2026-11-30", 3, 1, 4).await;
    let of_the_day = clocked.event("of the day", -3);
    let of_today = clocked.event("of today", 0);
    for open in [&of_the_day, &of_today] {
        let Claimed::Fresh(mut claim) = open.delivery().claim(clocked.pool()).await.unwrap() else {
            panic!("it is new");
        };
        effect(&mut claim, &open.id).await.unwrap();
        clocked.next_day().await;
        let days = clocked.days(2).ahead(0);
        days.create().await.unwrap();
        let dropping = tokio::spawn(async move { days.drop_expired().await });
        clocked.until_waiting("DETACH PARTITION").await;
        let first = clocked.names().await[0].clone();
        for way in WAYS {
            let event = clocked.event(format!("{way:?} beside {}", open.id), 0);
            for expected in [Outcome::Processed(7), Outcome::Duplicate] {
                let delivery = event.deliver(way, clocked.pool(), Body::Succeeds);
                let outcome = timeout(SOON, delivery).await;
                assert_eq!(outcome.expect("no wait").unwrap(), expected, "{event:?}");
            }
            // Those of the day are refused from now on, and do not wait either.
            let past = clocked.event("past", -3);
            let refused = timeout(SOON, past.deliver(way, clocked.pool(), Body::Panics)).await;
            let refused = refused.expect("no wait").unwrap_err();
            assert!(
                matches!(refused, Fail::Delivery(Error::Expired { .. })),
                "{refused:?}"
            );
        }
        assert_eq!(clocked.names().await[0], first, "it still waits");
        claim.commit().await.unwrap();
        let dropped = if open.id == "of the day" { 2 } else { 1 };
        assert_eq!(dropping.await.unwrap().unwrap(), dropped);
        assert_eq!(
            clocked.test.effects_of(&open.id).await,
            1,
            "it was committed"
        );
    }
    let result = of_the_day
        .deliver(Way::Once, clocked.pool(), Body::Panics)
        .await;
    assert!(matches!(result, Err(Fail::Delivery(Error::Expired { .. }))));
    let again = of_today
        .deliver(Way::Once, clocked.pool(), Body::Panics)
        .await;
    assert_eq!(again.unwrap(), Outcome::Duplicate);
}

/// A delivery that still sees the day, and does not find it any more.
#[tokio::test]
async fn p4_a_day_that_is_dropped_at_this_moment_is_transient() {
    let clocked = Clocked::with_days("2026-11-30", 3, 1, 2).await;
    for way in WAYS {
        let days = match way {
            Way::Attribute => -3,
            Way::Once => -2,
            Way::Claim => -1,
        };
        let retain = u32::try_from(-days).unwrap() - 1;
        let event = clocked.event("evt-1", days);
        let mut outer = clocked.pool().begin().await.unwrap();
        let snapshot = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1";
        run(&mut outer, snapshot).await.unwrap();
        assert_eq!(clocked.days(retain).drop_expired().await.unwrap(), 1);
        let result = event.deliver(way, &mut outer, Body::Panics).await;
        let Err(Fail::Delivery(error)) = result else {
            panic!("{result:?}");
        };
        assert!(matches!(error, Error::NoPartition { .. }), "{error:?}");
        assert!(error.is_transient(), "{error}");
        effect(&mut outer, "outer").await.unwrap();
        idem::commit(outer).await.unwrap();
        let result = event.deliver(way, clocked.pool(), Body::Panics).await;
        assert!(
            matches!(result, Err(Fail::Delivery(Error::Expired { .. }))),
            "{result:?}"
        );
    }
    assert_eq!(clocked.test.effects_of("outer").await, 3);
    clocked.test.assert_pool_is_clean("dropped").await;
}

/// It gives up after ten seconds, and the next one goes on.
#[tokio::test]
async fn p12_a_drop_does_not_wait_for_ever() {
    let alone = Alone::new().await;
    let clocked = alone.clocked("2026-11-30", 2).await.with(3, 1).await;
    let event = clocked.event("open", -3);
    let Claimed::Fresh(open) = event.delivery().claim(clocked.pool()).await.unwrap() else {
        panic!("it is new");
    };
    let refused = clocked.days(1).drop_expired().await.unwrap_err();
    assert!(matches!(refused, PruneError::Database(_)), "{refused:?}");
    assert!(refused.is_transient(), "{refused:?}");
    let days = clocked.list().await;
    assert_eq!(days.len(), 5, "{days:?}");
    let result = event.deliver(Way::Once, clocked.pool(), Body::Panics).await;
    assert_expired(result, "2026-11-27", "2026-11-28");
    open.commit().await.unwrap();
    assert_eq!(clocked.days(1).drop_expired().await.unwrap(), 2);
    assert_eq!(clocked.names().await[0], "2026-11-29");
    clocked.test.assert_pool_is_clean("given up").await;
}

/// Each day is dropped once, by one of them; whoever finds another one at work leaves it the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p12_eight_drop_at_once() {
    let clocked = Clocked::with_days("2026-11-30", 20, 1, 1).await;
    for days in -20..0 {
        let event = clocked.event(format!("{days}"), days);
        let outcome = event.deliver(Way::Once, clocked.pool(), Body::Succeeds);
        assert!(outcome.await.unwrap().is_processed());
    }
    let mut dropped = Vec::new();
    while dropped.iter().sum::<u32>() < 16 {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let pool = clocked.test.fixture.pool(1).await;
            tasks.spawn(async move {
                let windows = Windows::new().default_window(4 * A_DAY);
                let pruner = Pruner::new(&pool).windows(windows);
                let done = pruner.archive(Archive::table()).run_once().await;
                done.expect("none fails").days_dropped
            });
        }
        dropped.push(tasks.join_all().await.into_iter().sum());
        assert!(dropped.len() <= 16, "{dropped:?}");
    }
    assert_eq!(dropped.iter().sum::<u32>(), 16, "{dropped:?}");
    for ids in ["message_id", "DISTINCT message_id"] {
        let archived = format!("SELECT count({ids}) FROM processed_messages_archive");
        assert_eq!(clocked.test.number(archived).await, 16);
    }
    assert_eq!(clocked.names().await[0], "2026-11-26");
}

/// A session that says how long it waits goes on saying so.
#[tokio::test]
async fn p9_the_bound_of_a_drop_is_not_left_set() {
    let clocked = Clocked::with_days("2026-11-30", 3, 1, 1).await;
    clocked.run("SET lock_timeout = '1234ms'").await;
    for retain in [2, 1] {
        clocked.days(retain).ahead(9).create().await.unwrap();
        assert_eq!(clocked.days(retain).drop_expired().await.unwrap(), 1);
        let mut conn = clocked.pool().acquire().await.unwrap();
        assert_eq!(number(&mut conn, db::OWN_WAIT).await.unwrap(), 1234);
    }
}
