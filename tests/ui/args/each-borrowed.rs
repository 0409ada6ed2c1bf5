use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    tenant: u32,
    version: i64,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "billing", each = "event in events")]
async fn slice(tx: &mut PgConnection, events: &[Event]) -> Result<i64, sqlx::Error> {
    let _ = (tx, events);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", each = "event in events")]
async fn vec(tx: &mut PgConnection, events: &mut Vec<Event>) -> Result<i64, sqlx::Error> {
    let _ = (tx, events);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", each = "event in events")]
async fn array(tx: &mut PgConnection, events: [Event; 8]) -> Result<i64, sqlx::Error> {
    let _ = (tx, events);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", each = "event in events")]
async fn iterator(tx: &mut PgConnection, events: impl Iterator<Item = Event>) -> Result<i64, sqlx::Error> {
    let _ = (tx, events);
    Ok(1)
}

fn main() {}
