use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    amount: f64,
    version: String,
    source: Option<String>,
    tags: Tags,
}

struct Tags(Vec<String>);

async fn store(tx: &mut PgConnection, event: Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", retries = 3)]
async fn add(tx: &mut PgConnection, event: Event) -> Result<i64, sqlx::Error> {
    store(tx, event).await
}

fn main() {}
