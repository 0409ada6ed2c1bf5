//! Consumers at full speed, on old and new keys, while pruners run.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use idem::{Delivery, Outcome, Pruner};
use sqlx::Pool;
use tokio::task::JoinSet;

use super::db::{self, Conn, Db};
use super::pruner::{WEEK, keys, many, table};

const DAY: f64 = 24.0 * 60.0 * 60.0;
const OLD: i32 = 3000;
const YOUNG: i32 = 300;
const NEW: usize = 400;

/// Delivers as a broker does: again after a transient error. How often there was one.
async fn deliver(pool: &Pool<Db>, message: &str, errors: &AtomicU64) -> Outcome<()> {
    loop {
        let outcome = Delivery::of("billing", message)
            .once(pool, async |tx: &mut Conn| {
                sqlx::query(db::EFFECT).bind(message).execute(tx).await?;
                Ok::<_, sqlx::Error>(())
            })
            .await;
        match outcome {
            Ok(outcome) => return outcome,
            Err(error) => {
                assert!(idem::is_transient(&error), "{error:?}");
                eprintln!("{message}: {error:?}");
                errors.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[allow(clippy::too_many_lines, reason = "one scene")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p12_consumers_and_two_pruners() {
    let (fixture, pool) = table(8).await;
    sqlx::raw_sql(db::EFFECTS).execute(&pool).await.unwrap();
    // Delivered long ago, with no effect on record, so that one effect more would be the first.
    many(&pool, "billing", "old ", 30.0 * DAY, OLD).await;
    many(&pool, "billing", "young ", 6.9 * DAY, YOUNG).await;
    let (errors, is_over) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );

    let mut pruners = JoinSet::new();
    for _ in 0..2 {
        // Each has a pool of its own, as in another process.
        let pool = fixture.pool(1).await;
        let is_over = Arc::clone(&is_over);
        pruners.spawn(async move {
            let pruner = Pruner::new(&pool)
                .window("billing", WEEK)
                .chunk(50)
                .pause(Duration::from_millis(2));
            let (mut claims, mut was_busy) = (0, false);
            while !is_over.load(Ordering::Relaxed) {
                let pruned = match pruner.run_once().await {
                    Ok(pruned) => pruned,
                    // Only where there is one writer at a time.
                    Err(error) if !db::HAS_WAITS && error.is_transient() => continue,
                    Err(error) => panic!("{error:?}"),
                };
                claims += pruned.claims;
                was_busy |= pruned.is_busy;
            }
            (claims, was_busy)
        });
    }
    let mut consumers = JoinSet::new();
    for worker in 0..4_usize {
        let (pool, errors) = (pool.clone(), Arc::clone(&errors));
        consumers.spawn(async move {
            let mut processed: HashMap<String, u64> = HashMap::new();
            for round in 0..NEW {
                // Two workers meet at each message, old ones where the pruner is.
                let number = round + (worker / 2) * NEW;
                let old = (number * 7) % usize::try_from(OLD).unwrap() + 1;
                let young = number % usize::try_from(YOUNG).unwrap() + 1;
                for message in [
                    format!("new {number}"),
                    format!("old {old}"),
                    format!("young {young}"),
                ] {
                    if deliver(&pool, &message, &errors).await.is_processed() {
                        *processed.entry(message).or_default() += 1;
                    }
                }
            }
            processed
        });
    }
    let mut processed: HashMap<String, u64> = HashMap::new();
    while let Some(worker) = consumers.join_next().await {
        for (message, times) in worker.unwrap() {
            *processed.entry(message).or_default() += times;
        }
    }
    is_over.store(true, Ordering::Relaxed);
    let pruners = pruners.join_all().await;

    let effects: Vec<String> =
        sqlx::query_scalar(if std::any::type_name::<Db>().contains("MySql") {
            "SELECT CAST(message AS CHAR) FROM effects"
        } else {
            "SELECT message FROM effects"
        })
        .fetch_all(&pool)
        .await
        .unwrap();
    let mut applied: HashMap<String, u64> = HashMap::new();
    for message in effects {
        *applied.entry(message).or_default() += 1;
    }
    assert_eq!(applied, processed, "what was reported is what was done");
    assert!(
        applied.values().all(|times| *times == 1),
        "a double effect: {applied:?}"
    );
    assert!(
        !applied.keys().any(|message| message.starts_with("young")),
        "a claim inside its window was taken"
    );
    let new = applied
        .keys()
        .filter(|message| message.starts_with("new"))
        .count();
    assert_eq!(new, 2 * NEW);
    let old = applied
        .keys()
        .filter(|message| message.starts_with("old"))
        .count();
    let taken: u64 = pruners.iter().map(|(claims, _)| claims).sum();
    assert!(taken > 0 && old > 0, "both were at work: {taken}, {old}");
    assert_eq!(
        errors.load(Ordering::Relaxed),
        0,
        "no deadlock and no lock time-out reached a consumer"
    );
    // In the end all that is old is gone, and what was processed is there.
    let last = Pruner::new(&pool)
        .window("billing", WEEK)
        .run_once()
        .await
        .unwrap();
    assert_eq!(taken + last.claims, u64::try_from(OLD).unwrap());
    assert_eq!(
        keys(&pool).await.len(),
        2 * NEW + old + usize::try_from(YOUNG).unwrap()
    );
}

/// In processes of their own, at once: each claim is removed by one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p12_pruners_in_many_processes() {
    let (fixture, pool) = table(2).await;
    many(&pool, "billing", "old ", 30.0 * DAY, 3000).await;
    many(&pool, "billing", "young ", DAY, 50).await;
    let run = || {
        tokio::process::Command::new(env!("CARGO_BIN_EXE_prune"))
            .args([&fixture.url, "billing", "604800"])
            .kill_on_drop(true)
            .output()
    };
    let (one, two, three) = tokio::join!(run(), run(), run());
    let mut total = 0;
    for output in [one, two, three] {
        let output = output.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        // SQLite's writers wait for each other, and may give up.
        assert!(output.status.success() || !db::HAS_WAITS, "{errors}");
        total += String::from_utf8_lossy(&output.stdout)
            .trim()
            .parse::<u64>()
            .unwrap_or_default();
    }
    assert!(total <= 3000);
    Pruner::new(&pool)
        .window("billing", WEEK)
        .run_once()
        .await
        .unwrap();
    assert_eq!(keys(&pool).await.len(), 50);
}
