use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    tenant: u32,
    version: i64,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "billing", business_key = "(event.id, 2, 3, 4, 5, 6, 7, 8, 9)")]
async fn business_key(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", fingerprint = "(event.id, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17)")]
async fn fingerprint(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

fn main() {}
