use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    tenant: u32,
    version: i64,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "billing", each = "events")]
async fn no_pattern(tx: &mut PgConnection, tenant: u32, events: Vec<Event>) -> Result<i64, sqlx::Error> {
    let _ = (tx, tenant, events);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", each = "event in self.events")]
async fn field(tx: &mut PgConnection, tenant: u32, events: Vec<Event>) -> Result<i64, sqlx::Error> {
    let _ = (tx, tenant, events);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", each = "_ in events")]
async fn nothing(tx: &mut PgConnection, tenant: u32, events: Vec<Event>) -> Result<i64, sqlx::Error> {
    let _ = (tx, tenant, events);
    Ok(1)
}

fn main() {}
