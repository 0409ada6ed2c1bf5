//! P2: the versions of one key, shuffled, three times over and by many workers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::task::JoinSet;

use super::*;

/// What was applied, in its order: the row of the key is locked meanwhile.
async fn log(conn: &mut Conn, version: i64) -> Result<(), sqlx::Error> {
    run(
        conn,
        format!("INSERT INTO log (version) VALUES ({version})"),
    )
    .await
}

#[idempotent(key = "order", consumer = "orders", version = "version")]
async fn latest(#[tx] tx: &mut Conn, order: u8, version: i64) -> Result<(), Fail> {
    Ok(log(tx, version).await?)
}

#[idempotent(key = "order", consumer = "orders", version = "version", gapless)]
async fn in_turn(#[tx] tx: &mut Conn, order: u8, version: i64) -> Result<(), Fail> {
    Ok(log(tx, version).await?)
}

/// Delivers all of them, those that failed again after the others; what was applied in its order, and the errors.
async fn race(gapless: bool) -> (Test, Vec<i64>, Vec<Fail>) {
    const WORKERS: usize = 8;
    let test = Test::new(u32::try_from(WORKERS).unwrap()).await;
    let mut conn = test.pool.acquire().await.unwrap();
    run(&mut conn, db::LOG).await.unwrap();
    drop(conn);
    let thrice: Vec<(i64, u8)> = (1..=100)
        .flat_map(|version| (0..3).map(move |copy| (version, copy)))
        .collect();
    // Without gaps, one that comes early has to come again: those that are far apart would come again and again.
    let window = if gapless { 3 * 25 } else { thrice.len() };
    let shuffled = thrice
        .chunks(window)
        .flat_map(|some| idem_tests::shuffled(some, 7));
    let queue: VecDeque<_> = shuffled.collect();
    let queue = Arc::new(Mutex::new(queue));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let (pool, queue) = (test.pool.clone(), Arc::clone(&queue));
        workers.spawn(async move {
            let (mut processed, mut errors) = (0, Vec::new());
            loop {
                let next = queue.lock().unwrap().pop_front();
                let Some((version, copy)) = next else {
                    return (processed, errors);
                };
                let result = if gapless {
                    in_turn(&pool, 1, version).await
                } else {
                    latest(&pool, 1, version).await
                };
                match result {
                    Ok(outcome) => processed += usize::from(outcome.is_processed()),
                    Err(error) => {
                        assert!(error.is_transient(), "{error:?}");
                        errors.push(error);
                        queue.lock().unwrap().push_back((version, copy));
                    }
                }
            }
        });
    }
    let (mut processed, mut errors) = (0, Vec::new());
    while let Some(worker) = workers.join_next().await {
        let (of_worker, errors_of_worker) = worker.unwrap();
        processed += of_worker;
        errors.extend(errors_of_worker);
    }
    let applied: Vec<i64> = sqlx::query_scalar("SELECT version FROM log ORDER BY id")
        .fetch_all(&test.pool)
        .await
        .unwrap();
    assert_eq!(applied.len(), processed, "what was processed is applied");
    assert_eq!(test.claims().await, 1);
    (test, applied, errors)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_shuffled_versions_end_at_the_latest_one() {
    let (test, applied, errors) = race(false).await;
    assert!(errors.is_empty(), "{errors:?}");
    let is_rising = applied.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(is_rising, "{applied:?}");
    assert_eq!(applied.last(), Some(&100));
    assert_eq!(test.version_of("1").await, 100);
    test.assert_pool_is_clean("raced").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_shuffled_versions_without_gaps_are_all_applied_in_order() {
    let (test, applied, errors) = race(true).await;
    assert!(applied.iter().copied().eq(1..=100), "{applied:?}");
    for error in errors {
        assert!(
            matches!(error, Fail::Delivery(Error::OutOfTurn { .. })),
            "{error:?}"
        );
    }
    assert_eq!(test.version_of("1").await, 100);
    test.assert_pool_is_clean("raced").await;
}
