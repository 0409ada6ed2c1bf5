use std::time::SystemTime;

use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    order: i64,
    version: i64,
    time: Option<SystemTime>,
    created_ms: i64,
}

#[idempotent(key = "event.id", consumer = "billing", each = "event in events", time = event.created_ms)]
async fn add(tx: &mut PgConnection, events: Vec<Event>) -> Result<i64, sqlx::Error> {
    let _ = (tx, events);
    Ok(1)
}

fn main() {}
