//! The contract on PostgreSQL, and what is particular to it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod contract;
#[path = "contract/costs.rs"]
mod costs;
#[path = "contract/server.rs"]
mod server;

#[path = "contract/on_postgres.rs"]
mod on_postgres;
#[path = "contract/plain.rs"]
mod plain;
#[path = "contract/upgrade.rs"]
mod upgrade;

mod db {
    pub(crate) use crate::on_postgres::*;
    pub(crate) use crate::plain::*;

    /// The table of claims as the first users created it, before any argument needed a column of its own.
    pub(crate) const OLDER: &str = r#"CREATE TABLE IF NOT EXISTS processed_messages (
  consumer     text COLLATE "C" NOT NULL,
  message_id   text COLLATE "C" NOT NULL,
  processed_at timestamptz      NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer, message_id)
);"#;
    pub(crate) const ADD_COLUMNS: &str = idem::sql::POSTGRES_UPGRADE;
    pub(crate) const CLAIMS_OF: &str =
        "SELECT count(*) FROM processed_messages WHERE message_id = $1";
    /// The statements that claim a message, and one with a business key.
    pub(crate) const STATEMENTS: usize = 1;
    pub(crate) const STATEMENTS_BOTH: usize = 1;
    /// What only the claim of a message with one key has in its text.
    pub(crate) const CLAIM: &str = "INSERT INTO processed_messages (consumer, message_id) ";
    /// The round trips that prove the seal and store a value, for a message with one key and with two.
    pub(crate) const STORES: usize = 1;
    pub(crate) const STORES_BOTH: usize = 1;
}

#[path = "contract/postgres.rs"]
mod particular;
#[path = "contract/postgres_arguments.rs"]
mod particular_arguments;
#[path = "contract/postgres_conflicts.rs"]
mod particular_conflicts;
#[path = "contract/postgres_schema.rs"]
mod particular_schema;
