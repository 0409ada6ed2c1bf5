use std::time::SystemTime;

use idem::idempotent;
use sqlx::MySqlConnection;

struct Event {
    id: String,
    order: i64,
    version: i64,
    time: SystemTime,
}

#[idempotent(key = "event.id", consumer = "billing", time = "event.time")]
async fn add(tx: &mut MySqlConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

fn main() {}
