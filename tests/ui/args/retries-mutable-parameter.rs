use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    tenant: u32,
    version: i64,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "billing", retries = 3)]
async fn retries(tx: &mut PgConnection, event: &Event, (mut count, _): (i64, i64)) -> Result<i64, sqlx::Error> {
    count += event.amount;
    let _ = tx;
    Ok(count)
}

fn main() {}
