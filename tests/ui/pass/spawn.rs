use idem::idempotent;
use sqlx::{PgConnection, PgPool};

struct Event {
    id: String,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "spawned")]
async fn add(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let query = sqlx::query("UPDATE accounts SET credits = credits + $1");
    query.bind(event.amount).execute(tx).await?;
    Ok(event.amount)
}

async fn on_message(pool: PgPool, event: Event) -> Result<(), Box<dyn std::error::Error>> {
    let handle = tokio::spawn(async move {
        let _ = add(&pool, &event).await?;
        let mut conn = pool.acquire().await?;
        let _ = add(&mut conn, &event).await?;
        let captured = &event;
        idem::once(&pool, "once", &event.id, async |tx| {
            let query = sqlx::query("UPDATE accounts SET credits = credits + $1");
            query.bind(captured.amount).execute(tx).await
        })
        .await
    });
    let _ = handle.await??;
    Ok(())
}

fn main() {
    let _ = on_message;
}
