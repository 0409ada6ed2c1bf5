#![deny(unused_must_use)]

use idem::idempotent;
use sqlx::{PgConnection, PgPool};

struct OrderPaid {
    id: String,
    account: i64,
    amount: i64,
}

type Answer = Result<(), sqlx::Error>;

#[idempotent(key = "event.id", consumer = "billing")]
async fn add_credits(tx: &mut PgConnection, event: &OrderPaid) -> Answer {
    sqlx::query("UPDATE accounts SET credits = credits + $1 WHERE id = $2")
        .bind(event.amount)
        .bind(event.account)
        .execute(tx)
        .await?;
    Ok(())
}

async fn on_message(pool: &PgPool, event: &OrderPaid) -> Answer {
    add_credits(pool, event).await?;
    Ok(())
}

fn main() {}
