use idem::idempotent;

struct OrderPaid {
    id: String,
    account: i64,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "billing")]
async fn add_credits(tx: &mut sqlx::AnyConnection, event: &OrderPaid) -> Result<(), sqlx::Error> {
    let _ = (tx, event.amount);
    Ok(())
}

fn main() {}
