//! P2 and P9: deliveries of one message at the same time.

use std::sync::Arc;
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;

/// Delivers until it is acknowledged, as a broker does after a transient error.
async fn until_acknowledged(form: Form, pool: &Pool<Db>, message: &str) -> Outcome<u64> {
    loop {
        match deliver(form, pool, message, Body::Succeeds).await {
            Ok(outcome) => return outcome,
            Err(error) => assert!(error.is_transient(), "{error:?}"),
        }
    }
}

/// At once, and exactly one is processed. With these connections, deliveries also queue for one.
pub(crate) async fn race(test: &Test, rounds: usize) {
    const DELIVERIES: usize = 12;
    for round in 0..rounds {
        for form in FORMS {
            let message = format!("{form:?} {round}");
            let barrier = Arc::new(Barrier::new(DELIVERIES));
            let mut deliveries = JoinSet::new();
            for _ in 0..DELIVERIES {
                let (pool, message, barrier) =
                    (test.pool.clone(), message.clone(), Arc::clone(&barrier));
                deliveries.spawn(async move {
                    barrier.wait().await;
                    until_acknowledged(form, &pool, &message).await
                });
            }
            let outcomes = deliveries.join_all().await;
            let processed = outcomes
                .iter()
                .filter(|outcome| outcome.is_processed())
                .count();
            assert_eq!(processed, 1, "{message}: {outcomes:?}");
            assert_eq!(test.effects_of(&message).await, 1, "{message}");
        }
    }
    test.assert_pool_is_clean("raced").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_many_deliveries_at_once() {
    let test = Test::new(6).await;
    race(&test, 5).await;
}

#[tokio::test]
async fn p2_many_processes_at_once() {
    let test = Test::new(2).await;
    let workers: Vec<_> = (0..3)
        .map(|_| {
            Command::new(env!("CARGO_BIN_EXE_deliver"))
                .args([&test.fixture.url, "40"])
                .args(db::arguments())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .expect("a process")
        })
        .collect();
    let mut processed = 0;
    for worker in workers {
        let output = worker.wait_with_output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        processed += printed.trim().parse::<i32>().unwrap();
    }
    assert_eq!(processed, 40);
    for number in 0..40 {
        let message = format!("message {number}");
        assert_eq!(test.effects_of(&message).await, 1, "{message}");
    }
}

/// Signals that it is in the body, and ends as it is told.
#[idempotent(key = "message", consumer = "billing")]
async fn held_open(
    #[tx] tx: &mut Conn,
    message: &str,
    in_body: Arc<Barrier>,
    verdict: tokio::sync::oneshot::Receiver<Body>,
) -> Result<u64, Fail> {
    effect(tx, message).await?;
    in_body.wait().await;
    verdict.await.expect("a verdict").end()
}

/// A delivery in its body, and the way to end it.
async fn start_holding(
    test: &Test,
    message: &'static str,
) -> (
    tokio::task::JoinHandle<Result<Outcome<u64>, Fail>>,
    tokio::sync::oneshot::Sender<Body>,
) {
    let in_body = Arc::new(Barrier::new(2));
    let (verdict, receiver) = tokio::sync::oneshot::channel();
    let (pool, barrier) = (test.pool.clone(), Arc::clone(&in_body));
    let first = tokio::spawn(async move { held_open(&pool, message, barrier, receiver).await });
    in_body.wait().await;
    (first, verdict)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p9_a_delivery_in_flight_is_waited_for_and_no_duplicate() {
    let test = Test::new(2).await;
    for (message, verdict, expected) in [
        ("fails", Body::Fails, Outcome::Processed(7)),
        ("panics", Body::Panics, Outcome::Processed(7)),
        ("succeeds", Body::Succeeds, Outcome::Duplicate),
    ] {
        let (first, end) = start_holding(&test, message).await;
        let pool = test.pool.clone();
        let mut second =
            tokio::spawn(
                async move { deliver(Form::Connection, &pool, message, Body::Succeeds).await },
            );
        let early = timeout(Duration::from_millis(300), &mut second).await;
        assert!(early.is_err(), "no verdict yet: {early:?}");
        end.send(verdict).unwrap();
        assert_eq!(
            first.await.is_ok_and(|r| r.is_ok()),
            verdict == Body::Succeeds
        );
        assert_eq!(second.await.unwrap().unwrap(), expected, "{message}");
        assert_eq!(test.effects_of(message).await, 1, "{message}");
    }
}

/// When the first rolls back, its waiters compete for the claim; on MariaDB they may deadlock, which is transient.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p9_many_waiters_when_the_first_one_fails() {
    let test = Test::new(9).await;
    for message in ["w1", "w2", "w3", "w4", "w5", "w6"] {
        let (first, end) = start_holding(&test, message).await;
        let mut waiters = JoinSet::new();
        for index in 0..8 {
            let (pool, form) = (test.pool.clone(), FORMS[index % 4]);
            waiters.spawn(async move { until_acknowledged(form, &pool, message).await });
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        end.send(Body::Fails).unwrap();
        assert!(first.await.unwrap().is_err());
        let outcomes = waiters.join_all().await;
        let processed = outcomes
            .iter()
            .filter(|outcome| outcome.is_processed())
            .count();
        assert_eq!(processed, 1, "{message}: {outcomes:?}");
        assert_eq!(test.effects_of(message).await, 1, "{message}");
    }
    test.assert_pool_is_clean("waited").await;
}
