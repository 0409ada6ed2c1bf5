// The futures are `Send`, also in a loop and over a batch.
use idem::idempotent;
use sqlx::{PgConnection, PgPool};

#[derive(Clone)]
struct Event {
    id: String,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "spawned", retries = 3, replay, fingerprint = "event.amount")]
async fn add(tx: &mut PgConnection, event: Event) -> Result<i64, Box<dyn std::error::Error + Send + Sync>> {
    let query = sqlx::query("UPDATE accounts SET credits = credits + $1");
    query.bind(event.amount).execute(&mut *tx).await?;
    Ok(event.amount)
}

#[idempotent(key = "event.id", consumer = "spawned", each = "event in events")]
async fn add_all(tx: &mut PgConnection, events: Vec<&Event>) -> Result<i64, sqlx::Error> {
    let mut sum = 0;
    for event in events {
        let query = sqlx::query("UPDATE accounts SET credits = credits + $1");
        query.bind(event.amount).execute(&mut *tx).await?;
        sum += event.amount;
    }
    Ok(sum)
}

struct Service {
    pool: PgPool,
}

impl Service {
    #[idempotent(key = "event.id", consumer = "spawned", pool = "self.pool", retries = 3)]
    async fn add(&self, tx: &mut PgConnection, event: &Event) -> anyhow::Result<i64> {
        let _ = tx;
        Ok(event.amount)
    }
}

async fn on_message(pool: PgPool, event: Event) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let handle = tokio::spawn(async move {
        let _ = add(&pool, event.clone()).await?;
        let _ = add_all(&pool, vec![&event, &event]).await?;
        let mut conn = pool.acquire().await?;
        let _ = add(&mut conn, event.clone()).await?;
        let _ = add_all(&mut *conn, vec![&event]).await?;
        let mut outer = sqlx::Connection::begin(&mut *conn).await?;
        let _ = add(&mut outer, event.clone()).await?;
        idem::commit(outer).await?;
        drop(conn);
        let service = Service { pool };
        let _ = Box::pin(service.add(&event)).await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    });
    handle.await??;
    Ok(())
}

fn main() {
    let _ = on_message;
}
