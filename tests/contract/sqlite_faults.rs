//! P4: what is wrong with SQLite's file is no message's fault.

use std::str::FromStr;

use sqlx::sqlite::SqliteConnectOptions;

use crate::contract::*;

#[tokio::test]
async fn p4_a_file_that_cannot_be_written_is_transient() {
    let test = Test::new(1).await;
    let options = SqliteConnectOptions::from_str(&test.fixture.url).unwrap();
    let options = options.create_if_missing(false).read_only(true);
    let read_only = test.fixture.options(1).connect_with(options).await.unwrap();
    for form in FORMS {
        let message = format!("{form:?}");
        let error = deliver(form, &read_only, &message, Body::Panics).await;
        let error = error.unwrap_err();
        assert!(error.is_transient(), "{form:?}: {error:?}");
        let again = deliver(form, &test.pool, &message, Body::Succeeds).await;
        assert_eq!(again.unwrap(), Outcome::Processed(7), "{form:?}");
    }
}

/// Writes so many bytes beside its effect.
#[idempotent(key = "message", consumer = "billing")]
async fn fills(#[tx] tx: &mut Conn, message: &str, bytes: i64) -> Result<u64, Fail> {
    effect(tx, message).await?;
    let sql = "INSERT INTO effects VALUES (hex(zeroblob(?)))";
    sqlx::query(sql).bind(bytes).execute(tx).await?;
    Ok(7)
}

#[tokio::test]
async fn p4_a_full_disk_is_transient() {
    let test = Test::new(1).await;
    let mut conn = test.pool.acquire().await.unwrap();
    run(&mut conn, "PRAGMA max_page_count = 200").await.unwrap();
    drop(conn);
    let error = fills(&test.pool, "evt-1", 4_000_000).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    test.assert_pool_is_clean("full").await;
    assert_eq!(test.effects_of("evt-1").await, 0);
    let again = fills(&test.pool, "evt-1", 1).await.unwrap();
    assert_eq!(again, Outcome::Processed(7));
    assert_eq!(test.effects_of("evt-1").await, 1);
}
