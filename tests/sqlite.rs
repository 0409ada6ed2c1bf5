//! The contract on SQLite, and what is particular to it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod contract;

#[path = "contract/plain.rs"]
mod plain;
#[path = "contract/upgrade.rs"]
mod upgrade;

mod db {
    pub(crate) use crate::plain::*;
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
    /// Whether a transaction has an isolation level.
    pub(crate) const HAS_LEVELS: bool = false;
    /// Whether a statement that fails aborts the transaction.
    pub(crate) const ABORTS: bool = false;
    /// For sessions in which [`conflict`] can be.
    pub(crate) const SNAPSHOTS: &str = "SELECT 1";
    pub(crate) const CONFLICTS: &str = "CREATE TABLE conflicts (id integer PRIMARY KEY, n integer NOT NULL); INSERT INTO conflicts VALUES (1, 0), (2, 0)";
    /// The table of claims as the first users created it, before any argument needed a column of its own.
    pub(crate) const OLDER: &str = r"CREATE TABLE IF NOT EXISTS processed_messages (
  consumer     text NOT NULL,
  message_id   text NOT NULL,
  processed_at text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
  PRIMARY KEY (consumer, message_id)
) WITHOUT ROWID;";
    pub(crate) const ADD_COLUMNS: &str = idem::sql::SQLITE_UPGRADE;
    /// How long the session waits for locks; where it waits as long as [`SET`], it was told to by [`SET_OWN_WAIT`].
    pub(crate) const OWN_WAIT: &str = "PRAGMA busy_timeout";
    pub(crate) const SET_OWN_WAIT: &str = "PRAGMA busy_timeout = 7000";
    pub(crate) const SET: i64 = 7000;
    /// What was applied, in its order.
    pub(crate) const LOG: &str =
        "CREATE TABLE log (id integer PRIMARY KEY AUTOINCREMENT, version integer NOT NULL)";
    pub(crate) const CLAIMS_OF: &str =
        "SELECT count(*) FROM processed_messages WHERE message_id = ?";

    /// There is one.
    pub(crate) fn level(_: &mut Conn) -> std::future::Ready<Result<String, sqlx::Error>> {
        std::future::ready(Ok("serializable".to_owned()))
    }

    /// Loses against another transaction. A delivery begins as a writer, and nobody can write beside it; but its body may lose in another
    /// database: who has read there before another one wrote, and then writes, gets `SQLITE_BUSY_SNAPSHOT`.
    pub(crate) async fn conflict(pool: &sqlx::Pool<Db>, _: &mut Conn) -> Result<(), sqlx::Error> {
        let file = pool
            .connect_options()
            .get_filename()
            .with_extension("other");
        let options = sqlx::sqlite::SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal);
        let other = sqlx::SqlitePool::connect_with(options).await?;
        sqlx::raw_sql("CREATE TABLE IF NOT EXISTS conflicts (n integer)")
            .execute(&other)
            .await?;
        let mut reader = other.begin().await?;
        sqlx::query("SELECT n FROM conflicts")
            .fetch_all(&mut *reader)
            .await?;
        sqlx::query("INSERT INTO conflicts VALUES (1)")
            .execute(&other)
            .await?;
        let lost = sqlx::query("INSERT INTO conflicts VALUES (2)")
            .execute(&mut *reader)
            .await;
        drop(reader);
        other.close().await;
        lost.map(drop)
    }
}

#[path = "contract/sqlite.rs"]
mod particular;
#[path = "contract/sqlite_faults.rs"]
mod particular_faults;
