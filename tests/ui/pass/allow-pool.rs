use std::sync::Arc;

use idem::idempotent;
use sqlx::{PgConnection, PgPool};

struct Event {
    id: String,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "reads", allow_pool)]
async fn add(
    tx: &mut PgConnection,
    rates: &PgPool,
    shared: Arc<PgPool>,
    event: &Event,
) -> Result<i64, sqlx::Error> {
    let _ = (tx, rates.size(), shared.size());
    Ok(event.amount)
}

fn main() {}
