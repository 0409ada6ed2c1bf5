//! What the attribute's expansion calls. Not for use by hand: it changes without notice.

use sqlx::Transaction;

pub use core::option::Option;
pub use core::result::Result;

use crate::backend::Backend;
pub use crate::key::EncodedKey;
pub use crate::outcome::Outcome;
pub use crate::source::Source;
use crate::source::{Guard, Lease};
use crate::trace::{SharedSpan, Span};
use crate::transaction::{self, Open};
use crate::{Error, Key, KeyWriter};

// By these names the expansion asks for the feature of a database: without it, rustc itself says which feature to enable.
#[cfg(feature = "mysql")]
pub use sqlx::MySql;
#[cfg(feature = "postgres")]
pub use sqlx::Postgres;
#[cfg(feature = "sqlite")]
pub use sqlx::Sqlite;

/// Encodes the key before a connection is taken. A plain function, so that a type that is no key is reported once, on the user's tokens.
#[inline]
pub fn key<K: Key + ?Sized>(key: &K) -> Result<EncodedKey, Error> {
    Ok(EncodedKey::new(key)?)
}

/// One part of a composite key. It is a key whatever `K` is, so that the bound is asked of [`part`] alone, and on the user's tokens.
pub struct Part<'k, K: ?Sized> {
    key: &'k K,
    write: fn(&K, &mut KeyWriter),
}

/// A part of a composite key.
#[inline]
#[must_use]
pub fn part<K: Key + ?Sized>(key: &K) -> Part<'_, K> {
    Part {
        key,
        write: K::write,
    }
}

#[diagnostic::do_not_recommend]
impl<K: ?Sized> Key for Part<'_, K> {
    fn write(&self, key: &mut KeyWriter) {
        (self.write)(self.key, key);
    }
}

/// Where the lease stays while the delivery borrows from it.
pub struct Slot<'c, DB: Backend>(Option<Lease<'c, DB>>);

impl<DB: Backend> Slot<'_, DB> {
    #[must_use]
    pub fn new() -> Self {
        Self(None)
    }
}

impl<DB: Backend> Default for Slot<'_, DB> {
    fn default() -> Self {
        Self::new()
    }
}

/// How a delivery starts.
pub enum Begun<'l, DB: Backend, T, E> {
    /// The message is new: run the body.
    Fresh(Delivery<'l, DB>),
    /// It is not, or something failed: return this.
    Ended(Result<Outcome<T>, E>),
}

/// A delivery whose body is to be run.
pub struct Delivery<'l, DB: Backend> {
    transaction: Transaction<'l, DB>,
    guard: &'l mut Guard,
    open: Open,
    span: Span,
}

/// Begins and claims.
pub async fn begin<'l, 'c, DB, S, T, E>(
    slot: &'l mut Slot<'c, DB>,
    source: S,
    consumer: &'static str,
    key: Result<EncodedKey, Error>,
    failed: Failed<E>,
) -> Begun<'l, DB, T, E>
where
    DB: Backend,
    S: Source<'c, Database = DB>,
{
    let key = match key {
        Ok(key) => key,
        Err(error) => return Begun::Ended(Err(failed(error))),
    };
    let span = Span::new(consumer, &key);
    let started = span
        .within(async {
            let lease = slot.0.insert(source.lease().await?);
            let persistent = lease.persistent;
            let (mut transaction, guard, open) = transaction::begin_transaction(lease).await?;
            let claim = (consumer, &key, persistent);
            let fresh = transaction::claim::<DB>(&mut transaction, guard, open, claim).await;
            if !matches!(fresh, Ok(true)) {
                // It is over, and what sqlx would roll back for it is not ours.
                std::mem::forget(transaction);
                return fresh.map(|_| None);
            }
            Ok(Some((transaction, guard, open)))
        })
        .await;
    match started {
        Ok(Some((transaction, guard, open))) => Begun::Fresh(Delivery {
            transaction,
            guard,
            open,
            span,
        }),
        Ok(None) => {
            span.end("duplicate");
            Begun::Ended(Ok(Outcome::Duplicate))
        }
        Err(error) => {
            span.end("failed");
            Begun::Ended(Err(failed(error)))
        }
    }
}

impl<'l, DB: Backend> Delivery<'l, DB> {
    /// The handler's transaction, as the type that it declares.
    pub fn transaction<P>(&mut self) -> &mut P
    where
        P: TransactionParameter<'l, Database = DB> + ?Sized,
    {
        P::of(&mut self.transaction)
    }

    /// The delivery's span, for the body to run in.
    pub fn span(&self) -> SharedSpan {
        self.span.share()
    }

    /// Seals and commits, or rolls back.
    pub async fn finish<T, E>(
        self,
        result: Result<T, E>,
        failed: Failed<E>,
    ) -> Result<Outcome<T>, E> {
        let Self {
            mut transaction,
            guard,
            open,
            span,
        } = self;
        let conn = &mut *transaction;
        let result = span
            .within(async {
                match result {
                    Ok(value) => match transaction::commit::<DB>(conn, guard, open).await {
                        Ok(()) => Ok(Outcome::Processed(value)),
                        Err(error) => Err(failed(error)),
                    },
                    Err(error) => {
                        transaction::roll_back::<DB>(conn, guard, open).await;
                        Err(error)
                    }
                }
            })
            .await;
        // It is over, and what sqlx would roll back for it is not ours.
        std::mem::forget(transaction);
        span.end(if result.is_ok() {
            "processed"
        } else {
            "failed"
        });
        result
    }
}

/// A type that a handler can take its transaction as, behind `&mut`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transaction that a handler can take",
    label = "expected a connection or a `sqlx::Transaction`",
    note = "declare the parameter as `&mut PgConnection`, `&mut MySqlConnection`, `&mut SqliteConnection` or `&mut sqlx::Transaction<'_, DB>`, and enable the feature of that database",
    note = "idem needs sqlx 0.9: if the type is right, another version may be in the tree (`cargo tree -d`)"
)]
pub trait TransactionParameter<'t> {
    type Database: Backend;

    fn of<'a>(transaction: &'a mut Transaction<'t, Self::Database>) -> &'a mut Self;
}

/// The database of a transaction parameter.
pub type DatabaseOf<P> = <P as TransactionParameter<'static>>::Database;

#[diagnostic::do_not_recommend]
impl<'t, DB: Backend> TransactionParameter<'t> for Transaction<'t, DB> {
    type Database = DB;

    fn of<'a>(transaction: &'a mut Transaction<'t, DB>) -> &'a mut Self {
        transaction
    }
}

macro_rules! connections {
    ($($feature:literal $database:ident $connection:ident)*) => {$(
        #[cfg(feature = $feature)]
        #[diagnostic::do_not_recommend]
        impl<'t> TransactionParameter<'t> for sqlx::$connection {
            type Database = sqlx::$database;

            fn of<'a>(transaction: &'a mut Transaction<'t, sqlx::$database>) -> &'a mut Self {
                transaction
            }
        }
    )*};
}

connections! {
    "postgres" Postgres PgConnection
    "mysql" MySql MySqlConnection
    "sqlite" Sqlite SqliteConnection
}

/// What a handler returns. A trait, so that aliases of `Result` work.
#[diagnostic::on_unimplemented(
    message = "a handler returns a `Result`, and `{Self}` is none",
    label = "expected `Result<T, E>` with `E: From<idem::Error>`",
    note = "`Ok` commits and lets the message be acknowledged, `Err` rolls back and lets it be redelivered; without a `Result` there is no way to say which"
)]
pub trait HandlerResult {
    type Value;
    type Error;

    fn into_result(self) -> Result<Self::Value, Self::Error>;
}

#[diagnostic::do_not_recommend]
impl<T, E> HandlerResult for Result<T, E> {
    type Value = T;
    type Error = E;

    fn into_result(self) -> Self {
        self
    }
}

/// What callers of a handler get.
pub type OutcomeOf<R> = Result<Outcome<<R as HandlerResult>::Value>, <R as HandlerResult>::Error>;

/// The error type behind an alias of `Result`.
pub type ErrorOf<R> = <R as HandlerResult>::Error;

/// How the library's errors become the handler's.
pub type Failed<E> = fn(Error) -> E;

/// The one place where the error type has to fulfil its bound, for the type checker to complain once, and where the user wrote the type.
#[inline]
#[must_use]
pub fn failed<E: HandlerError>() -> Failed<E> {
    E::from_idem
}

/// The type of a body: nothing runs it, but what stands first in an async block decides what the rest is compared with.
///
/// # Panics
///
/// If it is run.
#[must_use]
pub fn returns<R>() -> R {
    unreachable!("the expansion never runs it")
}

/// The error of a handler.
#[diagnostic::on_unimplemented(
    message = "the handler's error type `{Self}` cannot carry the library's own errors",
    label = "`{Self}` needs `From<idem::Error>`",
    note = "with thiserror, add a variant: `#[error(\"delivery failed: {{0}}\")] Delivery(#[from] idem::Error)`",
    note = "by hand: `impl From<idem::Error> for {Self} {{ .. }}`; `idem::Error`, `sqlx::Error` (0.9), `anyhow::Error` and `Box<dyn Error>` have it already"
)]
pub trait HandlerError {
    fn from_idem(error: Error) -> Self;
}

#[diagnostic::do_not_recommend]
impl<E: From<Error>> HandlerError for E {
    fn from_idem(error: Error) -> Self {
        E::from(error)
    }
}
