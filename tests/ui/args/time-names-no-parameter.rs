use std::time::SystemTime;

use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    order: i64,
    version: i64,
    time: SystemTime,
}

#[idempotent(key = "event.id", consumer = "billing", time = "SystemTime::UNIX_EPOCH")]
async fn constant(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", time = "evnt.time")]
async fn misspelt(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", time = "tx.time()")]
async fn transaction(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", time = "(event.day, event.hour)")]
async fn parts(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", each = "event in events", time = "events[0].time")]
async fn batch(tx: &mut PgConnection, events: Vec<Event>) -> Result<i64, sqlx::Error> {
    let _ = (tx, events);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", each = "event in events", time = "sent")]
async fn other(tx: &mut PgConnection, events: Vec<Event>, sent: SystemTime) -> Result<i64, sqlx::Error> {
    let _ = (tx, events, sent);
    Ok(1)
}

fn main() {}
