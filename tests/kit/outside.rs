//! What happens outside of the delivery's transaction.

use std::sync::atomic::{AtomicU32, Ordering};

use idem::idempotent;

use super::db::{Connection, Pool};
use super::fixture::{NOTE, PAY, database, effect, fresh, lines, proof};

#[idempotent(key = "id", consumer = "second", allow_pool)]
async fn pays_through_a_pool(
    #[tx] tx: &mut Connection,
    id: &str,
    second: &Pool,
) -> Result<(), sqlx::Error> {
    sqlx::query(NOTE).execute(&mut *tx).await?;
    // Another row than the transaction's, so that SQLite is the only one to mind.
    sqlx::query(PAY).execute(second).await?;
    // How often it has waited before depends on how fast the server answers; here it waits each time.
    for _ in 0..5 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    Ok(())
}

/// On SQLite the second connection waits for the first, which is found at once.
#[tokio::test]
async fn a_write_through_a_second_pool() {
    let (fixture, pool) = database().await;
    let second = fixture.pool(2).await;
    let report = proof(&pool)
        .deliver(async |pool| pays_through_a_pool(pool, "evt-1", &second).await)
        .await;
    let found = lines(&report);
    if fixture.url.starts_with("sqlite") {
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(
            found[0].starts_with("delivered once: it fails: "),
            "{found:#?}"
        );
        assert!(found[0].contains("database is locked"), "{found:#?}");
        return;
    }
    for expected in [
        "failed before commit and redelivered: credits: 10 -> 20",
        "panicked before commit and redelivered: credits: 10 -> 20",
        "connection killed before commit and redelivered: credits: 10 -> 20",
    ] {
        assert!(
            found.iter().any(|found| found == expected),
            "{expected}: {found:#?}"
        );
    }
    assert!(
        found
            .iter()
            .any(|found| found.starts_with("cancelled at await")),
        "{found:#?}"
    );
    // Where nothing goes wrong, nothing shows.
    assert!(
        !found.iter().any(|found| found.starts_with("delivered")),
        "{found:#?}"
    );
    let advice = report.findings()[0].advice();
    assert!(
        advice.contains("a write that bypasses `tx`: through a pool"),
        "{advice}"
    );
}

/// The claims in one database, the effect in another.
#[tokio::test]
async fn a_write_through_a_pool_of_another_database() {
    let (_claims, claims) = database().await;
    let (_other, other) = database().await;
    let report = idem::testing::Proof::new(&claims)
        .fresh(async |_| fresh(&other).await)
        .state(async |_| effect(&other).await)
        .deliver(async |pool| pays_through_a_pool(pool, "evt-1", &other).await)
        .await;
    let expected = "failed before commit and redelivered: credits: 10 -> 20";
    assert!(
        lines(&report).iter().any(|found| found == expected),
        "{report}"
    );
}

#[idempotent(key = "id", consumer = "billing")]
async fn notes(#[tx] tx: &mut Connection, id: &str) -> Result<(), sqlx::Error> {
    sqlx::query(NOTE).execute(&mut *tx).await?;
    Ok(())
}

async fn pays_before_the_claim(pool: &Pool, id: &str) -> Result<(), sqlx::Error> {
    sqlx::query(PAY).execute(pool).await?;
    let _ = notes(pool, id).await?;
    Ok(())
}

#[tokio::test]
async fn an_effect_before_the_claim() {
    let (_fixture, pool) = database().await;
    let report = proof(&pool)
        .deliver(async |pool| pays_before_the_claim(pool, "evt-1").await)
        .await;
    let found = lines(&report);
    assert!(
        found.contains(&"delivered three times, one after the other: credits: 10 -> 30".to_owned()),
        "{found:#?}"
    );
    assert!(
        report.findings()[0]
            .advice()
            .contains("or before the claim")
    );
}

#[idempotent(key = "id", consumer = "payments")]
async fn charges(
    tx: &mut idem::Tx<'_, super::db::Db>,
    id: &str,
    service: &Service,
) -> Result<(), sqlx::Error> {
    sqlx::query(NOTE).execute(&mut **tx).await?;
    service.charge(None);
    Ok(())
}

#[idempotent(key = "id", consumer = "payments")]
async fn charges_with_a_key(
    tx: &mut idem::Tx<'_, super::db::Db>,
    id: &str,
    service: &Service,
) -> Result<(), sqlx::Error> {
    sqlx::query(NOTE).execute(&mut **tx).await?;
    let key = tx.idempotency_keys().remove(0);
    service.charge(Some(key));
    Ok(())
}

/// A service that keeps its promise about keys.
#[derive(Default)]
struct Service {
    charges: AtomicU32,
    keys: std::sync::Mutex<std::collections::HashSet<String>>,
}

impl Service {
    fn charge(&self, key: Option<String>) {
        if key.is_none_or(|key| self.keys.lock().unwrap().insert(key)) {
            self.charges.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn reset(&self) {
        self.charges.store(0, Ordering::SeqCst);
        self.keys.lock().unwrap().clear();
    }
}

#[tokio::test]
async fn a_call_without_an_idempotency_key() {
    let (_fixture, pool) = database().await;
    let service = Service::default();
    let proof = || {
        idem::testing::Proof::new(&pool)
            .fresh(async |pool| {
                service.reset();
                fresh(pool).await
            })
            .state(async |pool| {
                Ok::<_, sqlx::Error>((effect(pool).await?, service.charges.load(Ordering::SeqCst)))
            })
    };
    let report = proof()
        .deliver(async |pool| charges(pool, "evt-1", &service).await)
        .await;
    let expected = "failed before commit and redelivered: 1 -> 2";
    assert!(
        lines(&report).iter().any(|found| found == expected),
        "{report}"
    );
    assert!(report.findings()[0].advice().contains("idempotency_keys"));

    proof()
        .deliver(async |pool| charges_with_a_key(pool, "evt-1", &service).await)
        .await
        .assert();
}
