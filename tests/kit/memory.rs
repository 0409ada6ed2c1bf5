//! State of the process, keys that differ, errors that hide what they are.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use idem::idempotent;
use sqlx::AssertSqlSafe;

use super::db::Connection;
use super::fixture::{NOTE, PAY, database, lines, proof};

#[idempotent(key = "id", consumer = "billing")]
async fn counts_in_a_static(#[tx] tx: &mut Connection, id: &str) -> Result<(), sqlx::Error> {
    static CREDITS: AtomicI64 = AtomicI64::new(0);
    let credits = 10 + CREDITS.fetch_add(10, Ordering::SeqCst);
    let pay = format!("UPDATE accounts SET credits = {credits} WHERE id = 1");
    sqlx::query(AssertSqlSafe(pay)).execute(&mut *tx).await?;
    Ok(())
}

#[idempotent(key = "id", consumer = "billing")]
async fn remembers_what_it_has_seen(
    #[tx] tx: &mut Connection,
    id: &str,
) -> Result<(), sqlx::Error> {
    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
    if SEEN.lock().unwrap().iter().any(|seen| seen == id) {
        return Ok(());
    }
    SEEN.lock().unwrap().push(id.to_owned());
    sqlx::query(PAY).execute(&mut *tx).await?;
    Ok(())
}

#[tokio::test]
async fn state_in_a_static() {
    let (_fixture, pool) = database().await;
    let report = proof(&pool)
        .deliver(async |pool| counts_in_a_static(pool, "evt-1").await)
        .await;
    assert_eq!(
        lines(&report),
        ["delivered once more, from a fresh start: credits: 10 -> 20"]
    );
    assert!(report.findings()[0].advice().contains("a `static`"));

    let report = proof(&pool)
        .deliver(async |pool| remembers_what_it_has_seen(pool, "evt-1").await)
        .await;
    assert_eq!(
        lines(&report),
        ["delivered once more, from a fresh start: credits: 10 -> 0"]
    );
    assert!(report.findings()[0].advice().contains("a `static`"));
}

#[idempotent(key = "id", consumer = "billing")]
async fn pays(#[tx] tx: &mut Connection, id: &str) -> Result<(), sqlx::Error> {
    sqlx::query(PAY).execute(&mut *tx).await?;
    sqlx::query(NOTE).execute(&mut *tx).await?;
    Ok(())
}

#[tokio::test]
async fn a_key_that_differs_in_each_delivery() {
    let (_fixture, pool) = database().await;
    let arrival = AtomicI64::new(1);
    let report = proof(&pool)
        .deliver(async |pool| {
            let id = format!("arrival-{}", arrival.fetch_add(1, Ordering::SeqCst));
            pays(pool, &id).await
        })
        .await;
    let expected =
        "delivered once more, from a fresh start: the key was \"arrival-1\", and is \"arrival-2\"";
    assert_eq!(lines(&report), [expected]);
}

/// Every error becomes the message's fault.
#[derive(Debug, thiserror::Error)]
#[error("it went wrong: {0}")]
struct Text(String);

impl From<idem::Error> for Text {
    fn from(error: idem::Error) -> Self {
        Self(error.to_string())
    }
}

#[idempotent(key = "id", consumer = "billing")]
async fn hides_its_errors(#[tx] tx: &mut Connection, id: &str) -> Result<(), Text> {
    sqlx::query(PAY)
        .execute(&mut *tx)
        .await
        .map_err(|error| Text(error.to_string()))?;
    Ok(())
}

#[tokio::test]
async fn an_error_type_that_hides_a_lost_connection() {
    let (_fixture, pool) = database().await;
    let report = proof(&pool)
        .deliver(async |pool| hides_its_errors(pool, "evt-1").await)
        .await;
    let finding = report.findings().first().expect("it is found");
    assert!(
        finding
            .what()
            .starts_with("the error is not transient: it went wrong: "),
        "{report}"
    );
    assert!(finding.advice().contains("dead letters"), "{report}");
}
