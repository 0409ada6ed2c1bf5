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

struct Service {
    database: String,
}

impl Service {
    #[idempotent(key = "event.id", consumer = "billing", pool = "self.database")]
    async fn add(&self, tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
        let _ = (tx, event);
        Ok(1)
    }
}

fn main() {}
