//! Cancellations, killed backends, and a pooler and a server that restart.

use std::sync::Arc;
use std::time::Duration;

use idem::Unprepared;
use idem_tests::{Broker, Proxy, Wire, cancelled_after};
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;

use crate::handlers::{bill, bill_soon};
use crate::setup::{Setup, pool};

/// Dropped at each of its points, a delivery leaves no session in a transaction, and nothing set in one.
#[tokio::test]
async fn p5_cancelled_deliveries_leave_nothing_in_a_session() {
    let setup = Setup::start().await;
    // Each answer takes a moment, so that a delivery has a point for each.
    let delay = Duration::from_millis(2);
    let url = setup.pooler.url("postgres");
    let proxy = Proxy::start(Wire::Postgres, &url, delay).await;
    let pool = pool(&proxy.url(&url), 2).await;
    let mut points = 0;
    for message in 0_i64.. {
        let delivery = bill_soon(Unprepared(&pool), message);
        let done = cancelled_after(usize::try_from(message).unwrap(), delivery).await;
        setup.assert_idle().await;
        if done.is_some() {
            points = message;
            break;
        }
        let redelivered = bill_soon(Unprepared(&pool), message).await;
        assert!(redelivered.is_ok(), "{redelivered:?}");
    }
    assert!(points >= 5, "{points}");
    setup.assert_once(points + 1).await;
    setup.assert_clean().await;
}

/// Backends are killed, the pooler is killed, the server restarts: all errors ask for redelivery, and each message is applied once.
#[tokio::test]
async fn p2_p4_killed_backends_and_restarts() {
    const MESSAGES: i64 = 900;
    let mut setup = Setup::start().await;
    let broker = Broker::new(2, 0..MESSAGES);
    let mut workers = JoinSet::new();
    for _ in 0..12 {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(Duration::from_secs(2))
            .connect_lazy(&setup.pooler.url("postgres"))
            .unwrap();
        let broker = Arc::clone(&broker);
        workers.spawn(async move {
            while let Some(message) = broker.next().await {
                let result = bill(Unprepared(&pool), message).await;
                broker.settle(message, &result);
                if result.is_err() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        });
    }
    let terminate = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    for enough in [100, 200, 300] {
        acknowledged(&broker, enough).await;
        sqlx::query(terminate).execute(&setup.direct).await.unwrap();
    }
    acknowledged(&broker, 400).await;
    setup.pooler.kill();
    setup.pooler.run();
    acknowledged(&broker, 500).await;
    setup.server.restart_immediate();
    acknowledged(&broker, 600).await;
    setup.server.kill();
    setup.server.run();
    workers.join_all().await;
    println!("{:?}", broker.count());
    assert!(broker.count().failed > 0);
    setup.assert_once(MESSAGES).await;
    setup.assert_clean().await;
}

async fn acknowledged(broker: &Broker, enough: usize) {
    let wait = async {
        while broker.acknowledged().len() < enough {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(3), wait).await;
    waited.expect("the load does not go on");
}
