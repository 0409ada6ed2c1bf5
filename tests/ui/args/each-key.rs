use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    tenant: u32,
    version: i64,
    amount: i64,
}

#[idempotent(key = "events[0].id", consumer = "billing", each = "event in events")]
async fn batch(tx: &mut PgConnection, tenant: u32, events: Vec<Event>) -> Result<i64, sqlx::Error> {
    let _ = (tx, tenant, events);
    Ok(1)
}

#[idempotent(key = "tenant", consumer = "billing", each = "event in events")]
async fn other(tx: &mut PgConnection, tenant: u32, events: Vec<Event>) -> Result<i64, sqlx::Error> {
    let _ = (tx, tenant, events);
    Ok(1)
}

#[idempotent(key = "evnt.id", consumer = "billing", each = "event in events")]
async fn misspelt(tx: &mut PgConnection, tenant: u32, events: Vec<Event>) -> Result<i64, sqlx::Error> {
    let _ = (tx, tenant, events);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", each = "event in events", fingerprint = "tenant")]
async fn fingerprint(tx: &mut PgConnection, tenant: u32, events: Vec<Event>) -> Result<i64, sqlx::Error> {
    let _ = (tx, tenant, events);
    Ok(1)
}

fn main() {}
