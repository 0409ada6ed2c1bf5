//! Pruners on all nodes.

use std::time::Duration;

use idem::{Outcome, Pruner};
use tokio::task::JoinSet;

use crate::bill;
use crate::cluster::{same_everywhere, turn};

const WEEK: Duration = Duration::from_hours(7 * 24);

/// Old claims and young ones, while deliveries go on.
const CLAIMS: &str = "INSERT INTO processed_messages (consumer, message_id, processed_at) SELECT 'billing', CONCAT('old ', seq), NOW(6) - INTERVAL 8 DAY FROM seq_1_to_3000; \
    INSERT INTO processed_messages (consumer, message_id, processed_at) SELECT 'billing', CONCAT('young ', seq), NOW(6) - INTERVAL 6 DAY FROM seq_1_to_1000";

/// They get in each other's way, try again, and take what is past its window and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p12_pruners_on_all_nodes_take_what_is_old() {
    let cluster = turn().await;
    let pools = cluster.tables(4).await;
    sqlx::raw_sql(CLAIMS).execute(&pools[0]).await.unwrap();
    let all = same_everywhere(&pools, "SELECT COUNT(*) FROM processed_messages").await;
    assert_eq!(all, [4000]);
    let mut pruners = JoinSet::new();
    for pool in pools.clone() {
        pruners.spawn(async move {
            let pruner = Pruner::new(&pool).window("billing", WEEK).chunk(100);
            let (mut removed, mut conflicts) = (0, 0);
            loop {
                match pruner.run_once().await {
                    Ok(it) if it.claims == 0 => return (removed, conflicts),
                    Ok(it) => removed += it.claims,
                    Err(error) => {
                        assert!(idem::is_transient(&error), "{error:?}");
                        conflicts += 1;
                    }
                }
            }
        });
    }
    for message in 0..100 {
        for pool in &pools {
            while let Err(error) = bill(pool, message).await {
                assert!(idem::is_transient(&error), "{error:?}");
            }
        }
    }
    println!("removed, conflicts: {:?}", pruners.join_all().await);
    let old = "SELECT COUNT(*) FROM processed_messages WHERE message_id LIKE 'old %'";
    assert_eq!(same_everywhere(&pools, old).await, [0]);
    let kept = "SELECT COUNT(*) FROM processed_messages";
    assert_eq!(same_everywhere(&pools, kept).await, [1100]);
    assert_eq!(bill(&pools[1], 0).await.unwrap(), Outcome::Duplicate);
}
