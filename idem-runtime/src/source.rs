use sqlx::pool::PoolConnection;
use sqlx::{Pool, Transaction};

use crate::Error;
use crate::backend::{self, Backend, BoxFuture, Limit};
use crate::error::Step;

/// Where a delivery's transaction comes from: it stands where the handler declares its transaction.
///
/// - `&pool` takes one connection for the delivery.
/// - `&mut connection`, plain or of a pool, uses the one that you hold.
/// - `&mut transaction` joins a transaction of yours through a savepoint. `Ok` then means that the savepoint is released, and the effect
///   is there once you commit: with [`commit`](crate::commit), which notices a transaction that is dead. Acknowledge after that.
/// - [`Unprepared`] around any of these leaves no prepared statement behind.
///
/// The transaction is sqlx's: one that was opened by hand (`raw_sql("BEGIN")`) is not seen, and would be committed or rolled back with the
/// delivery. Within a handler, pass its transaction on to other handlers: a pool there would take a second connection, and could wait for
/// the first.
///
/// # Cancellation
///
/// A delivery may be dropped at any point. A pool stays clean: where the state of the connection is in doubt, it is closed (on
/// PostgreSQL while the delivery begins and claims, on MySQL until it ends). A transaction of yours stays as it was. If the delivery was
/// dropped while its savepoint was being released, its effect and its claim may be in that transaction already, together, and the
/// redelivery is a duplicate; on MySQL the transaction may fail with an error at its next statement instead.
///
/// What you hold the library cannot close. A plain `&mut connection` on which a delivery was dropped may be left in an open, empty
/// transaction: the next delivery on it is unharmed, but close it before you use it for anything else. Lend `&mut PoolConnection` to
/// have it closed for you.
///
/// On MySQL, sqlx 0.9 may take the answer of a cancelled statement, of anyone's, for the answer of the next one, or wait for ever. Do not
/// cancel single statements there, in a handler neither. After a delivery was dropped on a connection or transaction that you hold there, close the connection (`PoolConnection::close_on_drop`). Every claim, and
/// [`commit`](crate::commit), notices a connection that is out of step.
#[diagnostic::on_unimplemented(
    message = "no transaction can be taken from `{Self}`",
    label = "expected `&pool`, `&mut connection` or `&mut transaction`",
    note = "a pool is lent as `&pool` (in an `Arc`: `&*pool`), a connection as `&mut conn`, a transaction as `&mut tx`; its database needs its feature of idem: `postgres`, `mysql` or `sqlite`",
    note = "idem needs sqlx 0.9: if the type is right, another version may be in the tree (`cargo tree -d`)"
)]
pub trait Source<'c>: Send {
    /// The database.
    type Database: Backend;

    /// Takes the connection.
    #[doc(hidden)]
    fn lease(self) -> BoxFuture<'c, Result<Lease<'c, Self::Database>, Error>>;
}

#[diagnostic::do_not_recommend]
impl<'c, DB: Backend> Source<'c> for &Pool<DB> {
    type Database = DB;

    fn lease(self) -> BoxFuture<'c, Result<Lease<'c, DB>, Error>> {
        let connection = self.acquire();
        Box::pin(async move {
            let connection = connection.await.map_err(Error::database(Step::Acquire))?;
            Ok(Lease::new(Connection::Pooled(connection)))
        })
    }
}

#[diagnostic::do_not_recommend]
impl<'c, DB: Backend> Source<'c> for &'c mut PoolConnection<DB> {
    type Database = DB;

    fn lease(self) -> BoxFuture<'c, Result<Lease<'c, DB>, Error>> {
        ready(Lease::new(Connection::HeldOfPool(self)))
    }
}

#[diagnostic::do_not_recommend]
impl<'c, DB: Backend> Source<'c> for &'c mut Transaction<'_, DB> {
    type Database = DB;

    fn lease(self) -> BoxFuture<'c, Result<Lease<'c, DB>, Error>> {
        let mut lease = Lease::new(Connection::Held(&mut **self));
        lease.joins = true;
        ready(lease)
    }
}

macro_rules! connections {
    ($($feature:literal $database:ident $connection:ident)*) => {$(
        #[cfg(feature = $feature)]
        #[diagnostic::do_not_recommend]
        impl<'c> Source<'c> for &'c mut sqlx::$connection {
            type Database = sqlx::$database;

            fn lease(self) -> BoxFuture<'c, Result<Lease<'c, sqlx::$database>, Error>> {
                ready(Lease::new(Connection::Held(self)))
            }
        }
    )*};
}

connections! {
    "postgres" Postgres PgConnection
    "mysql" MySql MySqlConnection
    "sqlite" Sqlite SqliteConnection
}

fn ready<DB: Backend>(lease: Lease<'_, DB>) -> BoxFuture<'_, Result<Lease<'_, DB>, Error>> {
    Box::pin(std::future::ready(Ok(lease)))
}

/// A source whose claim is not kept as a prepared statement, for a pooler in transaction mode that does not know them (pgbouncer before
/// 1.21). The statements of the handler need `.persistent(false)` for themselves.
///
/// ```no_run
/// # extern crate idem_runtime as idem;
/// # #[cfg(feature = "sqlite")]
/// # async fn example(pool: &sqlx::SqlitePool) -> Result<(), idem::Error> {
/// let claimed = idem::claim(idem::Unprepared(pool), "billing", "evt-1").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Unprepared<S>(
    /// The source.
    pub S,
);

#[diagnostic::do_not_recommend]
impl<'c, S: Source<'c>> Source<'c> for Unprepared<S> {
    type Database = S::Database;

    fn lease(self) -> BoxFuture<'c, Result<Lease<'c, S::Database>, Error>> {
        let lease = self.0.lease();
        Box::pin(async move {
            let mut lease = lease.await?;
            lease.persistent = false;
            Ok(lease)
        })
    }
}

/// One connection for one delivery, and what has to happen to it when the delivery is dropped at any point.
#[doc(hidden)]
pub struct Lease<'c, DB: Backend> {
    connection: Connection<'c, DB>,
    pub(crate) guard: Guard,
    /// Whether there is an outer transaction to join.
    pub(crate) joins: bool,
    pub(crate) persistent: bool,
}

enum Connection<'c, DB: Backend> {
    Pooled(PoolConnection<DB>),
    HeldOfPool(&'c mut PoolConnection<DB>),
    Held(&'c mut DB::Connection),
}

/// What the drop of a [`Lease`] does.
#[derive(Default)]
pub(crate) struct Guard {
    /// Close the connection instead of returning it to its pool, since its state is unknown.
    pub(crate) close: bool,
    /// Roll back so many levels of sqlx's depth.
    pub(crate) levels: usize,
    /// Give the session its own bound for waits back.
    pub(crate) limit: Option<Limit>,
}

impl Guard {
    pub(crate) const CLOSE: Self = Self {
        close: true,
        levels: 0,
        limit: None,
    };
}

impl<'c, DB: Backend> Lease<'c, DB> {
    fn new(connection: Connection<'c, DB>) -> Self {
        Self {
            connection,
            guard: Guard::default(),
            joins: false,
            persistent: true,
        }
    }

    pub(crate) fn connection(&mut self) -> &mut DB::Connection {
        self.split().0
    }

    pub(crate) fn connection_ref(&self) -> &DB::Connection {
        match &self.connection {
            Connection::Pooled(connection) => connection,
            Connection::HeldOfPool(connection) => connection,
            Connection::Held(connection) => connection,
        }
    }

    pub(crate) fn split(&mut self) -> (&mut DB::Connection, &mut Guard) {
        let connection = match &mut self.connection {
            Connection::Pooled(connection) => &mut **connection,
            Connection::HeldOfPool(connection) => connection,
            Connection::Held(connection) => connection,
        };
        (connection, &mut self.guard)
    }

    /// Whether the connection is a pool's, so that no transaction can be open on it that its holder knows of.
    pub(crate) fn is_of_pool(&self) -> bool {
        !matches!(self.connection, Connection::Held(_))
    }

    pub(crate) fn returns_to_pool(&self) -> bool {
        matches!(self.connection, Connection::Pooled(_))
    }
}

impl<DB: Backend> Drop for Lease<'_, DB> {
    fn drop(&mut self) {
        if self.guard.close {
            match &mut self.connection {
                Connection::Pooled(connection) => return connection.close_on_drop(),
                Connection::HeldOfPool(connection) => return connection.close_on_drop(),
                // It cannot be closed from here, but left in no transaction.
                Connection::Held(_) => {}
            }
        }
        let levels = self.guard.levels;
        for _ in 0..levels {
            backend::start_rollback::<DB>(self.connection());
        }
        if let Some(limit) = self.guard.limit {
            DB::start_lifting_limit(self.connection(), limit);
        }
    }
}
