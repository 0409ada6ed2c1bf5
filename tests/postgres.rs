//! The contract on PostgreSQL, and what is particular to it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod contract;
#[path = "contract/server.rs"]
mod server;

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
    /// How long the session waits for locks; where it waits as long as [`SET`], it was told to by [`SET_OWN_WAIT`].
    pub(crate) const OWN_WAIT: &str =
        "SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout'";
    pub(crate) const SET_OWN_WAIT: &str = "SET lock_timeout = 7000";
    pub(crate) const SET: i64 = 7000;
    /// What was applied, in its order.
    pub(crate) const LOG: &str =
        "CREATE TABLE log (id bigserial PRIMARY KEY, version bigint NOT NULL)";
    pub(crate) const CLAIMS_OF: &str =
        "SELECT count(*) FROM processed_messages WHERE message_id = $1";
    pub(crate) const CLAIMS: &str = "SELECT count(*) FROM processed_messages";

    pub(crate) const SET_ISOLATION: &str =
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL";
    pub(crate) const CONNECTION_ID: &str = "SELECT pg_backend_pid()::bigint";
    pub(crate) const KILL: &str = "SELECT pg_terminate_backend({})";
    pub(crate) const IS_CONNECTED: &str = "SELECT count(*) FROM pg_stat_activity WHERE pid = {}";
    pub(crate) const BEGIN_SENT: &str = "BEGIN; SET LOCAL idem.seal = 'set'";
    pub(crate) const COMMIT_SENT: &str = "SELECT 1 / (coalesce(current_setting('idem.seal', true), '') = 'set')::int; COMMIT AND CHAIN";
}

#[path = "contract/postgres.rs"]
mod particular;
