//! The contract on SQLite, and what is particular to it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod contract;

mod db {
    pub(crate) use sqlx::{Sqlite as Db, SqliteConnection as Conn};

    /// How its protocol is framed, if it has one.
    pub(crate) const WIRE: Option<idem_tests::Wire> = None;
    /// How often every delivery at least waits for an answer.
    pub(crate) const WAITS: usize = 1;
    /// Whether sqlx loses step when a statement is cancelled.
    pub(crate) const CANCELLED_IS_UNUSABLE: bool = false;
    pub(crate) const EFFECT: &str = "INSERT INTO effects (message) VALUES (?)";
    pub(crate) const EFFECTS_OF: &str = "SELECT count(*) FROM effects WHERE message = ?";
    pub(crate) const EFFECTS: &str = "CREATE TABLE effects (message text NOT NULL)";
    /// How long the session waits for locks; where it waits as long as [`SET`], it was told to by [`SET_OWN_WAIT`].
    pub(crate) const OWN_WAIT: &str = "PRAGMA busy_timeout";
    pub(crate) const SET_OWN_WAIT: &str = "PRAGMA busy_timeout = 7000";
    pub(crate) const SET: i64 = 7000;
    /// What was applied, in its order.
    pub(crate) const LOG: &str =
        "CREATE TABLE log (id integer PRIMARY KEY AUTOINCREMENT, version integer NOT NULL)";
    pub(crate) const CLAIMS_OF: &str =
        "SELECT count(*) FROM processed_messages WHERE message_id = ?";
    pub(crate) const CLAIMS: &str = "SELECT count(*) FROM processed_messages";
}

#[path = "contract/sqlite.rs"]
mod particular;
