//! The tables of the effects. None of them prevents a second effect: it is to be seen.

use std::time::Duration;

use crate::message::{ACCOUNTS, AGGREGATES};
use crate::store::Store;

/// How many claims of long ago the pruners find.
pub(crate) const OLD_CLAIMS: u32 = 20_000;

/// How many they find that they must leave alone.
pub(crate) const YOUNG_CLAIMS: u32 = 500;

/// The consumer of both, and how long its claims are kept.
pub(crate) const OLD_CONSUMER: &str = "long-ago";
pub(crate) const RETAIN: Duration = Duration::from_hours(7 * 24);

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
    store
        .execute("UPDATE accounts SET balance = 0".to_owned())
        .await?;
    insert_old_claims(store).await
}

/// By the database's clock, some days ago.
async fn insert_old_claims(store: &Store) -> anyhow::Result<()> {
    let ages = (0..OLD_CLAIMS).map(|number| ("old", number, 30));
    let ages = ages.chain((0..YOUNG_CLAIMS).map(|number| ("young", number, 6)));
    let ages: Vec<_> = ages.collect();
    for chunk in ages.chunks(1000) {
        let row = |(name, number, days): &(&str, u32, u32)| {
            let time = match store {
                Store::Postgres(_) => format!("now() - interval '{days} days'"),
                Store::MySql(_) => format!("CURRENT_TIMESTAMP(6) - INTERVAL {days} DAY"),
                Store::Sqlite(_) => format!("strftime('%Y-%m-%d %H:%M:%f', 'now', '-{days} days')"),
            };
            format!("('{OLD_CONSUMER}', '{name}-{number}', {time})")
        };
        let rows: Vec<String> = chunk.iter().map(row).collect();
        let insert = format!(
            "INSERT INTO processed_messages (consumer, message_id, processed_at) VALUES {}",
            rows.join(", ")
        );
        store.execute(insert).await?;
    }
    Ok(())
}
