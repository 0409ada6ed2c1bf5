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

#[idempotent(key = "event.id", consumer = "billing", replay)]
async fn add<'e>(tx: &mut PgConnection, event: &'e Event) -> Result<&'e str, sqlx::Error> {
    let _ = tx;
    Ok(&event.id)
}

fn main() {}
