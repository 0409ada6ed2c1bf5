use std::time::SystemTime;

use idem::{Backend, Tx, idempotent};

struct Event {
    id: String,
    time: SystemTime,
}

#[idempotent(key = "event.id", consumer = "billing", time = "event.time")]
async fn add<DB: Backend>(tx: &mut Tx<'_, DB>, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

fn main() {}
