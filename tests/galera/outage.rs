//! Nodes that die, under load.

use std::sync::Arc;
use std::time::Duration;

use idem_tests::Broker;
use sqlx::MySqlPool;
use sqlx::mysql::MySqlPoolOptions;
use tokio::task::JoinSet;

use crate::bill;
use crate::cluster::{same_everywhere, turn};
use crate::race::{Errors, kind};

/// Starts workers that deliver to one node after another, until the broker is stopped.
fn work(broker: &Arc<Broker>, pools: &[MySqlPool]) -> JoinSet<Errors> {
    let mut set = JoinSet::new();
    for worker in 0..6 {
        // A dead node is given up soon.
        let options = MySqlPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(Duration::from_millis(500));
        let servers = pools.iter().map(|pool| (*pool.connect_options()).clone());
        let pools: Vec<_> = servers
            .map(|server| options.clone().connect_lazy_with(server))
            .collect();
        let broker = Arc::clone(broker);
        set.spawn(async move {
            let (mut node, mut errors) = (worker, Errors::new());
            while let Some(message) = broker.next().await {
                node += 1;
                let result = bill(&pools[node % pools.len()], message).await;
                broker.settle(message, &result);
                if let Err(error) = result {
                    *errors.entry(kind(&error)).or_default() += 1;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            errors
        });
    }
    set
}

/// Ends the load, and prints what the deliveries came to. Returns how many messages there were.
async fn finish(broker: &Broker, workers: JoinSet<Errors>) -> i64 {
    let messages = broker.stop();
    let mut all = Errors::new();
    for (error, times) in workers.join_all().await.into_iter().flatten() {
        *all.entry(error).or_default() += times;
    }
    println!("{:?}, {all:?}", broker.count());
    messages
}

/// Waits until so many more messages are acknowledged.
async fn more(broker: &Broker, messages: usize) {
    let enough = broker.acknowledged().len() + messages;
    let wait = async {
        while broker.acknowledged().len() < enough {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(3), wait).await;
    waited.expect("the load does not go on");
}

/// Every message once, on every node.
async fn assert_once(pools: &[MySqlPool], messages: i64) {
    let rows = same_everywhere(pools, "SELECT message FROM effects ORDER BY message").await;
    assert_eq!(rows, (0..messages).collect::<Vec<_>>());
    let sum = same_everywhere(pools, "SELECT CAST(SUM(credits) AS SIGNED) FROM accounts").await;
    assert_eq!(sum, [messages]);
    let claims = same_everywhere(pools, "SELECT COUNT(*) FROM processed_messages").await;
    assert_eq!(claims, [messages]);
}

/// A node dies, the others go on, and it comes back with what it has missed: once by the missing transactions (IST), once by a copy
/// of everything (SST).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_p3_a_node_dies_and_comes_back() {
    let mut cluster = turn().await;
    let pools = cluster.tables(2).await;
    let broker = Broker::endless(1);
    let workers = work(&broker, &pools);
    for (node, wants_copy) in [(2, false), (1, true)] {
        more(&broker, 100).await;
        cluster.node(node).kill();
        if wants_copy {
            let state = cluster.node(node).directory().join("data/grastate.dat");
            std::fs::remove_file(state).unwrap();
        }
        more(&broker, 50).await;
        tokio::task::block_in_place(|| cluster.node(node).run(&[]));
        cluster.whole().await;
    }
    more(&broker, 50).await;
    let messages = finish(&broker, workers).await;
    let count = broker.count();
    assert!(count.failed > 0 && count.duplicates > 0, "{count:?}");
    assert_once(&pools, messages).await;
}

/// Two of three nodes are gone, so that the third has no quorum: it acknowledges nothing, also no duplicate, with errors that ask for
/// redelivery. It goes on when the others are back, or when an operator says that they will not be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p3_p4_without_a_quorum_nothing_is_acknowledged() {
    let mut cluster = turn().await;
    let pools = cluster.tables(2).await;
    let broker = Broker::endless(2);
    let workers = work(&broker, &pools);

    more(&broker, 100).await;
    cluster.node(1).freeze();
    cluster.node(2).freeze();
    refuses(&pools[0], &broker).await;
    cluster.node(1).thaw();
    cluster.node(2).thaw();
    cluster.whole().await;

    more(&broker, 100).await;
    cluster.node(1).kill();
    cluster.node(2).kill();
    refuses(&pools[0], &broker).await;
    sqlx::raw_sql("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'")
        .execute(&pools[0])
        .await
        .unwrap();
    more(&broker, 50).await;
    for node in [1, 2] {
        tokio::task::block_in_place(|| cluster.node(node).run(&[]));
    }
    cluster.whole().await;

    let messages = finish(&broker, workers).await;
    assert_once(&pools, messages).await;
}

/// Waits until the node is alone, and delivers to it what is new and what was acknowledged.
async fn refuses(pool: &MySqlPool, broker: &Broker) {
    let status = async || -> String {
        let sql = "SHOW STATUS LIKE 'wsrep_cluster_status'";
        let row: (String, String) = sqlx::query_as(sql).fetch_one(pool).await.unwrap();
        row.1
    };
    let alone = async {
        while status().await != "non-Primary" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(3), alone)
        .await
        .expect("the node is alone");
    let before = broker.acknowledged();
    let old = *before.first().unwrap();
    for message in [old, -1] {
        let error = bill(pool, message).await.unwrap_err();
        println!("without a quorum, message {message}: {}", kind(&error));
        assert!(idem::is_transient(&error), "{error:?}");
    }
    assert_eq!(broker.acknowledged(), before);
}
