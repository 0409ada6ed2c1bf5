use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    tenant: u32,
    version: i64,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "billing", pool = "pool")]
async fn pool(tx: &mut PgConnection, pool: &sqlx::PgPool, replica: &sqlx::PgPool, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, pool, replica, event);
    Ok(1)
}

fn main() {}
