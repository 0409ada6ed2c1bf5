//! P2 and P9: batches that overlap, at the same time.

use std::sync::Arc;

use idem_tests::shuffled;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::batch::{TOGETHER, Together};
use super::*;

const WORKERS: usize = 4;

/// Where nothing is tried again, since the transaction is the caller's.
async fn join(pool: &Pool<Db>, together: Together, batch: &[String]) -> Result<usize, Fail> {
    let mut outer = pool.begin().await?;
    let outcome = together
        .deliver(&mut outer, batch.to_vec(), Body::Succeeds)
        .await?;
    idem::commit(outer).await?;
    Ok(outcome.fresh.len())
}

/// Delivers the messages in batches of 60, in an order of the worker's own. What fails is collected, and redelivered.
async fn work(
    pool: Pool<Db>,
    together: Together,
    joins: bool,
    messages: Vec<String>,
    barrier: Arc<Barrier>,
) -> (usize, Vec<Fail>) {
    let (mut processed, mut errors) = (0, Vec::new());
    barrier.wait().await;
    for batch in messages.chunks(60) {
        loop {
            let fresh = if joins {
                join(&pool, together, batch).await
            } else {
                let outcome = together
                    .deliver(&pool, batch.to_vec(), Body::Succeeds)
                    .await;
                outcome.map(|outcome| outcome.fresh.len())
            };
            match fresh {
                Ok(fresh) => {
                    processed += fresh;
                    break;
                }
                Err(error) => {
                    assert!(error.is_transient(), "{error:?}");
                    errors.push(error);
                }
            }
        }
    }
    (processed, errors)
}

/// Each message has its effect once, and no delivery fails: the order in which a batch claims is the same for all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_overlapping_batches_do_not_deadlock() {
    let test = Test::new(u32::try_from(WORKERS).unwrap()).await;
    for round in 0..6 {
        let together = TOGETHER[round % 2];
        // On SQLite an outer transaction that has read cannot become a writer beside others.
        let joins = round >= 3 && db::WIRE.is_some();
        let all: Vec<_> = (0..300).map(|number| format!("{round} {number}")).collect();
        let barrier = Arc::new(Barrier::new(WORKERS));
        let mut workers = JoinSet::new();
        for worker in 0..WORKERS {
            let messages = shuffled(&all, (round * WORKERS + worker) as u64);
            let barrier = Arc::clone(&barrier);
            workers.spawn(work(test.pool.clone(), together, joins, messages, barrier));
        }
        let mut processed = 0;
        while let Some(worker) = workers.join_next().await {
            let (fresh, errors) = worker.unwrap();
            assert!(errors.is_empty(), "{together:?}: {errors:?}");
            processed += fresh;
        }
        assert_eq!(processed, all.len(), "{together:?}");
        let rounds = i64::try_from((round + 1) * all.len()).unwrap();
        let effects = test.number("SELECT count(*) FROM effects").await;
        let distinct = test
            .number("SELECT count(DISTINCT message) FROM effects")
            .await;
        assert_eq!((effects, distinct), (rounds, rounds), "{together:?}");
    }
    test.assert_pool_is_clean("raced").await;
}

/// Batches, and single deliveries of the same messages in whatever order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_batches_beside_single_deliveries() {
    let test = Test::new(u32::try_from(WORKERS).unwrap()).await;
    let all: Vec<_> = (0..200).map(|number| format!("message {number}")).collect();
    let barrier = Arc::new(Barrier::new(WORKERS));
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        let (pool, barrier) = (test.pool.clone(), Arc::clone(&barrier));
        let messages = shuffled(&all, worker as u64);
        workers.spawn(async move {
            if worker % 2 == 0 {
                return work(pool, TOGETHER[worker / 2], false, messages, barrier).await;
            }
            let (mut processed, mut errors) = (0, Vec::new());
            barrier.wait().await;
            for message in messages {
                match on_connection(&pool, &message, Body::Succeeds).await {
                    Ok(outcome) => processed += usize::from(outcome.is_processed()),
                    Err(error) => errors.push(error),
                }
            }
            (processed, errors)
        });
    }
    let mut processed = 0;
    while let Some(worker) = workers.join_next().await {
        let (fresh, errors) = worker.unwrap();
        assert!(errors.is_empty(), "{errors:?}");
        processed += fresh;
    }
    assert_eq!(processed, all.len());
    for message in &all {
        assert_eq!(test.effects_of(message).await, 1, "{message}");
    }
}
