use async_trait::async_trait;
use idem::idempotent;
use sqlx::PgConnection;

struct OrderPaid {
    id: String,
    account: i64,
    amount: i64,
}

#[async_trait]
trait Consumer {
    async fn consume(&self, tx: &mut PgConnection, event: &OrderPaid) -> Result<(), sqlx::Error>;
}

struct Billing;

#[async_trait]
impl Consumer for Billing {
    #[idempotent(key = "event.id", consumer = "billing")]
    async fn consume(&self, tx: &mut PgConnection, event: &OrderPaid) -> Result<(), sqlx::Error> {
        let _ = (tx, event.amount);
        Ok(())
    }
}

fn main() {}
