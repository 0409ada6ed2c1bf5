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

type Batch = Box<[Event]>;

#[idempotent(key = "event.id", consumer = "billing", each = "event in events")]
async fn add(tx: &mut PgConnection, events: Batch) -> Result<i64, sqlx::Error> {
    let mut sum = 0;
    for event in &events {
        sum += event.id.len() as i64;
    }
    let _ = tx;
    Ok(sum)
}

fn main() {}
