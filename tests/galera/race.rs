//! The same messages on all nodes at once.

use std::collections::BTreeMap;

use idem::{Error, Outcome};
use sqlx::MySqlPool;
use sqlx::mysql::MySqlDatabaseError;
use tokio::task::JoinSet;

use crate::cluster::{same_everywhere, turn};
use crate::{Failed, bill};

const MESSAGES: i64 = 400;

/// Each message is delivered to all three nodes at once, and again until each has said `Ok`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_the_same_messages_on_all_nodes_at_once() {
    let cluster = turn().await;
    let pools = cluster.pools(4).await;
    // Also the table: by all nodes at once.
    let mut migrations = JoinSet::new();
    for pool in pools.clone() {
        migrations.spawn(async move { idem::migrate(&pool).await });
    }
    for result in migrations.join_all().await {
        result.unwrap();
    }
    let mut errors = Errors::new();
    for message in 0..MESSAGES {
        let outcomes = at_once(&pools, [message; 3], &mut errors).await;
        let processed = outcomes.iter().filter(|it| it.is_processed()).count();
        assert_eq!(processed, 1, "message {message}: {outcomes:?}");
    }
    println!("{errors:?}");
    assert!(
        errors.contains_key("Commit 1213"),
        "no certification has failed: {errors:?}"
    );
    let rows = same_everywhere(&pools, "SELECT message FROM effects ORDER BY message").await;
    assert_eq!(rows, (0..MESSAGES).collect::<Vec<_>>());
    let sum = same_everywhere(&pools, "SELECT CAST(SUM(credits) AS SIGNED) FROM accounts").await;
    assert_eq!(sum, [MESSAGES]);
}

/// Different messages that change the same row, through all nodes at once: each is aborted by others at any point up to its COMMIT, and
/// where it said `Ok`, it is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p3_ok_means_committed_wherever_another_node_aborts() {
    let cluster = turn().await;
    let pools = cluster.tables(4).await;
    let messages: Vec<i64> = (0..3 * MESSAGES).map(|number| 10 * number).collect();
    let mut errors = Errors::new();
    for three in messages.as_chunks().0 {
        let outcomes = at_once(&pools, *three, &mut errors).await;
        assert_eq!(outcomes, [Outcome::Processed(()); 3]);
    }
    println!("{errors:?}");
    assert!(
        errors.contains_key("Commit 1213"),
        "no certification has failed: {errors:?}"
    );
    let rows = same_everywhere(&pools, "SELECT message FROM effects ORDER BY message").await;
    let lost: Vec<_> = messages.iter().filter(|it| !rows.contains(it)).collect();
    assert!(lost.is_empty(), "acknowledged, and lost: {lost:?}");
    assert_eq!(rows, messages);
    let sum = same_everywhere(&pools, "SELECT credits FROM accounts WHERE id = 0").await;
    assert_eq!(sum, [3 * MESSAGES]);
}

/// How often which error was met.
pub(crate) type Errors = BTreeMap<String, usize>;

/// Delivers one message through each node, each until it is acknowledged.
async fn at_once(pools: &[MySqlPool], messages: [i64; 3], errors: &mut Errors) -> Vec<Outcome<()>> {
    let mut nodes = JoinSet::new();
    for (pool, message) in pools.iter().zip(messages) {
        let pool = pool.clone();
        nodes.spawn(async move { deliver(&pool, message).await });
    }
    let mut outcomes = Vec::new();
    for (outcome, met) in nodes.join_all().await {
        outcomes.push(outcome);
        for error in met {
            *errors.entry(error).or_default() += 1;
        }
    }
    outcomes
}

/// Until it is acknowledged. The errors on the way have to be transient.
pub(crate) async fn deliver(pool: &MySqlPool, message: i64) -> (Outcome<()>, Vec<String>) {
    let mut errors = Vec::new();
    loop {
        match bill(pool, message).await {
            Ok(outcome) => return (outcome, errors),
            Err(error) => {
                assert!(idem::is_transient(&error), "{error:?}");
                errors.push(kind(&error));
            }
        }
    }
}

/// Where it failed, and the database's number.
pub(crate) fn kind(error: &Failed) -> String {
    match error {
        Failed::Delivery(Error::Database { step, source }) => {
            format!("{step:?} {}", number(source))
        }
        Failed::Delivery(Error::CommitUnknown(source)) => {
            format!("CommitUnknown {}", number(source))
        }
        Failed::Delivery(error) => format!("{error:?}"),
        Failed::Database(error) => format!("Body {}", number(error)),
    }
}

fn number(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(error) => error
            .downcast_ref::<MySqlDatabaseError>()
            .number()
            .to_string(),
        sqlx::Error::Io(error) => format!("{:?}", error.kind()),
        other => format!("{other:?}"),
    }
}
