//! The arguments of the attribute, with the deliveries of one message on all nodes at once.

use idem::{BatchOutcome, Outcome, idempotent};
use sqlx::{MySqlConnection, MySqlPool};
use tokio::task::JoinSet;

use crate::Failed;
use crate::cluster::{same_everywhere, turn};
use crate::race::kind;

async fn record(tx: &mut MySqlConnection, message: i64) -> Result<(), Failed> {
    sqlx::query("INSERT INTO effects (message) VALUES (?)")
        .bind(message)
        .execute(tx)
        .await?;
    Ok(())
}

#[idempotent(key = "message", business_key = "order", consumer = "charges")]
async fn charge(tx: &mut MySqlConnection, message: i64, order: i64) -> Result<(), Failed> {
    let _ = message;
    record(tx, order).await
}

/// Three messages that ask for one action, each on another node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_one_action_for_three_messages() {
    const ORDERS: i64 = 60;
    let cluster = turn().await;
    let pools = cluster.tables(4).await;
    for order in 0..ORDERS {
        let outcomes = everywhere(&pools, move |pool, node| async move {
            charge(&pool, 3 * order + node, order).await
        });
        let processed = outcomes.await.iter().filter(|it| it.is_processed()).count();
        assert_eq!(processed, 1, "order {order}");
    }
    let orders = same_everywhere(&pools, "SELECT message FROM effects ORDER BY message").await;
    assert_eq!(orders, (0..ORDERS).collect::<Vec<_>>());
    // The id of each message, and the order's.
    let claims = same_everywhere(&pools, "SELECT COUNT(*) FROM processed_messages").await;
    assert_eq!(claims, [4 * ORDERS]);
}

#[idempotent(key = "message", consumer = "receipts", replay)]
async fn receipt(tx: &mut MySqlConnection, message: i64, number: i64) -> Result<i64, Failed> {
    record(tx, number).await?;
    Ok(number)
}

/// Every node answers with the value that was committed on one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_every_node_replays_the_committed_value() {
    let cluster = turn().await;
    let pools = cluster.tables(4).await;
    let mut values = Vec::new();
    for message in 0..60 {
        let outcomes = everywhere(&pools, move |pool, node| async move {
            receipt(&pool, message, 3 * message + node).await
        });
        let outcomes = outcomes.await;
        let processed: Vec<i64> = outcomes
            .iter()
            .filter_map(|it| match it {
                Outcome::Processed(value) => Some(*value),
                _ => None,
            })
            .collect();
        assert_eq!(processed.len(), 1, "{outcomes:?}");
        for outcome in outcomes {
            let value = match outcome {
                Outcome::Processed(value) | Outcome::Replayed(value) => value,
                other => panic!("{other:?}"),
            };
            assert_eq!(value, processed[0], "message {message}");
        }
        values.extend(processed);
    }
    let rows = same_everywhere(&pools, "SELECT message FROM effects ORDER BY message").await;
    assert_eq!(rows, values);
}

#[idempotent(key = "order", version = "version", consumer = "projection")]
async fn project(tx: &mut MySqlConnection, order: i64, version: i64) -> Result<(), Failed> {
    step(tx, order, version).await
}

#[idempotent(key = "order", version = "version", gapless, consumer = "in-turn")]
async fn in_turn(tx: &mut MySqlConnection, order: i64, version: i64) -> Result<(), Failed> {
    step(tx, order, version).await
}

/// Writes down which version this one came after.
async fn step(tx: &mut MySqlConnection, order: i64, version: i64) -> Result<(), Failed> {
    sqlx::query("INSERT INTO steps SELECT id, version, ? FROM projections WHERE id = ?")
        .bind(version)
        .bind(order)
        .execute(&mut *tx)
        .await?;
    sqlx::query("UPDATE projections SET version = ? WHERE id = ?")
        .bind(version)
        .bind(order)
        .execute(tx)
        .await?;
    Ok(())
}

const PROJECTIONS: &str = "CREATE TABLE projections (id bigint PRIMARY KEY, version bigint NOT NULL); \
    INSERT INTO projections VALUES (0, 0), (1, 0), (2, 0), (3, 0); \
    CREATE TABLE steps (id bigint NOT NULL, earlier bigint NOT NULL, version bigint NOT NULL, PRIMARY KEY (id, version))";

/// Versions that arrive in any order, each on all nodes at once: only newer ones are applied, and the newest is the last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_versions_only_go_up() {
    const VERSIONS: i64 = 20;
    let cluster = turn().await;
    let pools = cluster.tables(4).await;
    sqlx::raw_sql(PROJECTIONS).execute(&pools[0]).await.unwrap();
    let versions: Vec<i64> = (1..=VERSIONS).collect();
    let mut orders = JoinSet::new();
    for order in 0..4_i64 {
        let pools = pools.clone();
        let versions = idem_tests::shuffled(&versions, order.unsigned_abs());
        orders.spawn(async move {
            // Three at a time, so that also different versions meet.
            for some in versions.chunks(3) {
                let some = some.to_vec();
                everywhere(&pools, move |pool, node| {
                    let version = some[usize::try_from(node).unwrap() % some.len()];
                    async move {
                        if order < 2 {
                            return project(&pool, order, version).await;
                        }
                        // Without gaps, the next one that this node knows of.
                        let next = sqlx::query_scalar::<_, i64>(
                            "SELECT version + 1 FROM projections WHERE id = ?",
                        );
                        let next = next.bind(order).fetch_one(&pool).await?;
                        in_turn(&pool, order, next).await
                    }
                })
                .await;
            }
        });
    }
    orders.join_all().await;
    let newest = same_everywhere(&pools, "SELECT version FROM projections WHERE id < 2").await;
    assert_eq!(newest, [VERSIONS, VERSIONS]);
    let wrong =
        "SELECT COUNT(*) FROM steps WHERE earlier >= version OR id >= 2 AND earlier + 1 <> version";
    assert_eq!(same_everywhere(&pools, wrong).await, [0]);
    // No two after the same one, which a lost update would show.
    let forks = "SELECT COUNT(*) - COUNT(DISTINCT id, earlier) FROM steps";
    assert_eq!(same_everywhere(&pools, forks).await, [0]);
    let claimed = "SELECT MIN(claim.version = projections.version) FROM projections JOIN processed_messages claim ON message_id = id";
    assert_eq!(same_everywhere(&pools, claimed).await, [1]);
}

#[idempotent(key = "message", consumer = "batches", each = "message in messages")]
async fn all(tx: &mut MySqlConnection, messages: Vec<i64>) -> Result<(), Failed> {
    for message in messages {
        record(tx, message).await?;
    }
    Ok(())
}

/// Batches that overlap, on all nodes at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_batches_that_overlap() {
    let cluster = turn().await;
    let pools = cluster.tables(4).await;
    for start in 0..30_i64 {
        everywhere(&pools, move |pool, node| async move {
            let first = 10 * start + 3 * node;
            let batch: Vec<i64> = (first..first + 10).collect();
            let batch = idem_tests::shuffled(&batch, node.unsigned_abs());
            let outcome: BatchOutcome<()> = all(&pool, batch).await?;
            Ok(Outcome::Processed(outcome))
        })
        .await;
    }
    let rows = same_everywhere(&pools, "SELECT message FROM effects ORDER BY message").await;
    assert_eq!(rows, (0..306).collect::<Vec<_>>());
}

#[idempotent(key = "message", consumer = "retried", retries = 10)]
async fn retried(tx: &mut MySqlConnection, message: i64) -> Result<(), Failed> {
    record(tx, message).await
}

/// With `retries`, a failed certification is run again at once, and the broker does not see it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_retries_hide_failed_certifications() {
    let cluster = turn().await;
    let pools = cluster.tables(4).await;
    for message in 0..60 {
        let mut nodes = JoinSet::new();
        for pool in pools.clone() {
            nodes.spawn(async move {
                loop {
                    match retried(&pool, message).await {
                        Ok(outcome) => return outcome,
                        // A node that loses sight of the others is another matter.
                        Err(error) => assert!(
                            idem::is_transient(&error) && !kind(&error).ends_with("1213"),
                            "{error:?}"
                        ),
                    }
                }
            });
        }
        let outcomes = nodes.join_all().await;
        let processed = outcomes.iter().filter(|it| it.is_processed()).count();
        assert_eq!(processed, 1, "message {message}");
    }
    let rows = same_everywhere(&pools, "SELECT message FROM effects ORDER BY message").await;
    assert_eq!(rows, (0..60).collect::<Vec<_>>());
}

/// Delivers through each node at once, each until it says `Ok`.
async fn everywhere<T: Send + 'static, F, Fut>(pools: &[MySqlPool], deliver: F) -> Vec<Outcome<T>>
where
    F: Fn(MySqlPool, i64) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<Outcome<T>, Failed>> + Send,
{
    let mut nodes = JoinSet::new();
    for (node, pool) in (0..).zip(pools) {
        let (pool, deliver) = (pool.clone(), deliver.clone());
        nodes.spawn(async move {
            loop {
                match deliver(pool.clone(), node).await {
                    Ok(outcome) => return outcome,
                    Err(error) => assert!(idem::is_transient(&error), "{error:?}"),
                }
            }
        });
    }
    nodes.join_all().await
}
