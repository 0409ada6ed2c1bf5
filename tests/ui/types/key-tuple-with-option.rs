use idem::idempotent;
use sqlx::PgConnection;

struct OrderPaid {
    tenant: u32,
    id: Option<String>,
    amount: i64,
}

#[idempotent(key = "(event.tenant, event.id)", consumer = "billing")]
async fn add_credits(tx: &mut PgConnection, event: &OrderPaid) -> Result<i64, sqlx::Error> {
    let _ = tx;
    Ok(event.amount)
}

fn main() {}
