//! A table of claims that an older version of the library has created.

use idem::Deliveries;

use crate::contract::by_hand::Way;
use crate::contract::*;

/// An older table with claims in it, and the table of effects.
async fn older() -> Test {
    let fixture = Fixture::new().await;
    let pool = fixture.pool(1).await;
    let mut conn = pool.acquire().await.unwrap();
    run(&mut conn, db::OLDER).await.unwrap();
    run(&mut conn, db::EFFECTS).await.unwrap();
    for id in 0..50 {
        let claim = "INSERT INTO processed_messages (consumer, message_id, processed_at) VALUES";
        let claim = format!("{claim} ('billing', 'old {id}', '2001-02-03 04:05:06')");
        run(&mut conn, claim).await.unwrap();
    }
    drop(conn);
    Test::of(fixture, pool)
}

impl Test {
    /// The older claims are all there, as they were.
    async fn assert_old_claims(&self) {
        let old = "SELECT count(*) FROM processed_messages WHERE consumer = 'billing' AND message_id LIKE 'old %' \
            AND processed_at < '2001-02-04' AND processed_at > '2001-02-02'";
        assert_eq!(self.number(old).await, 50);
        for id in [0, 7, 49] {
            let old = on_connection(&self.pool, &format!("old {id}"), Body::Panics).await;
            assert_eq!(old.unwrap(), Outcome::Duplicate);
        }
    }
}

/// What needs the newer columns.
fn deliveries(id: &str) -> Vec<Delivery<'_>> {
    let plain = || Delivery::of("billing", id);
    vec![
        plain().fingerprint(1),
        plain().version(1),
        plain().version(1).gapless_from(1),
    ]
}

#[tokio::test]
async fn plain_deliveries_work_on_an_older_table() {
    let test = older().await;
    for form in FORMS {
        let message = format!("{form:?}");
        for (body, expected) in [
            (Body::Fails, None),
            (Body::Succeeds, Some(Outcome::Processed(7))),
            (Body::Panics, Some(Outcome::Duplicate)),
        ] {
            let outcome = deliver(form, &test.pool, &message, body).await;
            assert_eq!(outcome.ok(), expected, "{message}");
        }
        assert_eq!(test.effects_of(&message).await, 1, "{message}");
    }
    test.assert_old_claims().await;
}

#[tokio::test]
async fn p4_a_newer_argument_on_an_older_table_says_to_migrate() {
    let test = older().await;
    let assert_schema = |error: Fail| {
        assert!(
            matches!(error, Fail::Delivery(Error::Schema(_))),
            "{error:?}"
        );
        assert!(error.is_transient(), "no message is at fault");
        assert!(error.to_string().contains("idem::migrate"), "{error}");
    };
    for (number, delivery) in deliveries("new").into_iter().enumerate() {
        for way in [Way::Once, Way::Claim] {
            let result = way.deliver(&test.pool, delivery.clone(), "new", Body::Succeeds);
            assert_schema(result.await.unwrap_err());
            test.assert_pool_is_clean("schema").await;
        }
        let mut outer = test.pool.begin().await.unwrap();
        let result = Way::Once.deliver(&mut outer, delivery, "new", Body::Succeeds);
        assert_schema(result.await.unwrap_err());
        effect(&mut outer, &format!("outer {number}"))
            .await
            .unwrap();
        idem::commit(outer).await.unwrap();
        assert_eq!(test.effects_of(&format!("outer {number}")).await, 1);
    }
    let value = Delivery::of("billing", "new")
        .replay(&test.pool, async |tx: &mut Conn| {
            effect(tx, "new").await?;
            Ok::<_, Fail>(1)
        })
        .await;
    assert_schema(value.unwrap_err());
    let mut batch = Deliveries::of("billing");
    batch.push("new");
    let claimed = batch.claim(&test.pool).await;
    assert_schema(claimed.err().expect("the column is missing").into());
    test.assert_pool_is_clean("schema").await;
    assert_eq!(test.effects_of("new").await, 0);
    test.assert_old_claims().await;
}

/// All that the newer arguments do, after the upgrade.
async fn assert_upgraded(test: &Test) {
    test.assert_old_claims().await;
    for (number, delivery) in deliveries("new").into_iter().enumerate() {
        // A version goes on from a claim without one.
        let outcome = Way::Once
            .deliver(&test.pool, delivery, "new", Body::Succeeds)
            .await;
        let outcome = outcome.unwrap();
        assert_eq!(outcome.is_processed(), number < 2, "{number}");
    }
    for expected in [Outcome::Processed(1), Outcome::Replayed(1)] {
        let value = Delivery::of("billing", "value")
            .replay(&test.pool, async |_: &mut Conn| Ok::<_, Fail>(1))
            .await;
        assert_eq!(value.unwrap(), expected);
    }
    let mut batch = Deliveries::of("billing");
    for id in ["old 1", "a", "old 2"] {
        batch.push(id);
    }
    let claimed = batch.claim(&test.pool).await.unwrap();
    assert_eq!((claimed.fresh, claimed.duplicates), (vec![1], vec![0, 2]));
    claimed.claim.unwrap().commit().await.unwrap();
    let old = Delivery::of("billing", "old 3").fingerprint(1).replaying();
    let claimed = old.claim(&test.pool).await.unwrap();
    assert!(matches!(claimed, Claimed::Duplicate));
}

#[tokio::test]
async fn migrate_upgrades_an_older_table_in_place() {
    let test = older().await;
    for _ in 0..2 {
        idem::migrate(&test.pool).await.unwrap();
        test.assert_old_claims().await;
    }
    assert_upgraded(&test).await;
    idem::migrate(&test.pool).await.unwrap();
    test.assert_old_claims().await;
}

#[tokio::test]
async fn migrate_upgrades_in_many_processes_at_once() {
    for _ in 0..3 {
        let test = older().await;
        let mut tasks = tokio::task::JoinSet::new();
        for index in 0..8 {
            // A pool each, as processes have.
            let pool = test.fixture.pool(1).await;
            tasks.spawn(async move {
                idem::migrate(&pool).await?;
                let claimed = Delivery::of("billing", index)
                    .fingerprint(1)
                    .claim(&pool)
                    .await?;
                if let Claimed::Fresh(claim) = claimed {
                    claim.commit().await?;
                }
                idem::migrate(&pool).await
            });
        }
        while let Some(result) = tasks.join_next().await {
            result.unwrap().expect("no migration fails");
        }
        assert_eq!(test.claims().await, 58);
        assert_upgraded(&test).await;
    }
}

/// For people who keep their own migrations.
#[tokio::test]
async fn the_statements_upgrade_an_older_table() {
    let test = older().await;
    let mut conn = test.pool.acquire().await.unwrap();
    run(&mut conn, db::ADD_COLUMNS).await.unwrap();
    drop(conn);
    assert_upgraded(&test).await;
    idem::migrate(&test.pool).await.unwrap();
    test.assert_old_claims().await;
}

/// One that stopped between two columns is finished.
#[tokio::test]
async fn migrate_finishes_an_upgrade_that_was_interrupted() {
    let test = older().await;
    let mut conn = test.pool.acquire().await.unwrap();
    let add = "ALTER TABLE processed_messages ADD COLUMN version bigint";
    run(&mut conn, add).await.unwrap();
    drop(conn);
    idem::migrate(&test.pool).await.unwrap();
    assert_upgraded(&test).await;
}
