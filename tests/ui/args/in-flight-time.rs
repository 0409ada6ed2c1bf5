use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    tenant: u32,
    version: i64,
    amount: i64,
}

#[idempotent(key = "event.id", consumer = "billing", in_flight = "5")]
async fn no_unit(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", in_flight = "5 sec")]
async fn unknown_unit(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", in_flight = "1.5s")]
async fn fraction(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", in_flight = "0s")]
async fn nothing(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", in_flight = "2h")]
async fn long(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, event);
    Ok(1)
}

fn main() {}
