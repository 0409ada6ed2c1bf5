use idem::idempotent;
use sqlx::PgConnection;

struct OrderPaid {
    id: String,
    account: i64,
    amount: i64,
}

trait Billing {
    #[idempotent(key = "event.id", consumer = "billing")]
    async fn add_credits(&self, tx: &mut PgConnection, event: &OrderPaid) -> Result<(), sqlx::Error>;
}

fn main() {}
