use idem::idempotent;
use sqlx::{Any, Transaction};

struct OrderPaid {
    id: String,
    account: i64,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "billing")]
async fn add_credits(tx: &mut Transaction<'_, Any>, event: &OrderPaid) -> Result<(), sqlx::Error> {
    let _ = (tx, event.amount);
    Ok(())
}

fn main() {}
