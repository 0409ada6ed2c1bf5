use idem::idempotent;
use sqlx::PgConnection;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    #[error("delivery: {0}")]
    Delivery(#[from] idem::Error),
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
}

async fn record(tx: &mut PgConnection, message: i64) -> Result<(), Failed> {
    sqlx::query("INSERT INTO effects VALUES ($1)")
        .persistent(false)
        .bind(message)
        .execute(tx)
        .await?;
    Ok(())
}

#[idempotent(key = "message", consumer = "billing")]
pub(crate) async fn bill(tx: &mut PgConnection, message: i64) -> Result<(), Failed> {
    record(tx, message).await
}

#[idempotent(key = "message", consumer = "billing", in_flight = "5s")]
pub(crate) async fn bill_soon(tx: &mut PgConnection, message: i64) -> Result<(), Failed> {
    record(tx, message).await
}

#[idempotent(key = "message", consumer = "receipts", replay)]
pub(crate) async fn receipt(tx: &mut PgConnection, message: i64) -> Result<i64, Failed> {
    record(tx, message).await?;
    Ok(message * 7)
}

#[idempotent(key = "order", consumer = "orders", version = "version")]
pub(crate) async fn order(tx: &mut PgConnection, order: i64, version: i64) -> Result<(), Failed> {
    let _ = order;
    record(tx, version).await
}

#[idempotent(key = "message", consumer = "batches", each = "message in messages")]
pub(crate) async fn all(tx: &mut PgConnection, messages: Vec<i64>) -> Result<(), Failed> {
    for message in messages {
        record(tx, message).await?;
    }
    Ok(())
}
