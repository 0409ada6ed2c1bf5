// Each argument alone, in quotes and bare.
use idem::{Outcome, idempotent};
use serde::{Deserialize, Serialize};
use sqlx::{PgConnection, PgPool};

struct Event {
    id: String,
    source: Option<String>,
    order: i64,
    version: u32,
    amount: i64,
    currency: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Receipt {
    number: i64,
    lines: Vec<String>,
}

type Answer<T> = Result<T, sqlx::Error>;

#[idempotent(key = "event.source", consumer = "business_key", business_key = "(event.order, \"charge\")")]
async fn business_key(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = tx;
    Ok(event.amount)
}

#[idempotent(key = (event.id, event.order), consumer = "business_key", business_key = event.order)]
async fn business_key_bare(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = tx;
    Ok(event.amount)
}

#[idempotent(key = "event.id", consumer = "replay", replay)]
async fn replay(tx: &mut PgConnection, event: &Event) -> Result<Receipt, sqlx::Error> {
    let _ = tx;
    Ok(Receipt { number: event.order, lines: Vec::new() })
}

#[idempotent(key = "event.id", consumer = "replay", replay)]
async fn replay_alias(tx: &mut PgConnection, event: &Event) -> Answer<Option<Receipt>> {
    let _ = (tx, event);
    Ok(None)
}

#[idempotent(key = "event.id", consumer = "fingerprint", fingerprint = "(event.amount, (event.currency, \"v1\"))")]
async fn fingerprint(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = tx;
    Ok(event.amount)
}

#[idempotent(key = "event.id", consumer = "fingerprint", fingerprint = event.amount)]
async fn fingerprint_bare(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = tx;
    Ok(event.amount)
}

#[idempotent(key = "event.id", consumer = "version", version = "event.version")]
async fn version(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = tx;
    Ok(event.amount)
}

#[idempotent(key = "event.id", consumer = "gapless", version = event.version, gapless)]
async fn gapless(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = tx;
    Ok(event.amount)
}

#[idempotent(key = "event.id", consumer = "gapless", gapless = -1, version = i64::from(event.version) - 7)]
async fn gapless_from(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = tx;
    Ok(event.amount)
}

#[idempotent(key = "event.id", consumer = "in_flight", in_flight = "1m30s")]
async fn in_flight(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = tx;
    Ok(event.amount)
}

#[idempotent(key = "event.id", consumer = "in_flight", in_flight = "fail")]
async fn in_flight_fail(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = tx;
    Ok(event.amount)
}

#[idempotent(key = "event.id", consumer = "isolation", isolation = "repeatable_read")]
async fn isolation(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = tx;
    Ok(event.amount)
}

#[idempotent(key = "event.id", consumer = "retries", retries = 3)]
async fn retries(tx: &mut PgConnection, event: &Event, note: String) -> Result<String, sqlx::Error> {
    sqlx::query("UPDATE accounts SET credits = credits + $1").bind(event.amount).execute(tx).await?;
    Ok(note.clone())
}

#[idempotent(key = "event.id", consumer = "retries", retries = 3)]
async fn retries_anyhow<'e>(tx: &mut PgConnection, event: &'e Event) -> anyhow::Result<&'e str> {
    let _ = tx;
    Ok(&event.id)
}

#[idempotent(key = "event.id", consumer = "each", each = "event in events")]
async fn each(tx: &mut PgConnection, mut events: Vec<Event>) -> Result<usize, sqlx::Error> {
    events.retain(|event| event.amount > 0);
    for event in &events {
        sqlx::query("UPDATE accounts SET credits = credits + $1").bind(event.amount).execute(&mut *tx).await?;
    }
    Ok(events.len())
}

#[idempotent(key = "(tenant, *id)", consumer = "each", each = (id, _) in events)]
async fn each_pattern(tx: &mut PgConnection, tenant: u32, events: Vec<(u64, &Event)>) -> Answer<Vec<u64>> {
    let _ = tx;
    Ok(events.into_iter().map(|(id, _)| id).collect())
}

#[idempotent(key = "event.id", consumer = "pool", pool = "pool")]
async fn pool(tx: &mut PgConnection, pool: &PgPool, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = tx;
    Ok(event.amount)
}

async fn on_message(at: &PgPool, event: &Event, events: Vec<Event>) -> Result<(), Box<dyn std::error::Error>> {
    let _: Outcome<i64> = business_key(at, event).await?;
    let _: Outcome<i64> = business_key_bare(at, event).await?;
    if let Outcome::Replayed(receipt) = replay(at, event).await? {
        println!("{} {:?}", receipt.number, receipt.lines);
    }
    let _: Outcome<Option<Receipt>> = replay_alias(at, event).await?;
    let _: Outcome<i64> = fingerprint(at, event).await?;
    let _: Outcome<i64> = fingerprint_bare(at, event).await?;
    let _: Outcome<i64> = version(at, event).await?;
    let _: Outcome<i64> = gapless(at, event).await?;
    let _: Outcome<i64> = gapless_from(at, event).await?;
    let _: Outcome<i64> = in_flight(at, event).await?;
    let _: Outcome<i64> = in_flight_fail(at, event).await?;
    let _: Outcome<i64> = isolation(at, event).await?;
    let _: Outcome<String> = retries(at, event, String::new()).await?;
    let _: Outcome<&str> = retries_anyhow(at, event).await?;
    let _: idem::BatchOutcome<usize> = each(at, events).await?;
    let _: idem::BatchOutcome<Vec<u64>> = each_pattern(at, 7, vec![(1, event)]).await?;
    let _: Outcome<i64> = pool(at, event).await?;
    Ok(())
}

fn main() {
    let _ = on_message;
}
