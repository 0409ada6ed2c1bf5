use idem::idempotent;
use sqlx::PgConnection;

struct OrderPaid {
    id: String,
    account: i64,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "billing")]
async fn add_credits(tx: &PgConnection, event: &OrderPaid) -> Result<(), sqlx::Error> {
    let _ = (tx, event.amount);
    Ok(())
}

fn main() {}
