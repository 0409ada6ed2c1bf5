//! The contract where every handler has a `time`, so that its claims are in PostgreSQL's table by days, and what is particular to that table.
//!
//! Left out are `upgrade` and `postgres_schema`, which are about the plain table's own columns and key.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

#[path = "contract/by_day.rs"]
mod by_day;
mod contract;
#[path = "contract/costs.rs"]
mod costs;
#[path = "contract/on_postgres.rs"]
mod on_postgres;
#[path = "contract/postgres.rs"]
mod particular;
#[path = "contract/postgres_arguments.rs"]
mod particular_arguments;
#[path = "contract/server.rs"]
mod server;

#[path = "partitions/mod.rs"]
mod of_days;

mod db {
    pub(crate) use idem_tests_macros::by_day as idempotent;

    pub(crate) use crate::by_day::*;
    pub(crate) use crate::on_postgres::*;

    /// Whether claims are made in the plain table too.
    pub(crate) const FROM_PLAIN: bool = false;
    /// The statements that claim a message, and one with a business key, which stays in the plain table.
    pub(crate) const STATEMENTS: usize = 1;
    pub(crate) const STATEMENTS_BOTH: usize = 2;
    /// Those that prove the seal and store a value.
    pub(crate) const STORES: usize = 1;
    pub(crate) const STORES_BOTH: usize = 2;
    /// What only the claim of a message with one key has in its text.
    pub(crate) const CLAIM: &str = "INSERT INTO processed_messages_by_day ";
    /// A message's claim in the plain table would not count.
    pub(crate) const CLAIMS: &str = "SELECT (SELECT count(*) FROM processed_messages_by_day) + \
        (SELECT count(*) FROM processed_messages WHERE message_id LIKE '|%' OR version IS NOT NULL)";
    pub(crate) const CLAIMS_OF: &str =
        "SELECT count(*) FROM processed_messages_by_day WHERE message_id = $1";
}
