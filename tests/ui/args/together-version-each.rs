use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    tenant: u32,
    version: i64,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "billing", version = "event.version", each = "event in events")]
async fn version_each(tx: &mut PgConnection, tenant: u32, events: Vec<Event>) -> Result<i64, sqlx::Error> {
    let _ = (tx, tenant, events);
    Ok(1)
}

fn main() {}
