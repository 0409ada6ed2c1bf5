//! The contract while claims move from the plain table to the one by days: every handler has a `time` and `from_plain`.
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

mod db {
    pub(crate) use idem_tests_macros::by_day_from_plain as idempotent;

    pub(crate) use crate::by_day::*;
    pub(crate) use crate::on_postgres::*;

    /// Whether claims are made in the plain table too.
    pub(crate) const FROM_PLAIN: bool = true;
    /// The statements that claim a message, and one with a business key, which is in one of them.
    pub(crate) const STATEMENTS: usize = 2;
    pub(crate) const STATEMENTS_BOTH: usize = 2;
    /// Those that prove the seal and store a value.
    pub(crate) const STORES: usize = 2;
    pub(crate) const STORES_BOTH: usize = 2;
    /// What only the claim of a message with one key has in its text.
    pub(crate) const CLAIM: &str = "INSERT INTO processed_messages (consumer, message_id) ";
    /// A message's claim in one table only would not count.
    pub(crate) const CLAIMS: &str = "SELECT (SELECT count(*) FROM processed_messages JOIN processed_messages_by_day USING (consumer, message_id)) + \
        (SELECT count(*) FROM processed_messages WHERE message_id LIKE '|%' OR version IS NOT NULL)";
    pub(crate) const CLAIMS_OF: &str = "SELECT count(*) FROM processed_messages JOIN processed_messages_by_day USING (consumer, message_id) \
        WHERE message_id = $1";
}
