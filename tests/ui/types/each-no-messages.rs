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

struct Batch {
    events: Vec<Event>,
}

#[idempotent(key = "event.id", consumer = "billing", each = "event in batch")]
async fn add(tx: &mut PgConnection, batch: Batch) -> Result<i64, sqlx::Error> {
    let mut sum = 0;
    for event in &batch.events {
        sum += event.id.len() as i64;
    }
    let _ = tx;
    Ok(sum)
}

fn main() {}
