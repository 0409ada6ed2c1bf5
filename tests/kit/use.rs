//! How it is used, and what it says of a wrong use.

use std::time::Duration;

use idem::idempotent;
use idem::testing::Proof;

use super::db::{Connection, Pool};
use super::fixture::{PAY, database, effect, fresh, lines, proof};

#[idempotent(key = "id", consumer = "billing")]
async fn pays(#[tx] tx: &mut Connection, id: &str) -> Result<(), sqlx::Error> {
    sqlx::query(PAY).execute(&mut *tx).await?;
    Ok(())
}

#[tokio::test]
async fn fresh_has_to_put_everything_back() {
    let (_fixture, pool) = database().await;
    let report = Proof::new(&pool)
        .state(effect)
        .deliver(async |pool| pays(pool, "evt-1").await)
        .await;
    assert_eq!(
        lines(&report),
        ["delivered once more, from a fresh start: credits: 0 -> 10"]
    );
    assert!(
        report.findings()[0]
            .advice()
            .starts_with("`fresh` has to put back")
    );
}

#[tokio::test]
async fn state_has_to_see_the_effect() {
    let (_fixture, pool) = database().await;
    let report = Proof::new(&pool)
        .fresh(fresh)
        .state(async |_| Ok::<_, sqlx::Error>("nothing"))
        .deliver(async |pool| pays(pool, "evt-1").await)
        .await;
    let expected =
        "delivered once more, from a fresh start: it returned Ok and has no effect: \"nothing\"";
    assert_eq!(lines(&report), [expected]);
}

#[tokio::test]
async fn closures_that_fail_are_reported() {
    let (_fixture, pool) = database().await;
    let nowhere = async |pool: &Pool| {
        sqlx::raw_sql("DELETE FROM nowhere")
            .execute(pool)
            .await
            .map(drop)
    };
    let report = Proof::new(&pool)
        .fresh(async |pool| nowhere(pool).await)
        .state(effect)
        .deliver(async |pool| pays(pool, "evt-1").await)
        .await;
    assert!(
        lines(&report)[0].starts_with("delivered once: `fresh` fails: "),
        "{report}"
    );
    let report = Proof::new(&pool)
        .fresh(fresh)
        .state(async |pool| nowhere(pool).await)
        .deliver(async |pool| pays(pool, "evt-1").await)
        .await;
    assert!(
        lines(&report)[0].starts_with("delivered once: `state` fails: "),
        "{report}"
    );
    let report = proof(&pool).deliver(async |pool| nowhere(pool).await).await;
    assert!(
        lines(&report)[0].starts_with("delivered once: it fails: "),
        "{report}"
    );
    assert_eq!(report.findings().len(), 1);
}

#[tokio::test]
async fn a_handler_that_panics_is_reported() {
    let (_fixture, pool) = database().await;
    let report = proof(&pool)
        .deliver(async |pool| {
            let _ = pays(pool, "evt-1").await?;
            // As a panic does, without a word on stderr.
            std::panic::resume_unwind(Box::new("no such account"));
            #[allow(unreachable_code, reason = "it names the type")]
            Ok::<_, sqlx::Error>(())
        })
        .await;
    assert_eq!(
        lines(&report),
        ["delivered once: it fails: it panicked: no such account"]
    );
}

#[tokio::test]
async fn a_delivery_on_another_task_is_not_seen() {
    let (_fixture, pool) = database().await;
    let report = proof(&pool)
        .deliver(async |pool| {
            let pool = pool.clone();
            tokio::spawn(async move { pays(&pool, "evt-1").await })
                .await
                .unwrap()
        })
        .await;
    // The claim of the first delivery is not known either, so that the second is a duplicate.
    assert_eq!(
        lines(&report),
        ["delivered once more, from a fresh start: no message was claimed"]
    );
    assert!(
        report.findings()[0]
            .advice()
            .contains("what it spawns is not seen")
    );
}

#[tokio::test]
async fn a_delivery_that_never_ends_is_reported() {
    let (_fixture, pool) = database().await;
    let report = proof(&pool)
        .time_limit(Duration::from_millis(500))
        .deliver(async |_| std::future::pending::<Result<(), sqlx::Error>>().await)
        .await;
    assert_eq!(
        lines(&report),
        ["delivered once: it does not come to an end within 500ms"]
    );
}

#[tokio::test]
#[should_panic(expected = "the handler is not safe to redeliver: 1 finding in 2 steps")]
async fn assert_fails_the_test() {
    let (_fixture, pool) = database().await;
    Proof::new(&pool)
        .state(effect)
        .deliver(async |pool| pays(pool, "evt-1").await)
        .await
        .assert();
}
