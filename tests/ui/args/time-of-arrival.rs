use std::time::SystemTime;

use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    order: i64,
    version: i64,
    time: SystemTime,
}

#[idempotent(key = "event.id", consumer = "billing", time = "SystemTime::now()")]
async fn clock(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", time = event.sent.unwrap_or_else(SystemTime::now))]
async fn fallback(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", each = "event in events", time = "SystemTime::now()")]
async fn all(tx: &mut PgConnection, events: Vec<Event>) -> Result<i64, sqlx::Error> {
    let _ = (tx, events);
    Ok(1)
}

fn main() {}
