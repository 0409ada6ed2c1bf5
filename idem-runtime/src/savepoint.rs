use sqlx::{Connection, Database};

use crate::Error;
use crate::backend::{self, Backend, Dialect as _};
use crate::once::AsyncFunc;

/// Runs a part of a handler in a savepoint: when the closure fails, what it wrote is rolled back, and the transaction goes on, also on
/// PostgreSQL, where a failed statement otherwise poisons the rest. For statements that may fail.
///
/// ```no_run
/// # extern crate idem_runtime as idem;
/// # #[cfg(feature = "sqlite")]
/// # async fn example(tx: &mut sqlx::SqliteConnection) -> Result<(), sqlx::Error> {
/// use sqlx::SqliteConnection;
///
/// let counted = idem::savepoint(&mut *tx, async |tx: &mut SqliteConnection| {
///     sqlx::query("UPDATE statistics SET orders = orders + 1").execute(tx).await
/// })
/// .await;
/// if let Err(error) = counted {
///     eprintln!("the statistics are not important: {error}");
/// }
/// # Ok(())
/// # }
/// ```
///
/// It may be dropped half-way: the savepoint is rolled back, and the transaction stays as it was. Dropped while its RELEASE is under way, the part
/// is kept on PostgreSQL, and on MySQL the transaction may fail at its next statement with an error that is transient. (sqlx's own nested `begin()`, dropped while it is under way, rolls the whole
/// transaction back.) On MySQL a deadlock, also within a savepoint, ends the whole transaction; the delivery reports
/// that as [`Error::TransactionLost`].
///
/// # Errors
///
/// The closure's own error, or the library's as `E::from(error)`: [`Error::OuterTransaction`] in a transaction that is aborted,
/// [`Error::TransactionLost`] outside of one, and what the database says to SAVEPOINT and RELEASE.
pub async fn savepoint<C, F, T, E>(conn: &mut C, body: F) -> Result<T, E>
where
    C: Connection,
    C::Database: Backend + Database<Connection = C>,
    F: for<'t> AsyncFunc<&'t mut C, Result<T, E>, Fut: Send>,
    E: From<Error>,
{
    let mut savepoint = Savepoint::set(conn).await?;
    match body(savepoint.conn).await {
        Ok(value) => {
            savepoint.release().await?;
            Ok(value)
        }
        Err(error) => {
            savepoint.roll_back().await;
            Err(error)
        }
    }
}

/// Rolls back when it is dropped.
struct Savepoint<'a, C>
where
    C: Connection,
    C::Database: Backend + Database<Connection = C>,
{
    conn: &'a mut C,
    /// sqlx's depth outside.
    outer: usize,
    is_over: bool,
}

impl<'a, C> Savepoint<'a, C>
where
    C: Connection,
    C::Database: Backend + Database<Connection = C>,
{
    async fn set(conn: &'a mut C) -> Result<Self, Error> {
        C::Database::settle(conn).await.map_err(Error::at_begin)?;
        let outer = backend::depth::<C::Database>(conn);
        if outer == 0 {
            return Err(Error::transaction_lost());
        }
        C::Database::savepoint(conn)
            .await
            .map_err(Error::at_begin)?;
        Ok(Self {
            conn,
            outer,
            is_over: false,
        })
    }

    async fn release(&mut self) -> Result<(), Error> {
        C::Database::settle(self.conn)
            .await
            .map_err(Error::at_commit)?;
        // One that the closure nested and forgot would be released in place of ours.
        let released = if backend::depth::<C::Database>(self.conn) == self.outer + 1 {
            C::Database::release(self.conn)
                .await
                .map_err(Error::at_commit)
        } else {
            Err(Error::transaction_lost())
        };
        if released.is_err() {
            self.roll_back().await;
        }
        self.is_over = true;
        released
    }

    /// If it fails, the transaction is dead, which its own end reports.
    async fn roll_back(&mut self) {
        while backend::depth::<C::Database>(self.conn) > self.outer {
            if C::Database::roll_back_to(self.conn).await.is_err() {
                break;
            }
        }
        self.is_over = true;
    }
}

impl<C> Drop for Savepoint<'_, C>
where
    C: Connection,
    C::Database: Backend + Database<Connection = C>,
{
    fn drop(&mut self) {
        if !self.is_over {
            for _ in 0..C::Database::levels_to_drop(self.conn, self.outer) {
                backend::start_rollback::<C::Database>(self.conn);
            }
        }
    }
}
