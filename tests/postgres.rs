//! The contract on `PostgreSQL`, and what is particular to it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod contract;

mod db {
    pub(crate) use sqlx::{PgConnection as Conn, Postgres as Db};

    /// How its protocol is framed, if it has one.
    pub(crate) const WIRE: Option<idem_tests::Wire> = Some(idem_tests::Wire::Postgres);
    /// How often every delivery at least waits for an answer.
    pub(crate) const WAITS: usize = 3;
    /// Whether sqlx loses step when a statement is cancelled.
    pub(crate) const CANCELLED_IS_UNUSABLE: bool = false;
    pub(crate) const EFFECT: &str = "INSERT INTO effects (message) VALUES ($1)";
    pub(crate) const EFFECTS_OF: &str = "SELECT count(*) FROM effects WHERE message = $1";
    pub(crate) const EFFECTS: &str = "CREATE TABLE effects (message text NOT NULL)";
    pub(crate) const CLAIMS_OF: &str =
        "SELECT count(*) FROM processed_messages WHERE message_id = $1";
    pub(crate) const CLAIMS: &str = "SELECT count(*) FROM processed_messages";
}
