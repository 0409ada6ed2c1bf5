use idem::idempotent;
use sqlx::PgConnection;

struct OrderPaid {
    id: String,
    account: i64,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "billing", priority = 3)]
async fn add_credits(tx: &mut PgConnection, event: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET credits = credits + $1 WHERE id = $2")
        .bind(event.amount)
        .bind(event.account)
        .execute(tx)
        .await?;
    Ok(())
}

fn main() {}
