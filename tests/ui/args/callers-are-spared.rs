// The fault is in the attribute: whoever calls the handler as it is meant to be called hears nothing of it.
use idem::{Outcome, idempotent};
use sqlx::PgConnection;

struct OrderPaid {
    id: String,
    account: i64,
    amount: i64,
}

#[idempotent(key = "evnt.id", consumer = "billing")]
async fn add_credits(tx: &mut PgConnection, event: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET credits = credits + $1 WHERE id = $2")
        .bind(event.amount)
        .bind(event.account)
        .execute(tx)
        .await?;
    Ok(())
}

async fn on_message(pool: &sqlx::PgPool, event: &OrderPaid) -> Result<bool, sqlx::Error> {
    match add_credits(pool, event).await? {
        Outcome::Processed(()) => Ok(true),
        _ => Ok(false),
    }
}

fn main() {}
