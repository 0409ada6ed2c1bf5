use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    tenant: u32,
    version: i64,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "billing", each = "event in event")]
async fn misspelt(tx: &mut PgConnection, tenant: u32, events: Vec<Event>) -> Result<i64, sqlx::Error> {
    let _ = (tx, tenant, events);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", each = "event in tx")]
async fn transaction(tx: &mut PgConnection, tenant: u32, events: Vec<Event>) -> Result<i64, sqlx::Error> {
    let _ = (tx, tenant, events);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", each = event in batch)]
async fn unknown(tx: &mut PgConnection, tenant: u32, events: Vec<Event>) -> Result<i64, sqlx::Error> {
    let _ = (tx, tenant, events);
    Ok(1)
}

fn main() {}
