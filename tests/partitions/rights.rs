//! The roles of production: consumers may use the tables, and one other role owns them.

use idem::{PruneError, Pruner, Windows};

use super::*;
use crate::contract::by_hand::WAYS;

/// A pool of a role that may use the tables, and create none. It goes with the schema.
async fn consumers(clocked: &Clocked) -> Pool<Db> {
    let role = clocked.test.fixture.name();
    clocked
        .run(format!(
            "CREATE ROLE {role}; GRANT USAGE ON SCHEMA {role} TO {role}; \
             GRANT SELECT, INSERT, UPDATE ON processed_messages, processed_messages_by_day TO {role}; \
             GRANT SELECT, INSERT ON effects TO {role}; GRANT SELECT ON clock TO {role}"
        ))
        .await;
    let set = format!("SET ROLE {role}");
    let options = clocked
        .test
        .fixture
        .options(1)
        .after_connect(move |conn, _| {
            let set = set.clone();
            Box::pin(async move { run(conn, set).await })
        });
    options.connect(&clocked.test.fixture.url).await.unwrap()
}

async fn drop_role(clocked: &Clocked) {
    let role = clocked.test.fixture.name();
    clocked
        .run(format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .await;
}

#[tokio::test]
async fn a_consumer_needs_no_rights_on_the_days() {
    let clocked = Clocked::with_days("2026-11-30", 2, 1, 1).await;
    let pool = consumers(&clocked).await;
    // Made later, by the owner.
    clocked.days(2).ahead(2).create().await.unwrap();
    let mut failed = Vec::new();
    for days in [-2, 0, 2] {
        for way in WAYS {
            let event = clocked.event(format!("{way:?} {days}"), days);
            for expected in [Outcome::Processed(7), Outcome::Duplicate] {
                let outcome = event.deliver(way, &pool, Body::Succeeds).await;
                if !matches!(&outcome, Ok(outcome) if *outcome == expected) {
                    failed.push((event.clone(), outcome));
                }
            }
        }
    }
    let event = clocked.event("value", 0);
    let mut values = Vec::new();
    for _ in 0..2 {
        let delivery = event.delivery().fingerprint(1).from_plain();
        let value = delivery.replay(&pool, async |_: &mut Conn| Ok::<_, Fail>(8));
        values.push(value.await.map(Outcome::value).ok());
    }
    let expired = clocked.event("expired", -3);
    let refused = expired.deliver(Way::Once, &pool, Body::Panics).await;
    drop_role(&clocked).await;
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(values, [Some(Some(8)), Some(Some(8))]);
    assert_expired(refused, "2026-11-27", "2026-11-28");
}

/// It may ask whether there is something to do, and is told when there is.
#[tokio::test]
async fn p12_who_may_not_make_or_drop_days_is_told_and_leaves_no_lock() {
    let clocked = Clocked::with_days("2026-11-30", 2, 1, 1).await;
    let pool = consumers(&clocked).await;
    let days = |retain: u32| Days::new(&pool).retain(retain * A_DAY);
    let nothing_to_do = (
        days(2).ahead(1).create().await,
        days(2).drop_expired().await,
    );
    let listed = days(2).list().await;
    let create = days(2).ahead(5).create().await;
    let drop = days(1).drop_expired().await;
    let windows = Windows::new().default_window(A_DAY);
    let prune = Pruner::new(&pool)
        .windows(windows)
        .days_ahead(1)
        .run_once()
        .await;
    // The role's session is over, and so are its locks.
    let by_the_owner = clocked.days(1).drop_expired().await;
    drop_role(&clocked).await;
    assert!(matches!(nothing_to_do, (Ok(0), Ok(0))), "{nothing_to_do:?}");
    assert_eq!(listed.unwrap().len(), 4);
    assert!(matches!(create, Err(Error::Database { .. })), "{create:?}");
    assert!(matches!(drop, Err(PruneError::Database(_))), "{drop:?}");
    assert!(matches!(prune, Err(PruneError::Database(_))), "{prune:?}");
    assert_eq!(by_the_owner.unwrap(), 1);
}
