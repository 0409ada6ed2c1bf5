// How long claims are kept, what day they are of, and that the program knows its handlers by it.
#![forbid(unsafe_code)]
#![deny(warnings)]
use std::time::{Duration, SystemTime};

use idem::{BatchOutcome, Handler, Outcome, Retain, idempotent};
use sqlx::{MySqlConnection, MySqlPool, PgConnection, PgPool, Postgres, Transaction};

struct Event {
    id: String,
    source: String,
    order: i64,
    sent: SystemTime,
}

#[idempotent(key = "event.id", consumer = "days", retain = "7d", redelivery = "4d")]
async fn windows(tx: &mut MySqlConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = tx;
    Ok(event.order)
}

#[idempotent(key = "event.id", consumer = "forever", retain = "forever")]
async fn forever(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = tx;
    Ok(event.order)
}

#[idempotent(
    key = (event.source, event.id), consumer = "actions", business_key = event.order, retain = "36h1s", redelivery = "1d12h",
    business_retain = "365d"
)]
async fn actions(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = tx;
    Ok(event.order)
}

#[idempotent(key = "event.id", consumer = "by_day", time = "event.sent")]
async fn by_day(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = tx;
    Ok(event.order)
}

#[idempotent(
    key = event.id, consumer = "together", business_key = event.order, time = event.id, from_plain, retain = "7d", redelivery = "4d",
    replay, fingerprint = event.order, retries = 3, in_flight = "fail", isolation = "serializable", pool = pool
)]
async fn together(tx: &mut Transaction<'_, Postgres>, pool: &PgPool, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = tx;
    Ok(event.order)
}

#[idempotent(
    key = "event.id", consumer = "batch", each = "event in events", fingerprint = "event.order", time = "event.sent", from_plain,
    retain = "8d", redelivery = "4d"
)]
async fn batch(tx: &mut PgConnection, events: Vec<Event>) -> Result<usize, sqlx::Error> {
    let _ = tx;
    Ok(events.len())
}

async fn on_message(pool: &PgPool, other: &MySqlPool, event: &Event) -> Result<(), sqlx::Error> {
    let _: Outcome<i64> = windows(other, event).await?;
    let _: Outcome<i64> = forever(pool, event).await?;
    let _: Outcome<i64> = actions(pool, event).await?;
    let _: Outcome<i64> = by_day(pool, event).await?;
    let _: Outcome<i64> = together(pool, event).await?;
    let _: BatchOutcome<usize> = batch(pool, Vec::new()).await?;
    Ok(())
}

fn handler(consumer: &str) -> &'static Handler {
    let mut handlers = idem::handlers();
    handlers.find(|handler| handler.consumer == consumer).expect("a handler")
}

fn main() {
    let _ = on_message;
    assert_eq!(idem::handlers().count(), 6);
    let (day, kept) = (Duration::from_secs(86_400), handler("days"));
    assert_eq!(kept.retain, Some(Retain::For(7 * day)));
    assert_eq!(kept.redelivery, Some(4 * day));
    assert_eq!(handler("forever").retain, Some(Retain::Forever));
    assert_eq!(handler("actions").business_retain, Some(Retain::For(365 * day)));
    assert_eq!(handler("actions").key, "(event.source, event.id)");
    assert_eq!(handler("together").time, Some("event.id"));
    assert!(handler("batch").is_batch);
}
