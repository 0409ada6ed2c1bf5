use std::time::SystemTime;

use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    order: i64,
    version: i64,
    time: SystemTime,
}

#[idempotent(key = "event.id", consumer = "billing", ttl = "7d")]
async fn ttl(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", retention = "7d", redelivery = "4d")]
async fn retention(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", retian = "7d", redelivry = "4d")]
async fn misspelt(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", timestamp = "event.time")]
async fn timestamp(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", occurred_at = "event.time", from_plain)]
async fn occurred_at(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

fn main() {}
