//! The standby does not answer, so that COMMIT waits for it.

use std::time::Duration;

use idem::{Error, Outcome};
use sqlx::PgPool;
use tokio::task::JoinHandle;

use crate::cluster::{Cluster, applied, pool, until};
use crate::{Failed, bill};

type Delivery = JoinHandle<Result<Outcome<()>, Failed>>;

const WAITING: &str = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')";
pub(crate) const CAUGHT_UP: &str =
    "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn())";

/// Starts a delivery, and returns when its COMMIT waits for the standby.
pub(crate) async fn stuck(pool: &PgPool, monitor: &PgPool, message: i64) -> Delivery {
    let pool = pool.clone();
    let delivery = tokio::spawn(async move { bill(&pool, message).await });
    until("a COMMIT waits for the standby", monitor, WAITING).await;
    assert!(!delivery.is_finished());
    delivery
}

/// What an operator may do to the backend that waits.
async fn signal(monitor: &PgPool, function: &'static str) {
    let sql = format!("SELECT {function}(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    let is_signalled: bool = sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
        .fetch_one(monitor)
        .await
        .unwrap();
    assert!(is_signalled);
}

/// Terminated, it is unknown whether the message was processed, and the redelivery finds out.
#[tokio::test]
async fn p4_a_terminated_commit_is_unknown_and_its_redelivery_a_duplicate() {
    let cluster = Cluster::synchronous().await;
    let workers = pool(&cluster.primary.url("postgres"), 4).await;
    let monitor = pool(&cluster.primary.url("postgres"), 1).await;
    cluster.standby.freeze();
    let delivery = stuck(&workers, &monitor, 1).await;
    assert_eq!(applied(&monitor, 1).await, (0, false), "not visible yet");
    // P9: in flight is not a duplicate.
    let second = bill(&workers, 1).await.unwrap_err();
    assert!(
        matches!(second, Failed::Delivery(Error::InFlight(_))),
        "{second:?}"
    );

    signal(&monitor, "pg_terminate_backend").await;
    let error = delivery.await.unwrap().unwrap_err();
    assert!(
        matches!(error, Failed::Delivery(Error::CommitUnknown(_))),
        "{error:?}"
    );
    assert!(idem::is_transient(&error));
    assert_eq!(bill(&workers, 1).await.unwrap(), Outcome::Duplicate);

    cluster.standby.thaw();
    until("the standby has caught up", &monitor, CAUGHT_UP).await;
    let primary = cluster.fail_over();
    let workers = pool(&primary.url("postgres"), 1).await;
    // Its own COMMITs would wait for a standby, had it inherited the setting.
    assert_eq!(bill(&workers, 1).await.unwrap(), Outcome::Duplicate);
    assert_eq!(applied(&workers, 1).await, (1, true));
}

/// Given up by its worker, the delivery stays in flight until the standby answers.
#[tokio::test]
async fn p5_p9_a_delivery_that_is_dropped_while_it_waits_stays_in_flight() {
    let cluster = Cluster::synchronous().await;
    let workers = pool(&cluster.primary.url("postgres"), 4).await;
    let monitor = pool(&cluster.primary.url("postgres"), 1).await;
    cluster.standby.freeze();
    let delivery = stuck(&workers, &monitor, 1).await;
    delivery.abort();
    assert!(delivery.await.unwrap_err().is_cancelled());
    let error = bill(&workers, 1).await.unwrap_err();
    assert!(
        matches!(error, Failed::Delivery(Error::InFlight(_))),
        "{error:?}"
    );

    cluster.standby.thaw();
    // Until the first one's COMMIT is through, this one is in flight.
    let outcome = loop {
        match tokio::time::timeout(Duration::from_mins(3), bill(&workers, 1))
            .await
            .unwrap()
        {
            Ok(outcome) => break outcome,
            Err(error) => assert!(
                matches!(error, Failed::Delivery(Error::InFlight(_))),
                "{error:?}"
            ),
        }
    };
    assert_eq!(outcome, Outcome::Duplicate);
    assert_eq!(applied(&monitor, 1).await, (1, true));
}

/// The limit: cancelled, COMMIT reports success with a warning that no client sees, and the message is lost with the primary.
#[tokio::test]
async fn limit_a_cancelled_commit_says_ok_without_the_standby() {
    let cluster = Cluster::synchronous().await;
    let workers = pool(&cluster.primary.url("postgres"), 4).await;
    let monitor = pool(&cluster.primary.url("postgres"), 1).await;
    cluster.cut_off().await;
    let delivery = stuck(&workers, &monitor, 1).await;
    signal(&monitor, "pg_cancel_backend").await;
    assert_eq!(delivery.await.unwrap().unwrap(), Outcome::Processed(()));
    assert_eq!(applied(&monitor, 1).await, (1, true));

    let primary = cluster.fail_over();
    let workers = pool(&primary.url("postgres"), 1).await;
    assert_eq!(
        applied(&workers, 1).await,
        (0, false),
        "acknowledged, and lost"
    );
}
