//! MariaDB Galera, three nodes that all take deliveries: what P2 and P3 are worth over a cluster. The chapter `src/clusters.md` names these
//! tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

#[path = "galera/arguments.rs"]
mod arguments;
#[path = "galera/cluster.rs"]
mod cluster;
#[path = "galera/outage.rs"]
mod outage;
#[path = "galera/prune.rs"]
mod prune;
#[path = "galera/race.rs"]
mod race;
#[path = "galera/stale.rs"]
mod stale;

use idem::idempotent;
use sqlx::MySqlConnection;

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("delivery: {0}")]
    Delivery(#[from] idem::Error),
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
}

const TABLES: &str = "CREATE TABLE effects (id bigint AUTO_INCREMENT PRIMARY KEY, message bigint NOT NULL); \
    CREATE TABLE accounts (id bigint PRIMARY KEY, credits bigint NOT NULL); \
    INSERT INTO accounts VALUES (0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0), (9, 0)";

/// A row for each time that it is applied, and the sum.
#[idempotent(key = "message", consumer = "billing")]
async fn bill(tx: &mut MySqlConnection, message: i64) -> Result<(), Failed> {
    sqlx::query("INSERT INTO effects (message) VALUES (?)")
        .bind(message)
        .execute(&mut *tx)
        .await?;
    sqlx::query("UPDATE accounts SET credits = credits + 1 WHERE id = ? % 10")
        .bind(message)
        .execute(tx)
        .await?;
    Ok(())
}
