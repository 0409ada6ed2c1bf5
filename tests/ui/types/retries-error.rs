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

enum BillingError {
    Database(sqlx::Error),
    Delivery(idem::Error),
}

impl From<sqlx::Error> for BillingError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<idem::Error> for BillingError {
    fn from(error: idem::Error) -> Self {
        Self::Delivery(error)
    }
}

#[idempotent(key = "event.id", consumer = "billing", retries = 3)]
async fn add(tx: &mut PgConnection, event: &Event) -> Result<i64, BillingError> {
    let _ = (tx, event);
    Ok(1)
}

fn main() {}
