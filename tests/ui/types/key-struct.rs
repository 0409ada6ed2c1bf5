use idem::idempotent;
use sqlx::PgConnection;

struct OrderId(u64);

struct OrderPaid {
    key: OrderId,
    amount: i64,
}

#[idempotent(key = "event.key", consumer = "billing")]
async fn add_credits(tx: &mut PgConnection, event: &OrderPaid) -> Result<i64, sqlx::Error> {
    let _ = tx;
    Ok(event.amount)
}

fn main() {}
