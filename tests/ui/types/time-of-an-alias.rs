use std::time::SystemTime;

use idem::idempotent;
use sqlx::{Sqlite, Transaction};

struct Event {
    id: String,
    time: SystemTime,
}

type Tx<'t> = Transaction<'t, Sqlite>;

#[idempotent(key = "event.id", consumer = "billing", time = "event.time")]
async fn add(#[tx] tx: &mut Tx<'_>, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

fn main() {}
