use idem::idempotent;
use sqlx::PgConnection;

struct OrderPaid {
    id: String,
    account: i64,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "billing")]
async fn add_credits(tx: &mut PgConnection, event: &OrderPaid) -> Result<impl Iterator<Item = i64>, sqlx::Error> {
    let _ = tx;
    Ok(std::iter::once(event.amount))
}

fn main() {}
