use idem::idempotent;

struct OrderPaid {
    id: String,
    account: i64,
    amount: i64,
}

struct Ledger {
    total: i64,
}

#[idempotent(key = "event.id", consumer = "billing")]
async fn add_credits(#[tx] ledger: &mut Ledger, event: &OrderPaid) -> Result<i64, sqlx::Error> {
    ledger.total += event.amount;
    Ok(ledger.total)
}

fn main() {}
