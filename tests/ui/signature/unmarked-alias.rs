use idem::idempotent;

struct OrderPaid {
    id: String,
    account: i64,
    amount: i64,
}

type Tx<'t> = sqlx::Transaction<'t, sqlx::Postgres>;

#[idempotent(key = "event.id", consumer = "billing")]
async fn add_credits(tx: &mut Tx<'_>, event: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET credits = credits + $1 WHERE id = $2")
        .bind(event.amount)
        .bind(event.account)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

fn main() {}
