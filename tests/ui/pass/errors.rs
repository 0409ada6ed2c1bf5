use std::error::Error;

use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    amount: i64,
}

#[derive(Debug, thiserror::Error)]
enum BillingError {
    #[error("nothing to add")]
    Nothing,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    #[error(transparent)]
    Delivery(#[from] idem::Error),
}

async fn write(tx: &mut PgConnection, event: &Event) -> Result<(), sqlx::Error> {
    let query = sqlx::query("UPDATE accounts SET credits = credits + $1");
    query.bind(event.amount).execute(tx).await.map(|_| ())
}

#[idempotent(key = "event.id", consumer = "own")]
async fn own(tx: &mut PgConnection, event: &Event) -> Result<(), BillingError> {
    if event.amount == 0 {
        return Err(BillingError::Nothing);
    }
    Ok(write(tx, event).await?)
}

#[idempotent(key = "event.id", consumer = "boxed")]
async fn boxed(tx: &mut PgConnection, event: &Event) -> Result<(), Box<dyn Error + Send + Sync>> {
    if event.amount == 0 {
        Err("nothing to add")?;
    }
    write(tx, event).await?;
    if event.amount < 0 { Err("negative".into()) } else { Ok(()) }
}

#[idempotent(key = "event.id", consumer = "anyhow")]
async fn any(tx: &mut PgConnection, event: &Event) -> anyhow::Result<Box<dyn Fn(i64) -> i64 + Send>> {
    anyhow::ensure!(event.amount > 0, "nothing to add");
    write(tx, event).await?;
    Ok(Box::new(|amount| amount + 1))
}

#[idempotent(key = "event.id", consumer = "never")]
async fn never(tx: &mut PgConnection, event: &Event) -> Result<(), idem::Error> {
    let _ = (tx, event.amount);
    unimplemented!("a body may also diverge")
}

fn main() {}
