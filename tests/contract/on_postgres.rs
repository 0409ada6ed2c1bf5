//! What the contract has to know about PostgreSQL.

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
/// Whether a transaction has an isolation level.
pub(crate) const HAS_LEVELS: bool = true;
/// Whether a statement that fails aborts the transaction.
pub(crate) const ABORTS: bool = true;
/// For sessions in which [`conflict`] can be.
pub(crate) const SNAPSHOTS: &str =
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ";
pub(crate) const CONFLICTS: &str = "CREATE TABLE conflicts (id int PRIMARY KEY, n bigint NOT NULL); INSERT INTO conflicts VALUES (1, 0), (2, 0)";
/// How long the session waits for locks; where it waits as long as [`SET`], it was told to by [`SET_OWN_WAIT`].
pub(crate) const OWN_WAIT: &str =
    "SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout'";
pub(crate) const SET_OWN_WAIT: &str = "SET lock_timeout = 7000";
pub(crate) const SET: i64 = 7000;
/// What was applied, in its order.
pub(crate) const LOG: &str = "CREATE TABLE log (id bigserial PRIMARY KEY, version bigint NOT NULL)";

/// The round trips more that tell which of several claims were there, where the claims' own statement does not.
pub(crate) const MET: usize = 0;
/// Those that bound a wait.
pub(crate) const BOUND: usize = 0;
pub(crate) const SET_ISOLATION: &str = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL";
pub(crate) const CONNECTION_ID: &str = "SELECT pg_backend_pid()::bigint";
pub(crate) const KILL: &str = "SELECT pg_terminate_backend({})";
pub(crate) const IS_CONNECTED: &str = "SELECT count(*) FROM pg_stat_activity WHERE pid = {}";
pub(crate) const BEGIN_SENT: &str = "BEGIN; SET LOCAL idem.seal = 'set'";
pub(crate) const COMMIT_SENT: &[&str] = &[
    "SELECT 1 / (coalesce(current_setting('idem.seal', true), '') = 'set')::int; COMMIT AND CHAIN",
];

pub(crate) async fn level(conn: &mut Conn) -> Result<String, sqlx::Error> {
    sqlx::query_scalar("SHOW transaction_isolation")
        .fetch_one(conn)
        .await
}

/// Loses against another transaction: it changes what that has changed since this one's snapshot.
pub(crate) async fn conflict(pool: &sqlx::Pool<Db>, tx: &mut Conn) -> Result<(), sqlx::Error> {
    const CHANGE: &str = "UPDATE conflicts SET n = n + 1 WHERE id = 1";
    sqlx::query(CHANGE).execute(pool).await?;
    sqlx::query(CHANGE).execute(tx).await.map(drop)
}
