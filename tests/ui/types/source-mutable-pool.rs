use idem::idempotent;
use sqlx::{PgConnection, PgPool};

struct OrderPaid {
    id: String,
    account: i64,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "billing")]
async fn add_credits(tx: &mut PgConnection, event: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET credits = credits + $1 WHERE id = $2")
        .bind(event.amount)
        .bind(event.account)
        .execute(tx)
        .await?;
    Ok(())
}

async fn on_message(mut pool: PgPool, event: &OrderPaid) -> Result<bool, sqlx::Error> {
    let outcome = add_credits(&mut pool, event).await?;
    Ok(outcome.is_processed())
}

fn main() {}
