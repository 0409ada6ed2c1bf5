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

struct Receipt {
    number: i64,
}

#[idempotent(key = "event.id", consumer = "billing", replay)]
async fn add(tx: &mut PgConnection, event: &Event) -> Result<Receipt, sqlx::Error> {
    let _ = (tx, event);
    Ok(Receipt { number: 1 })
}

fn main() {}
