use idem::idempotent;
use sqlx::PgConnection;

struct OrderPaid {
    id: String,
    account: i64,
    amount: i64,
}

#[derive(Debug, thiserror::Error)]
enum BillingError {
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

#[idempotent(key = "event.id", consumer = "billing")]
async fn add_credits(tx: &mut PgConnection, event: &OrderPaid) -> Result<(), BillingError> {
    sqlx::query("UPDATE accounts SET credits = credits + $1 WHERE id = $2")
        .bind(event.amount)
        .bind(event.account)
        .execute(tx)
        .await?;
    Ok(())
}

fn main() {}
