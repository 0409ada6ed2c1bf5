//! P11: `idem::Tx`, which knows the delivery.

use idem::Tx;

use super::*;

/// What a body is told.
type Told = (String, String, Vec<String>, u32);

fn told(tx: &Tx<'_, Db>) -> Told {
    let keys = tx.keys().iter().map(|key| (*key).to_owned()).collect();
    (
        tx.consumer().to_owned(),
        tx.key().to_owned(),
        keys,
        tx.attempt(),
    )
}

fn expected(keys: &[&str]) -> Told {
    let all = keys.iter().map(|key| (*key).to_owned()).collect();
    ("billing".to_owned(), keys[0].to_owned(), all, 1)
}

#[idempotent(key = "message", consumer = "billing")]
async fn plain(tx: &mut Tx<'_, Db>, message: &str) -> Result<Told, Fail> {
    // Queries run on the connection behind it.
    effect(tx, message).await?;
    sqlx::query("SELECT 1").execute(&mut **tx).await?;
    Ok(told(tx))
}

#[idempotent(key = "(tenant, message)", consumer = "billing")]
async fn composite(tx: &mut Tx<'_, Db>, tenant: u32, message: &str) -> Result<Told, Fail> {
    let _ = (tenant, message);
    Ok(told(tx))
}

#[idempotent(key = "id", consumer = "billing", business_key = "(order, \"charge\")")]
async fn action(tx: &mut Tx<'_, Db>, id: Option<&str>, order: u32) -> Result<Told, Fail> {
    let _ = (id, order);
    Ok(told(tx))
}

#[idempotent(key = "message", consumer = "billing", each = "message in messages")]
async fn each(tx: &mut Tx<'_, Db>, messages: Vec<&'static str>) -> Result<Told, Fail> {
    let _ = messages;
    Ok(told(tx))
}

#[idempotent(key = "message", consumer = "billing", version = "version")]
async fn version(tx: &mut Tx<'_, Db>, message: &str, version: u32) -> Result<Told, Fail> {
    let _ = (message, version);
    Ok(told(tx))
}

#[tokio::test]
async fn p11_tx_knows_the_delivery() {
    let test = Test::new(1).await;
    let outcome = plain(&test.pool, "evt-1").await.unwrap();
    assert_eq!(outcome, Outcome::Processed(expected(&["evt-1"])));
    assert_eq!(test.effects_of("evt-1").await, 1);
    let outcome = composite(&test.pool, 7, "a|b").await.unwrap();
    assert_eq!(outcome, Outcome::Processed(expected(&["7|a\\|b"])));
    // The message's key goes before the action's, whatever their order in the table.
    for id in ["1", "~"] {
        let outcome = action(&test.pool, Some(id), id.len().try_into().unwrap()).await;
        test.delete_claims().await;
        assert_eq!(outcome.unwrap(), Outcome::Processed(expected(&[id])));
    }
    let outcome = action(&test.pool, None, 8).await.unwrap();
    assert_eq!(outcome, Outcome::Processed(expected(&["8|charge"])));
    let outcome = version(&test.pool, "order", 1).await.unwrap();
    assert_eq!(outcome, Outcome::Processed(expected(&["order"])));
    let _ = plain(&test.pool, "c").await.unwrap();
    let outcome = each(&test.pool, vec!["d", "c", "b", "d", "a"]).await;
    let value = outcome.unwrap().value.unwrap();
    assert_eq!(
        value,
        expected(&["d", "b", "a"]),
        "the fresh ones, in their order"
    );
}

impl Test {
    async fn delete_claims(&self) {
        let mut conn = self.pool.acquire().await.unwrap();
        run(&mut conn, db::FORGET).await.unwrap();
    }
}

#[tokio::test]
async fn p11_tx_on_every_source() {
    let test = Test::new(2).await;
    let mut held = test.pool.acquire().await.unwrap();
    assert!(plain(&mut held, "held").await.unwrap().is_processed());
    assert!(plain(&mut *held, "plain").await.unwrap().is_processed());
    drop(held);
    let mut outer = test.pool.begin().await.unwrap();
    let outcome = plain(&mut outer, "joined").await.unwrap();
    assert_eq!(outcome, Outcome::Processed(expected(&["joined"])));
    idem::commit(outer).await.unwrap();
    for message in ["held", "plain", "joined"] {
        assert_eq!(test.effects_of(message).await, 1, "{message}");
    }
    test.assert_pool_is_clean("sources").await;
}

#[idempotent(key = "id", consumer = "billing", business_key = "(order, \"charge\")")]
async fn calls(tx: &mut Tx<'_, Db>, id: Option<&str>, order: u32) -> Result<String, Fail> {
    let _ = (id, order);
    Ok(tx.idempotency_keys().concat())
}

#[idempotent(key = "message", consumer = "billing", each = "message in messages")]
async fn calls_for_all(tx: &mut Tx<'_, Db>, messages: Vec<&'static str>) -> Result<String, Fail> {
    let _ = messages;
    Ok(tx.idempotency_keys().concat())
}

/// What the other side of a call is given names the effect, whichever message asks for it.
#[tokio::test]
async fn p11_the_key_for_the_other_side_is_that_of_the_effect() {
    let test = Test::new(1).await;
    let mut keys = Vec::new();
    for id in [Some("req-1"), Some("req-2"), None] {
        // As after a rollback.
        test.delete_claims().await;
        keys.push(calls(&test.pool, id, 8).await.unwrap().value().unwrap());
    }
    assert_eq!(keys, [&keys[0][..]; 3]);
    let other = calls(&test.pool, Some("req-3"), 9).await.unwrap().value();
    assert_ne!(other.unwrap(), keys[0]);
    let of_batch = calls_for_all(&test.pool, vec!["req-3", "a"]).await.unwrap();
    assert_eq!(of_batch.value.unwrap(), "billing:a");
    // A message whose id is the action's text is another one.
    let of_batch = calls_for_all(&test.pool, vec!["8|charge"]).await.unwrap();
    assert_ne!(of_batch.value.unwrap(), keys[0]);
}
