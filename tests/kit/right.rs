use idem::testing::Proof;
use idem::{Claimed, Deliveries, Outcome, idempotent};

use super::db::{Connection, KILLS, Pool};
use super::fixture::{NOTE, PAY, database, effect, fresh, proof};

#[idempotent(key = "id", consumer = "billing")]
async fn pay(#[tx] tx: &mut Connection, id: &str) -> Result<i64, sqlx::Error> {
    sqlx::query(PAY).execute(&mut *tx).await?;
    sqlx::query(NOTE).execute(&mut *tx).await?;
    Ok(10)
}

#[tokio::test]
async fn a_right_handler_passes() {
    let (_fixture, pool) = database().await;
    let report = proof(&pool)
        .deliver(async |pool| pay(pool, "evt-1").await)
        .await;
    report.assert();
    assert!(report.is_ok());

    let steps = report.steps();
    let has = |name: &str| steps.iter().any(|step| step == name);
    for name in [
        "delivered once",
        "delivered once more, from a fresh start",
        "delivered three times, one after the other",
        "delivered 4 times at once",
        "failed before commit and redelivered",
        "panicked before commit and redelivered",
        "failed after commit and redelivered",
        "cancelled at await 1 and redelivered",
        "cancelled at await 3 and redelivered",
    ] {
        assert!(has(name), "{name}: {steps:?}");
    }
    for name in [
        "connection killed after claim and redelivered",
        "connection killed before commit and redelivered",
    ] {
        assert_eq!(has(name), KILLS, "{name}: {steps:?}");
    }
    assert!(has("write 2 refused by the database"), "{steps:?}");
    assert!(!has("write 3 refused by the database"), "{steps:?}");
    assert_eq!(
        report.to_string(),
        format!("the handler has its effect once, in {} steps", steps.len())
    );
}

/// It leaves no claim behind, so that the test can run again.
#[tokio::test]
async fn its_claims_are_removed_and_no_others() {
    let (_fixture, pool) = database().await;
    let _ = pay(&pool, "evt-2").await.unwrap();
    // Of a proof that was interrupted.
    let _ = pay(&pool, "evt-1").await.unwrap();
    for _ in 0..2 {
        proof(&pool)
            .deliver(async |pool| pay(pool, "evt-1").await)
            .await
            .assert();
    }
    assert!(matches!(
        pay(&pool, "evt-2").await.unwrap(),
        Outcome::Duplicate
    ));
    assert!(matches!(
        pay(&pool, "evt-1").await.unwrap(),
        Outcome::Processed(_)
    ));
}

#[idempotent(
    key = "id",
    consumer = "loyalty",
    business_key = "order",
    replay,
    retries = 2
)]
async fn thank(#[tx] tx: &mut Connection, id: &str, order: &str) -> Result<i64, sqlx::Error> {
    sqlx::query(NOTE).execute(&mut *tx).await?;
    Ok(1)
}

#[idempotent(key = "account", consumer = "projection", version = "version")]
async fn project(#[tx] tx: &mut Connection, account: i64, version: i64) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET credits = 7 WHERE id = 1")
        .execute(&mut *tx)
        .await?;
    Ok(())
}

#[idempotent(key = "id", consumer = "batches", each = "id in ids")]
async fn pay_all(#[tx] tx: &mut Connection, ids: Vec<String>) -> Result<(), sqlx::Error> {
    for _ in &ids {
        sqlx::query(PAY).execute(&mut *tx).await?;
    }
    Ok(())
}

#[tokio::test]
async fn handlers_with_arguments_pass() {
    let (_fixture, pool) = database().await;
    let proof = || proof(&pool);
    proof()
        .deliver(async |pool| thank(pool, "evt-1", "order-1").await)
        .await
        .assert();
    proof()
        .deliver(async |pool| project(pool, 1, 5).await)
        .await
        .assert();
    let ids = || vec!["a".to_owned(), "b".to_owned()];
    proof()
        .deliver(async |pool| pay_all(pool, ids()).await)
        .await
        .assert();
    let two = async |pool: &Pool| {
        let _ = pay(pool, "evt-1").await?;
        thank(pool, "evt-1", "order-1").await
    };
    let report = proof().deliver(two).await;
    report.assert();
    assert!(
        report
            .steps()
            .iter()
            .any(|step| step == "failed before commit 2 and redelivered")
    );
}

/// In a transaction of the consumer's own. sqlx 0.9.0 leaves one open whose `begin()` is cancelled, for the next borrower of the connection.
#[tokio::test]
async fn a_delivery_that_joins_passes() {
    let (fixture, _pool) = database().await;
    let options = fixture.options(5).after_release(|conn, _| {
        Box::pin(async move {
            // SQLite says that there is none.
            sqlx::raw_sql("ROLLBACK").execute(conn).await.ok();
            Ok(true)
        })
    });
    let pool = options.connect(&fixture.url).await.unwrap();
    let joined = async |pool: &Pool| {
        let mut tx = pool.begin().await?;
        let _ = pay(&mut tx, "evt-1").await?;
        idem::commit(tx).await?;
        Ok::<_, anyhow::Error>(())
    };
    let report = proof(&pool).deliver(async |pool| joined(pool).await).await;
    report.assert();
    let steps = report.steps();
    for name in [
        "failed before commit 2 and redelivered",
        "failed after commit 2 and redelivered",
    ] {
        assert!(steps.iter().any(|step| step == name), "{steps:?}");
    }
}

#[tokio::test]
async fn deliveries_by_hand_pass() {
    let (_fixture, pool) = database().await;
    let by_hand = async |pool: &Pool| {
        if let Claimed::Fresh(mut claim) = idem::claim(pool, "by_hand", "evt-1").await? {
            sqlx::query(PAY).execute(&mut *claim).await?;
            claim.commit().await?;
        }
        Ok::<_, sqlx::Error>(())
    };
    proof(&pool).deliver(by_hand).await.assert();

    let batch = async |pool: &Pool| {
        let mut messages = Deliveries::of("by_hand");
        messages.push("a");
        messages.push("b");
        if let Some(mut claim) = messages.claim(pool).await?.claim {
            sqlx::query(PAY).execute(&mut *claim).await?;
            claim.commit().await?;
        }
        Ok::<_, sqlx::Error>(())
    };
    proof(&pool).deliver(batch).await.assert();
}

/// Errors of other types, and state that is no struct.
#[tokio::test]
async fn it_takes_anyhow_and_plain_values() {
    let (_fixture, pool) = database().await;
    let report = Proof::new(&pool)
        .fresh(async |pool| fresh(pool).await.map_err(anyhow::Error::from))
        .state(async |pool| Ok::<_, anyhow::Error>(format!("{:?}", effect(pool).await?)))
        .at_once(9)
        .deliver(async |pool| Ok::<_, anyhow::Error>(pay(pool, "evt-1").await?))
        .await;
    report.assert();
    assert!(
        report
            .steps()
            .contains(&"delivered 9 times at once".to_owned())
    );
}
