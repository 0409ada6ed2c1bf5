//! The contract on MariaDB, and what is particular to it.
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
    pub(crate) use sqlx::{MySql as Db, MySqlConnection as Conn};

    /// How its protocol is framed, if it has one.
    pub(crate) const WIRE: Option<idem_tests::Wire> = Some(idem_tests::Wire::MySql);
    /// How often every delivery at least waits for an answer.
    pub(crate) const WAITS: usize = 3;
    /// Whether sqlx loses step when a statement is cancelled.
    pub(crate) const CANCELLED_IS_UNUSABLE: bool = true;
    pub(crate) const EFFECT: &str = "INSERT INTO effects (message) VALUES (?)";
    pub(crate) const EFFECTS_OF: &str = "SELECT count(*) FROM effects WHERE message = ?";
    pub(crate) const EFFECTS: &str =
        "CREATE TABLE effects (message varbinary(2000) NOT NULL) ENGINE = InnoDB";
    /// How long the session waits for locks; where it waits as long as [`SET`], it was told to by [`SET_OWN_WAIT`].
    pub(crate) const OWN_WAIT: &str = "SELECT CAST(@@SESSION.innodb_lock_wait_timeout AS SIGNED)";
    pub(crate) const SET_OWN_WAIT: &str = "SET SESSION innodb_lock_wait_timeout = 7";
    pub(crate) const SET: i64 = 7;
    /// What was applied, in its order.
    pub(crate) const LOG: &str = "CREATE TABLE log (id bigint PRIMARY KEY AUTO_INCREMENT, version bigint NOT NULL) ENGINE = InnoDB";
    pub(crate) const CLAIMS_OF: &str =
        "SELECT count(*) FROM processed_messages WHERE message_id = ?";
    pub(crate) const CLAIMS: &str = "SELECT count(*) FROM processed_messages";

    pub(crate) const SET_ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL";
    pub(crate) const CONNECTION_ID: &str = "SELECT CAST(connection_id() AS SIGNED)";
    pub(crate) const KILL: &str = "KILL {}";
    pub(crate) const IS_CONNECTED: &str =
        "SELECT count(*) FROM information_schema.processlist WHERE id = {}";
    pub(crate) const BEGIN_SENT: &str = "BEGIN; SAVEPOINT idem_seal";
    pub(crate) const COMMIT_SENT: &str = "RELEASE SAVEPOINT idem_seal; COMMIT";
}

#[path = "contract/mysql.rs"]
mod particular;
