//! P12, P2: days are made and dropped while consumers work at full speed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::task::JoinSet;

use super::*;
use crate::contract::by_hand::WAYS;

/// Days behind the first one.
const BEHIND: i64 = 8;

/// What a worker delivers: new messages of all days, and again those of before.
fn event(clocked: &Clocked, worker: u64, round: u64) -> Event {
    // Of ten, three were delivered before, by this worker or another one.
    let number = if round % 10 < 3 { round / 2 } else { round };
    let days = -i64::try_from((worker + number) % 9).unwrap();
    clocked.event(format!("{days} {number}"), days)
}

/// Delivers until it is told to stop; what was refused is of these days.
async fn work(
    clocked: Arc<Clocked>,
    worker: u64,
    stop: Arc<AtomicBool>,
    delivered: Arc<AtomicU64>,
) -> Vec<(SystemTime, Fail)> {
    // Two of them see a snapshot of the days that there are.
    let level = ["READ COMMITTED", "REPEATABLE READ"][usize::from(worker % 2 == 1)];
    let options = clocked
        .test
        .fixture
        .options(1)
        .after_connect(move |conn, _| {
            let set = format!("{} {level}", db::SET_ISOLATION);
            Box::pin(async move { run(conn, set).await })
        });
    let pool = options.connect(&clocked.test.fixture.url).await.unwrap();
    let mut refused = Vec::new();
    let mut round = 0;
    while !stop.load(Ordering::SeqCst) {
        round += 1;
        let event = event(&clocked, worker, round);
        let way = WAYS[usize::try_from(round % 3).unwrap()];
        match event.deliver(way, &pool, Body::Succeeds).await {
            Ok(_) => _ = delivered.fetch_add(1, Ordering::SeqCst),
            Err(error) => refused.push((event.time, error)),
        }
    }
    refused
}

/// Keeps one transaction after another open for a second, with deliveries in it.
async fn hold(clocked: Arc<Clocked>, stop: Arc<AtomicBool>) -> Vec<(SystemTime, Fail)> {
    let pool = clocked.test.fixture.pool(1).await;
    let mut refused = Vec::new();
    let mut round = 0;
    while !stop.load(Ordering::SeqCst) {
        round += 1;
        let mut outer = pool.begin().await.unwrap();
        for days in [-BEHIND, -BEHIND + round, -1, 0] {
            let event = clocked.event(format!("held {round} {days}"), days.min(0));
            match event.deliver(Way::Once, &mut outer, Body::Succeeds).await {
                Ok(_) => {}
                Err(error) => refused.push((event.time, error)),
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        idem::commit(outer).await.unwrap();
    }
    refused
}

/// How often a delivery was seen to wait for a whole half second for a table.
async fn watch(clocked: Arc<Clocked>, stop: Arc<AtomicBool>) -> i64 {
    let name = clocked.test.fixture.name().to_owned();
    let mut seen = 0;
    while !stop.load(Ordering::SeqCst) {
        let waiting = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}' AND wait_event_type = 'Lock' \
             AND wait_event = 'relation' AND query LIKE '%INSERT INTO processed_messages_by_day%' \
             AND clock_timestamp() - query_start > interval '500 ms'"
        );
        seen += clocked.test.number(waiting).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p12_days_are_made_and_dropped_under_load() {
    let behind = u32::try_from(BEHIND).unwrap();
    let clocked = Arc::new(Clocked::with_days("2026-11-30", behind, 0, 2).await);
    let stop = Arc::new(AtomicBool::new(false));
    let delivered = Arc::new(AtomicU64::new(0));
    let mut consumers = JoinSet::new();
    for worker in 0..4 {
        let (clocked, stop, delivered) = (
            Arc::clone(&clocked),
            Arc::clone(&stop),
            Arc::clone(&delivered),
        );
        consumers.spawn(work(clocked, worker, stop, delivered));
    }
    consumers.spawn(hold(Arc::clone(&clocked), Arc::clone(&stop)));
    let watcher = tokio::spawn(watch(Arc::clone(&clocked), Arc::clone(&stop)));
    let mut first = None;
    for keep in (2..behind).rev() {
        let before = delivered.load(Ordering::SeqCst);
        let ahead = u16::try_from(behind - keep).unwrap();
        assert_eq!(clocked.days(keep).ahead(ahead).create().await.unwrap(), 1);
        assert_eq!(
            clocked.days(keep).drop_expired().await.unwrap(),
            1,
            "{keep}"
        );
        first = clocked.list().await.first().map(|day| day.day);
        // The consumers have gone on.
        while delivered.load(Ordering::SeqCst) < before + 20 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    stop.store(true, Ordering::SeqCst);
    let refused: Vec<_> = consumers.join_all().await.into_iter().flatten().collect();
    let first = first.unwrap();
    assert_eq!(first.to_string(), "2026-11-28");
    for (time, error) in &refused {
        let is_refused = matches!(
            error,
            Fail::Delivery(Error::Expired { .. } | Error::NoPartition { .. })
        );
        assert!(is_refused, "{error:?}");
        let day = idem::Time::day(time).unwrap();
        assert!(day < first, "{day} was not dropped: {error:?}");
    }
    assert!(refused.len() > 20, "{}", refused.len());
    let twice = "SELECT count(*) FROM (SELECT message FROM effects GROUP BY message HAVING count(*) > 1) AS twice";
    assert_eq!(clocked.test.number(twice).await, 0);
    let without_claim = "SELECT count(*) FROM effects LEFT JOIN processed_messages_by_day ON message_id = message \
        WHERE message_id IS NULL AND (message LIKE '0 %' OR message LIKE '-1 %')";
    assert_eq!(clocked.test.number(without_claim).await, 0);
    assert_eq!(watcher.await.unwrap(), 0, "deliveries waited for a drop");
}
