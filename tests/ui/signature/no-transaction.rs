use idem::idempotent;

struct OrderPaid {
    id: String,
    account: i64,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "billing")]
async fn add_credits(event: &OrderPaid) -> Result<i64, sqlx::Error> {
    Ok(event.amount)
}

fn main() {}
