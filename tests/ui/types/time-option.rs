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

#[idempotent(key = "event.id", consumer = "billing", time = event.time)]
async fn add(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

fn main() {}
