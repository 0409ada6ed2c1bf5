//! Errors that are dropped, and guards that are forgotten.

use idem::{Claimed, idempotent};
use sqlx::Connection as _;

use super::db::{Connection, Pool};
use super::fixture::{NOTE, PAY, database, lines, proof};

#[idempotent(key = "id", consumer = "billing")]
async fn drops_the_last_error(#[tx] tx: &mut Connection, id: &str) -> Result<(), sqlx::Error> {
    sqlx::query(PAY).execute(&mut *tx).await?;
    let _ = sqlx::query(NOTE).execute(&mut *tx).await;
    Ok(())
}

#[idempotent(key = "id", consumer = "billing")]
async fn drops_the_first_error(#[tx] tx: &mut Connection, id: &str) -> Result<(), sqlx::Error> {
    sqlx::query(PAY).execute(&mut *tx).await.ok();
    sqlx::query(NOTE).execute(&mut *tx).await?;
    Ok(())
}

/// Nothing fails until the database refuses a write.
#[tokio::test]
async fn an_error_of_the_database_that_is_dropped() {
    let (fixture, pool) = database().await;
    let report = proof(&pool)
        .deliver(async |pool| drops_the_last_error(pool, "evt-1").await)
        .await;
    let found = lines(&report);
    assert_eq!(found.len(), 1, "{found:#?}");
    if fixture.url.starts_with("postgres") {
        assert!(
            found[0].starts_with("write 2 refused by the database: "),
            "{found:#?}"
        );
        assert!(
            found[0].contains("a statement in the handler failed and its error was dropped"),
            "{found:#?}"
        );
    } else {
        assert_eq!(found[0], "write 2 refused by the database: notes: 1 -> 0");
    }
    assert!(report.findings()[0].advice().contains("Return it with `?`"));

    let report = proof(&pool)
        .deliver(async |pool| drops_the_first_error(pool, "evt-1").await)
        .await;
    // On PostgreSQL the second statement fails then, and says so.
    if fixture.url.starts_with("postgres") {
        report.assert();
    } else {
        let expected = "write 1 refused by the database: credits: 10 -> 0";
        assert_eq!(lines(&report), [expected]);
    }
}

#[idempotent(key = "id", consumer = "billing")]
async fn writes_to_no_table(#[tx] tx: &mut Connection, id: &str) -> Result<(), sqlx::Error> {
    sqlx::query(PAY).execute(&mut *tx).await?;
    let _ = sqlx::query("INSERT INTO no_such_table VALUES (1)")
        .execute(&mut *tx)
        .await;
    Ok(())
}

/// The other databases undo the one statement.
#[tokio::test]
async fn an_error_that_is_dropped_each_time() {
    let (fixture, pool) = database().await;
    let report = proof(&pool)
        .deliver(async |pool| writes_to_no_table(pool, "evt-1").await)
        .await;
    if fixture.url.starts_with("postgres") {
        let found = lines(&report);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(
            found[0].starts_with("delivered once: it fails: "),
            "{found:#?}"
        );
        assert!(
            report.findings()[0]
                .advice()
                .contains("drops an error of the database")
        );
    } else {
        report.assert();
    }
}

async fn forgets_its_claim(pool: &Pool, id: &str) -> Result<(), sqlx::Error> {
    if let Claimed::Fresh(mut claim) = idem::claim(pool, "billing", id).await? {
        sqlx::query(PAY).execute(&mut *claim).await?;
        std::mem::forget(claim);
    }
    Ok(())
}

async fn drops_its_claim(pool: &Pool, id: &str) -> Result<(), sqlx::Error> {
    if let Claimed::Fresh(mut claim) = idem::claim(pool, "billing", id).await? {
        sqlx::query(PAY).execute(&mut *claim).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_claim_that_is_forgotten() {
    const EXPECTED: &str =
        "delivered once: it returned Ok, and has neither committed nor rolled back what it claimed";
    let (_fixture, pool) = database().await;
    let report = proof(&pool)
        .deliver(async |pool| drops_its_claim(pool, "evt-1").await)
        .await;
    assert_eq!(lines(&report), [EXPECTED]);
    let report = proof(&pool)
        .time_limit(std::time::Duration::from_secs(2))
        .deliver(async |pool| forgets_its_claim(pool, "evt-1").await)
        .await;
    assert_eq!(lines(&report), [EXPECTED]);
}

#[idempotent(key = "id", consumer = "billing")]
async fn forgets_a_transaction(#[tx] tx: &mut Connection, id: &str) -> Result<(), sqlx::Error> {
    let mut nested = tx.begin().await?;
    sqlx::query(PAY).execute(&mut *nested).await?;
    std::mem::forget(nested);
    Ok(())
}

#[tokio::test]
async fn a_transaction_that_is_forgotten() {
    let (_fixture, pool) = database().await;
    let report = proof(&pool)
        .deliver(async |pool| forgets_a_transaction(pool, "evt-1").await)
        .await;
    let found = lines(&report);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0].starts_with("delivered once: it fails: "),
        "{found:#?}"
    );
    assert!(
        found[0].contains("the delivery's transaction had ended before the handler returned Ok"),
        "{found:#?}"
    );
}

#[idempotent(key = "id", consumer = "billing")]
async fn pays(#[tx] tx: &mut Connection, id: &str) -> Result<(), sqlx::Error> {
    sqlx::query(PAY).execute(&mut *tx).await?;
    Ok(())
}

#[tokio::test]
async fn a_connection_that_is_forgotten() {
    let (_fixture, pool) = database().await;
    let forgets = async |pool: &Pool| {
        let _ = pays(pool, "evt-1").await?;
        std::mem::forget(pool.acquire().await?);
        Ok::<_, sqlx::Error>(())
    };
    let report = proof(&pool)
        .time_limit(std::time::Duration::from_secs(2))
        .deliver(async |pool| forgets(pool).await)
        .await;
    assert_eq!(
        lines(&report),
        ["delivered once more, from a fresh start: a connection does not come back to the pool"]
    );
}

/// The consumer around the handler acknowledges what has failed.
#[tokio::test]
async fn an_error_of_the_delivery_that_is_dropped() {
    let (_fixture, pool) = database().await;
    let drops = async |pool: &Pool| {
        let _ = pays(pool, "evt-1").await;
        Ok::<_, sqlx::Error>(())
    };
    let report = proof(&pool).deliver(drops).await;
    let expected = "failed before commit and redelivered: credits: 10 -> 0";
    let finding = report
        .findings()
        .iter()
        .find(|finding| finding.to_string() == expected);
    assert!(
        finding
            .expect("it is found")
            .advice()
            .contains("acknowledged with `Ok`"),
        "{report}"
    );
}

#[idempotent(key = "id", consumer = "inner")]
async fn inner(#[tx] tx: &mut Connection, id: &str) -> Result<(), sqlx::Error> {
    let _ = id;
    sqlx::query(PAY).execute(&mut *tx).await?;
    Ok(())
}

#[idempotent(key = "id", consumer = "outer")]
async fn outer(#[tx] tx: &mut Connection, id: &str) -> Result<(), sqlx::Error> {
    let _ = inner(&mut *tx, id).await?;
    let _ = sqlx::query(NOTE).execute(&mut *tx).await;
    Ok(())
}

/// The handler that is called ends before the one that calls.
#[tokio::test]
async fn an_error_that_is_dropped_after_another_handler() {
    let (_fixture, pool) = database().await;
    let report = proof(&pool)
        .deliver(async |pool| outer(pool, "evt-1").await)
        .await;
    let found = lines(&report);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0].starts_with("write 2 refused by the database: "),
        "{found:#?}"
    );
}
