// The signatures are those that the handlers will have, so that callers hear nothing of the fault.
use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    tenant: u32,
    version: i64,
    amount: i64,
}

#[idempotent(key = "evnt.id", consumer = "billing", each = "event in events")]
async fn each(tx: &mut PgConnection, tenant: u32, events: Vec<Event>) -> Result<i64, sqlx::Error> {
    let _ = (tx, tenant, events);
    Ok(1)
}

#[idempotent(key = "event.id", consumer = "billing", pool = "pol")]
async fn pool(tx: &mut PgConnection, pool: &sqlx::PgPool, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = (tx, pool, event);
    Ok(1)
}

async fn on_message(at: &sqlx::PgPool, event: Event) -> Result<(), sqlx::Error> {
    let _: idem::Outcome<i64> = pool(at, &event).await?;
    let _: idem::BatchOutcome<i64> = each(at, 7, vec![event]).await?;
    Ok(())
}

fn main() {}
