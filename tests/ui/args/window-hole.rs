use std::time::SystemTime;

use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    order: i64,
    version: i64,
    time: SystemTime,
}

#[idempotent(key = "event.id", consumer = "billing", retain = "3d", redelivery = "4d")]
async fn shorter(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", redelivery = "4d", retain = "96h")]
async fn equal(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", business_key = "event.order", business_retain = "1d", redelivery = "14d")]
async fn business(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

fn main() {}
