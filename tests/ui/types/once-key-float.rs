use sqlx::{PgConnection, PgPool};

struct OrderPaid {
    amount: f64,
}

async fn on_message(pool: &PgPool, event: &OrderPaid) -> Result<bool, sqlx::Error> {
    let outcome = idem::once(pool, "billing", event.amount, async |tx: &mut PgConnection| {
        sqlx::query("UPDATE accounts SET credits = credits + $1")
            .bind(event.amount)
            .execute(tx)
            .await
    })
    .await?;
    Ok(outcome.is_processed())
}

fn main() {}
