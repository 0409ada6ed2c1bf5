//! What the kit does to a database, each in a dialect of its own.

use std::collections::BTreeSet;

use sqlx::{Database, Pool};

use crate::backend::BoxFuture;

/// Part of [`Backend`](crate::Backend), and sealed like it.
pub trait Harms: Database {
    /// A connection to hold while the proof runs, where the database would be gone with its last one.
    fn keep(pool: &Pool<Self>) -> BoxFuture<'_, Result<Option<Self::Connection>, sqlx::Error>> {
        let _ = pool;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Whether there is a server that can end a connection.
    const KILLS: bool;

    /// Lets the server end this connection.
    fn kill(conn: &mut Self::Connection) -> BoxFuture<'_, ()>;

    /// Makes it possible to refuse writes, where a transaction cannot do that for itself.
    fn prepare(conn: &mut Self::Connection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        let _ = conn;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Takes that back.
    fn clean_up(conn: &mut Self::Connection) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        let _ = conn;
        Box::pin(std::future::ready(Ok(())))
    }

    /// The tables to which this transaction has written, where the database knows. Otherwise writes are refused on all that it finds.
    fn written(conn: &mut Self::Connection) -> BoxFuture<'_, Result<Vec<String>, sqlx::Error>> {
        let _ = conn;
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Lets the write with this number fail, from 1 on, counted from here to the end of the transaction.
    fn refuse_write<'a>(
        conn: &'a mut Self::Connection,
        number: u32,
        tables: &'a BTreeSet<String>,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>>;

    /// Takes that back; how many writes there were.
    fn allow_writes(conn: &mut Self::Connection) -> BoxFuture<'_, Result<u32, sqlx::Error>>;

    /// Removes a claim.
    fn forget<'a>(
        conn: &'a mut Self::Connection,
        consumer: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>>;
}
