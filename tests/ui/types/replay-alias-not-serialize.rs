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

type Answer = Result<Receipt, sqlx::Error>;

#[idempotent(key = "event.id", consumer = "billing", replay)]
async fn add(tx: &mut PgConnection, event: &Event) -> Answer {
    let _ = (tx, event);
    Ok(Receipt { number: 1 })
}

fn main() {}
