//! The tables of the effects. None of them prevents a second effect: it is to be seen.

use crate::message::{ACCOUNTS, AGGREGATES};
use crate::store::Store;

/// How many claims of long ago the pruners find.
pub(crate) const OLD_CLAIMS: u32 = 20_000;

/// The consumer of those.
pub(crate) const OLD_CONSUMER: &str = "long-ago";

/// Creates the tables and the claims of long ago.
pub(crate) async fn create(store: &Store) -> anyhow::Result<()> {
    store.migrate().await?;
    let serial = match store {
        Store::Postgres(_) => "bigserial PRIMARY KEY",
        Store::MySql(_) => "bigint PRIMARY KEY AUTO_INCREMENT",
        Store::Sqlite(_) => "integer PRIMARY KEY AUTOINCREMENT",
    };
    let tables = [
        "accounts (id bigint PRIMARY KEY, balance bigint NOT NULL)".to_owned(),
        "ledger (message bigint NOT NULL)".to_owned(),
        "charges (order_number bigint NOT NULL, message bigint NOT NULL)".to_owned(),
        "projections (aggregate bigint PRIMARY KEY, version bigint NOT NULL)".to_owned(),
        // In the order in which versions were applied.
        format!("versions (place {serial}, aggregate bigint NOT NULL, version bigint NOT NULL)"),
        // Written by bodies that fail after it.
        "rolled_back (message bigint NOT NULL)".to_owned(),
    ];
    for table in tables {
        store.execute(format!("CREATE TABLE {table}")).await?;
    }
    for (table, rows) in [("accounts", ACCOUNTS), ("projections", AGGREGATES)] {
        let rows: Vec<String> = (0..rows).map(|id| format!("({id}, -1)")).collect();
        let insert = format!("INSERT INTO {table} VALUES {}", rows.join(", "));
        store.execute(insert).await?;
    }
    store.execute("UPDATE accounts SET balance = 0".to_owned()).await?;
    insert_old_claims(store).await
}

/// By the database's clock, a month ago.
async fn insert_old_claims(store: &Store) -> anyhow::Result<()> {
    let month_ago = match store {
        Store::Postgres(_) => "now() - interval '30 days'",
        Store::MySql(_) => "utc_timestamp(6) - INTERVAL 30 DAY",
        Store::Sqlite(_) => "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-30 days')",
    };
    let numbers: Vec<u32> = (0..OLD_CLAIMS).collect();
    for chunk in numbers.chunks(1000) {
        let rows: Vec<String> = chunk
            .iter()
            .map(|number| format!("('{OLD_CONSUMER}', 'old-{number}', {month_ago})"))
            .collect();
        let insert = format!(
            "INSERT INTO processed_messages (consumer, message_id, processed_at) VALUES {}",
            rows.join(", ")
        );
        store.execute(insert).await?;
    }
    Ok(())
}
