//! A PostgreSQL primary that dies, and the standby that takes over: what is lost, what is doubled, and what the settings have to do with
//! it. The chapter `src/clusters.md` names these tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

#[path = "failover/cluster.rs"]
mod cluster;
#[path = "failover/limits.rs"]
mod limits;
#[path = "failover/line.rs"]
mod line;
#[path = "failover/rounds.rs"]
mod rounds;
#[path = "failover/waiting.rs"]
mod waiting;

use idem::idempotent;
use sqlx::PgConnection;

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("delivery: {0}")]
    Delivery(#[from] idem::Error),
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
}

/// A row for each time that it is applied, and the sum.
#[idempotent(key = "message", consumer = "billing", in_flight = "1s")]
async fn bill(tx: &mut PgConnection, message: i64) -> Result<(), Failed> {
    sqlx::query("INSERT INTO effects VALUES ($1)")
        .bind(message)
        .execute(&mut *tx)
        .await?;
    sqlx::query("UPDATE accounts SET credits = credits + 1 WHERE id = $1 % 10")
        .bind(message)
        .execute(tx)
        .await?;
    Ok(())
}
