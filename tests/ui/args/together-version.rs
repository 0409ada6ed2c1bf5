use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    tenant: u32,
    version: i64,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "billing", version = "event.version", replay)]
async fn replay(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", fingerprint = "event.amount", version = "event.version")]
async fn fingerprint(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", version = "event.version", business_key = "event.tenant")]
async fn business_key(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

fn main() {}
