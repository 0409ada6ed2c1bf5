use idem::idempotent;
use sqlx::Postgres;
use sqlx::pool::PoolConnection;

struct OrderPaid {
    id: String,
    account: i64,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "billing")]
async fn add_credits(tx: &mut PoolConnection<Postgres>, event: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET credits = credits + $1 WHERE id = $2")
        .bind(event.amount)
        .bind(event.account)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

fn main() {}
