use sqlx::Transaction;

use crate::Error;
use crate::backend::Backend;
use crate::outcome::{BatchOutcome, Outcome};
use crate::retry::AsError;
use crate::transient::is_conflict;
use crate::tx::Tx;

/// A type that a handler can take its transaction as, behind `&mut`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transaction that a handler can take",
    label = "expected a connection or a `sqlx::Transaction`",
    note = "declare the parameter as `&mut PgConnection`, `&mut MySqlConnection`, `&mut SqliteConnection`, `&mut sqlx::Transaction<'_, DB>` or `&mut idem::Tx<'_, DB>`, and enable the feature of that database",
    note = "idem needs sqlx 0.9: if the type is right, another version may be in the tree (`cargo tree -d`)"
)]
pub trait TransactionParameter<'t> {
    type Database: Backend;

    fn of<'a>(tx: &'a mut Tx<'t, Self::Database>) -> &'a mut Self;
}

/// The database of a transaction parameter.
pub type DatabaseOf<P> = <P as TransactionParameter<'static>>::Database;

#[diagnostic::do_not_recommend]
impl<'t, DB: Backend> TransactionParameter<'t> for Transaction<'t, DB> {
    type Database = DB;

    fn of<'a>(tx: &'a mut Tx<'t, DB>) -> &'a mut Self {
        &mut tx.transaction
    }
}

#[diagnostic::do_not_recommend]
impl<'t, DB: Backend> TransactionParameter<'t> for Tx<'t, DB> {
    type Database = DB;

    fn of<'a>(tx: &'a mut Tx<'t, DB>) -> &'a mut Self {
        tx
    }
}

macro_rules! connections {
    ($($feature:literal $database:ident $connection:ident)*) => {$(
        #[cfg(feature = $feature)]
        #[diagnostic::do_not_recommend]
        impl<'t> TransactionParameter<'t> for sqlx::$connection {
            type Database = sqlx::$database;

            fn of<'a>(tx: &'a mut Tx<'t, sqlx::$database>) -> &'a mut Self {
                &mut tx.transaction
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

/// What callers of a handler with `each` get.
pub type BatchOutcomeOf<R> =
    Result<BatchOutcome<<R as HandlerResult>::Value>, <R as HandlerResult>::Error>;

/// The value type behind an alias of `Result`.
pub type ValueOf<R> = <R as HandlerResult>::Value;

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

/// How `retries` tells whether the body lost against another transaction. The place for that bound to be reported.
#[inline]
#[must_use]
pub fn conflicts<E: AsError<Kind>, Kind>() -> fn(&E) -> bool {
    |error| is_conflict(error.as_error())
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
    note = "by hand: `impl From<idem::Error> for {Self} {{ .. }}`, if the type is of your crate (`String` is not: take an enum of yours); `idem::Error`, `sqlx::Error` (0.9), `anyhow::Error` and `Box<dyn Error>` have it already"
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
