//! The same messages on all nodes at once.

use std::collections::BTreeMap;

use idem::{Error, Outcome};
use sqlx::MySqlPool;
use sqlx::mysql::MySqlDatabaseError;
use tokio::task::JoinSet;

use crate::cluster::{same_everywhere, turn};
use crate::{Failed, bill};

const MESSAGES: i64 = 300;

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
    let mut errors = BTreeMap::new();
    let mut processed = 0;
    for message in 0..MESSAGES {
        let mut nodes = JoinSet::new();
        for pool in pools.clone() {
            nodes.spawn(async move { deliver(&pool, message).await });
        }
        let all = nodes.join_all().await;
        let first = all
            .iter()
            .filter(|(outcome, _)| outcome.is_processed())
            .count();
        assert_eq!(first, 1, "message {message}: {all:?}");
        processed += first;
        for error in all.into_iter().flat_map(|(_, errors)| errors) {
            *errors.entry(error).or_insert(0) += 1;
        }
    }
    println!("{processed} messages, {errors:?}");
    assert!(
        errors.contains_key("Commit 1213"),
        "no certification has failed: {errors:?}"
    );
    let rows = same_everywhere(&pools, "SELECT message FROM effects ORDER BY message").await;
    assert_eq!(rows, (0..MESSAGES).collect::<Vec<_>>());
    let sum = same_everywhere(&pools, "SELECT CAST(SUM(credits) AS SIGNED) FROM accounts").await;
    assert_eq!(sum, [MESSAGES]);
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
