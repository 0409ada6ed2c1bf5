use std::time::SystemTime;

use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    order: i64,
    version: i64,
    time: SystemTime,
}

#[idempotent(key = "event.id", consumer = "billing", retain = "0s", redelivery = "4d")]
async fn retain(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", retain = "7d", redelivery = "0h")]
async fn redelivery(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

fn main() {}
