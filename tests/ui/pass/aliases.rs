use idem::idempotent;
use sqlx::{Postgres, Transaction};

struct Event {
    id: String,
    amount: i64,
}

type Answer<T = ()> = Result<T, sqlx::Error>;
type Tx<'t> = Transaction<'t, Postgres>;
type Connection = <Postgres as sqlx::Database>::Connection;

#[idempotent(key = "event.id", consumer = "aliases")]
async fn add(#[tx] tx: &mut Tx<'_>, event: &Event) -> Answer<i64> {
    let _ = tx;
    Ok(event.amount)
}

#[idempotent(key = "event.id", consumer = "connection")]
async fn touch(#[tx] conn: &mut Connection, event: &Event) -> Answer {
    let _ = (conn, event.amount);
    Ok(())
}

fn main() {}
