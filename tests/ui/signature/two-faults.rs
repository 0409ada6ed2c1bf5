use idem::idempotent;
use sqlx::PgConnection;

struct OrderPaid {
    id: String,
    account: i64,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "")]
fn add_credits(tx: &PgConnection, event: &OrderPaid) -> i64 {
    let _ = tx;
    event.amount
}

fn main() {}
