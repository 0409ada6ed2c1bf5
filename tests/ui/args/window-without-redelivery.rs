use std::time::SystemTime;

use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    order: i64,
    version: i64,
    time: SystemTime,
}

#[idempotent(key = "event.id", consumer = "billing", retain = "7d")]
async fn claims(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", business_key = "event.order", business_retain = "365d")]
async fn business(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", retain = "1h")]
async fn short(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

fn main() {}
