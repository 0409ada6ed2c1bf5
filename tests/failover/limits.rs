//! Where a failover loses what was acknowledged, whatever a client does. The effect and its claim go together, so that nothing is doubled.

use idem::{Error, Outcome};

use crate::cluster::{Cluster, applied, pool};
use crate::waiting::stuck;
use crate::{Failed, bill};

/// The limit: an asynchronous standby lacks the last commits.
#[tokio::test]
async fn limit_an_asynchronous_standby_loses_what_was_acknowledged() {
    let cluster = Cluster::start().await;
    cluster.cut_off().await;
    let workers = pool(&cluster.primary.url("postgres"), 1).await;
    assert_eq!(bill(&workers, 1).await.unwrap(), Outcome::Processed(()));

    let primary = cluster.fail_over();
    let workers = pool(&primary.url("postgres"), 1).await;
    assert_eq!(
        applied(&workers, 1).await,
        (0, false),
        "acknowledged, and lost"
    );
    // P1: the claim went with it, so that it is applied if the broker delivers it again.
    assert_eq!(bill(&workers, 1).await.unwrap(), Outcome::Processed(()));
    assert_eq!(bill(&workers, 1).await.unwrap(), Outcome::Duplicate);
    assert_eq!(applied(&workers, 1).await, (1, true));
}

/// The limit: a primary that restarts shows commits that its standby does not have, and a duplicate writes nothing that would wait for it.
#[tokio::test]
async fn limit_a_duplicate_does_not_wait_for_the_standby() {
    let mut cluster = Cluster::synchronous().await;
    let workers = pool(&cluster.primary.url("postgres"), 2).await;
    let monitor = pool(&cluster.primary.url("postgres"), 1).await;
    cluster.cut_off().await;
    let delivery = stuck(&workers, &monitor, 1).await;
    cluster.primary.restart_immediate();
    let error = delivery.await.unwrap().unwrap_err();
    assert!(
        matches!(error, Failed::Delivery(Error::CommitUnknown(_))),
        "{error:?}"
    );

    let workers = pool(&cluster.primary.url("postgres"), 1).await;
    assert_eq!(bill(&workers, 1).await.unwrap(), Outcome::Duplicate);
    let primary = cluster.fail_over();
    let workers = pool(&primary.url("postgres"), 1).await;
    assert_eq!(
        applied(&workers, 1).await,
        (0, false),
        "acknowledged, and lost"
    );
}

/// A standby refuses deliveries by an error that asks for redelivery: a worker that was led to the wrong server does no harm.
#[tokio::test]
async fn p4_a_standby_refuses_deliveries() {
    let cluster = Cluster::start().await;
    let workers = pool(&cluster.standby.url("postgres"), 1).await;
    let error = bill(&workers, 1).await.unwrap_err();
    assert!(idem::is_transient(&error), "{error:?}");
    assert!(
        matches!(error, Failed::Delivery(Error::Database { .. })),
        "{error:?}"
    );
    cluster.standby.promote();
    assert_eq!(bill(&workers, 1).await.unwrap(), Outcome::Processed(()));
}
