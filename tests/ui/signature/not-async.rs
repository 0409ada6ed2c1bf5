use idem::idempotent;
use sqlx::PgConnection;

struct OrderPaid {
    id: String,
    account: i64,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "billing")]
fn add_credits(tx: &mut PgConnection, event: &OrderPaid) -> Result<(), sqlx::Error> {
    let _ = (tx, event.amount);
    Ok(())
}

fn main() {}
