//! The primary dies under load, again and again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use idem_tests::Broker;
use idem_tests::own::Settings;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;

use crate::bill;
use crate::cluster::{Cluster, pool, until};
use crate::line::Line;
use crate::waiting::CAUGHT_UP;

const MESSAGES: i64 = 400;
const ROUNDS: i64 = 5;

/// A port on which nothing listens.
const NOBODY: u16 = 1;

/// What the standby hears comes late, so that it lacks the last commits whenever the primary does not wait for it.
const LAG: Duration = Duration::from_millis(20);

/// With a synchronous standby nothing that was acknowledged is lost, and nothing is applied twice, whenever the primary dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn p2_p3_nothing_is_lost_or_doubled_when_the_primary_dies() {
    let mut cluster = Cluster::start().await;
    let line = Line::to_server(cluster.primary.port(), Duration::ZERO).await;
    let url = format!(
        "postgres://postgres@{}/postgres?sslmode=disable",
        line.address
    );
    let mut found = 0;
    for round in 0..ROUNDS {
        let level = if round % 2 == 0 { "on" } else { "remote_apply" };
        let replication = Line::to_server(cluster.primary.port(), LAG).await;
        cluster.replicate_through(replication.address.port()).await;
        cluster.make_synchronous(level).await;
        let seed = u64::try_from(round).unwrap();
        let broker = Broker::new(seed, round * MESSAGES..(round + 1) * MESSAGES);
        let workers = work(&broker, 8, &url);
        // Each round at another moment.
        let enough = 60 + 40 * usize::try_from(round).unwrap();
        while broker.acknowledged().len() < enough {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if round % 2 == 1 {
            // What is on its way to COMMIT gets there, and to the standby, without its worker.
            line.lead_to(NOBODY);
            let monitor = pool(&cluster.primary.url("postgres"), 1).await;
            until("the standby has caught up", &monitor, CAUGHT_UP).await;
        }
        replication.cut();
        cluster.primary.kill();
        let acknowledged = broker.acknowledged();
        assert!(
            acknowledged.len() < usize::try_from(MESSAGES).unwrap(),
            "the load was over too early"
        );
        cluster.standby.promote();
        let pool = pool(&cluster.standby.url("postgres"), 1).await;
        // Now, since the redelivery of a message that was lost would apply it again.
        let there = effects(&pool).await;
        let lost: Vec<_> = acknowledged
            .iter()
            .filter(|it| !there.contains(it))
            .collect();
        assert!(
            lost.is_empty(),
            "round {round}: acknowledged and lost: {lost:?}"
        );
        line.lead_to(cluster.standby.port());
        workers.join_all().await;

        let count = broker.count();
        println!(
            "round {round}, {level}: {} acknowledged before, {count:?}",
            acknowledged.len()
        );
        assert!(count.failed > 0 && count.duplicates > 0, "{count:?}");
        found += MESSAGES - i64::try_from(count.processed).unwrap();
        assert_eq!(
            broker.acknowledged().len(),
            usize::try_from(MESSAGES).unwrap()
        );
        assert_eq!(
            twice(&pool).await,
            [0; 0],
            "applied twice, in round {round}"
        );
        let total = (round + 1) * MESSAGES;
        let sums =
            "SELECT (SELECT count(*) FROM effects), (SELECT sum(credits)::bigint FROM accounts)";
        let sums: (i64, i64) = sqlx::query_as(sums).fetch_one(&pool).await.unwrap();
        assert_eq!(sums, (total, total), "round {round}");

        if round + 1 < ROUNDS {
            let primary = cluster.standby;
            let standby = primary.standby("standby", &Settings::default());
            cluster = Cluster { primary, standby };
        } else {
            break;
        }
    }
    assert!(
        found > 0,
        "no COMMIT whose answer was lost turned out to be there"
    );
}

/// Starts workers, each with a pool of its own, that work until nothing is left.
fn work(broker: &Arc<Broker>, workers: usize, url: &str) -> JoinSet<()> {
    let mut set = JoinSet::new();
    for _ in 0..workers {
        let pool = PgPoolOptions::new()
            .max_connections(2)
            .acquire_timeout(Duration::from_secs(2))
            .connect_lazy(url)
            .unwrap();
        let broker = Arc::clone(broker);
        set.spawn(async move {
            while let Some(message) = broker.next().await {
                let result = bill(&pool, message).await;
                broker.settle(message, &result);
                if result.is_err() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        });
    }
    set
}

async fn effects(pool: &PgPool) -> BTreeSet<i64> {
    let messages = sqlx::query_scalar("SELECT message FROM effects").fetch_all(pool);
    messages.await.unwrap().into_iter().collect()
}

async fn twice(pool: &PgPool) -> Vec<i64> {
    let sql = "SELECT message FROM effects GROUP BY message HAVING count(*) > 1";
    sqlx::query_scalar(sql).fetch_all(pool).await.unwrap()
}
