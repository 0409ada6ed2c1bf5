mod cause;
mod step;

pub use cause::Cause;
pub use step::Step;

use crate::backend::{self, Fault};
use crate::time::Day;
use crate::transient;
use crate::{InvalidConsumer, InvalidKey, InvalidTime, InvalidValue, InvalidVersion};

/// Why a delivery did not come to an [`Outcome`](crate::Outcome). Do not acknowledge: nothing of this delivery was applied. After
/// [`CommitUnknown`](Error::CommitUnknown) it is unknown, and the next delivery finds out by itself; after
/// [`TransactionLost`](Error::TransactionLost) the handler itself may have committed something.
///
/// [`is_transient`](Error::is_transient) tells whether to let the broker redeliver or to send the message to the dead letters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The message's key cannot be used. Found before a connection is taken. Permanent.
    #[error(transparent)]
    InvalidKey(#[from] InvalidKey),

    /// The consumer's name cannot be used. Found before a connection is taken. Permanent.
    #[error(transparent)]
    InvalidConsumer(#[from] InvalidConsumer),

    /// The message's version cannot be used. Found before a connection is taken. Permanent.
    #[error(transparent)]
    InvalidVersion(#[from] InvalidVersion),

    /// The message's time cannot be used. Found before a connection is taken. Permanent.
    #[error(transparent)]
    InvalidTime(#[from] InvalidTime),

    /// A value cannot be stored or given back, or the content of a fingerprint cannot be written. Permanent.
    #[error(transparent)]
    InvalidValue(#[from] InvalidValue),

    /// Arguments of a [`Delivery`](crate::Delivery) that do not go together. The attribute finds these at compile time. Permanent.
    #[error("these do not go together: {0}")]
    Combination(&'static str),

    /// The message was processed with other content: its `fingerprint` differs from that of an earlier delivery with the same key or the same
    /// business key. A fault of the producer, which has used a key twice. Permanent; over HTTP the answer is 422
    /// (<https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/>).
    #[error(
        "a message with the same key (or business key) and other content was processed before, so this one cannot be a redelivery of it; the producer has used a key twice: send the message to the dead letters"
    )]
    Mismatch,

    /// The message is of a day whose claims are no longer kept, so that nobody can tell whether it was processed. It is not run: it may be a
    /// redelivery. Permanent: send it to the dead letters, for somebody to look.
    #[error(
        "the message is of {day}, and claims are kept from {oldest} on, so that nobody can tell whether it was processed; send it to the dead letters, and if messages this old are no mistake, keep claims for longer (`retain`)"
    )]
    Expired {
        /// The message's day.
        day: Day,
        /// The first day that is kept.
        oldest: Day,
    },

    /// The message is of a day that is still to come, and not because of a time zone: its producer's clock is wrong. Permanent.
    #[error(
        "the message is of {day}, and by the database's clock today is {today}: the producer's clock, or the unit of the message's `time`, is wrong; correct it, and send the message to the dead letters"
    )]
    TooFarAhead {
        /// The message's day.
        day: Day,
        /// The database's.
        today: Day,
    },

    /// The message's day has no partition yet. Transient: the redelivery succeeds once it is created.
    #[error(
        "the table `processed_messages_by_day` has no partition for {day}; let an `idem::Pruner` run, which creates them ahead, or call `idem::Days::new(&pool).create().await?`"
    )]
    NoPartition {
        /// The message's day.
        day: Day,
        /// For the chain of sources.
        #[source]
        cause: Cause,
    },

    /// The version of a message skips ahead of what was applied (`gapless`). Transient: the versions between are still to come.
    #[error(
        "version {version} is not yet its key's turn: {}; let the broker redeliver it after the versions between",
        applied.map_or_else(|| "none was applied so far".to_owned(), |applied| format!("version {applied} was applied last"))
    )]
    OutOfTurn {
        /// The message's.
        version: i64,
        /// The last that was applied to its key, if any.
        applied: Option<i64>,
        /// For the chain of sources.
        #[source]
        cause: Cause,
    },

    /// A delivery that asks for an isolation level was to join a transaction, whose level is settled. Permanent.
    #[error(
        "the handler asks for an isolation level, and was given an open transaction, which has its level already; pass a pool or a connection, or begin that transaction at the level and deliver to a handler without `isolation`"
    )]
    Isolation,

    /// The message was not tried on its own after its [`batch`](crate::batch()) had failed, since the database was out of reach for the batch
    /// or for a message before it. Transient. If it was the batch's COMMIT whose answer was lost, the next delivery finds out.
    #[error(
        "not tried on its own, since the database was out of reach for its batch or for a message before it; let the broker redeliver it"
    )]
    NotTried(#[source] Cause),

    /// The table of claims (or the one by days, for deliveries with a `time`) is missing, lacks a column, or (on PostgreSQL and SQLite) has another key than `(consumer, message_id)`, with
    /// which it would merge or repeat messages. Transient: no message is at fault, and the redelivery succeeds once the table is right.
    #[error(
        "the table `processed_messages` (for handlers with `time`, `processed_messages_by_day`) is missing, lacks a column or has another key than (consumer, message_id); run `idem::migrate(&pool).await?` before the first delivery"
    )]
    Schema(#[source] Cause),

    /// Another worker was still processing this message when the database's lock time-out ended the wait. Transient: the redelivery
    /// finds the other worker's verdict.
    ///
    /// The wait is bounded as [`InFlight`](crate::InFlight) says. SQLite has one writer at a time, so that any other transaction that writes
    /// counts as one; a database in memory with a shared cache waits without bound.
    #[error("another worker is still processing this message; let the broker redeliver it later")]
    InFlight(#[source] sqlx::Error),

    /// A statement in the handler failed, its error was not returned, and PostgreSQL has aborted the transaction: COMMIT would have
    /// rolled everything back, and its answer looks like success. Permanent: the handler needs a change.
    #[error(
        "a statement in the handler failed and its error was dropped, so the database has aborted the transaction and nothing was applied; return the error with `?`, or run a statement that may fail in a savepoint: `idem::savepoint(&mut *tx, async |tx: &mut PgConnection| {{ .. }}).await`"
    )]
    Aborted(#[source] sqlx::Error),

    /// The delivery's transaction was gone when the handler returned `Ok`: a deadlock whose error was dropped, a nested
    /// `begin()` that was cancelled, DDL on MySQL, or a COMMIT or ROLLBACK of the handler's own. Transient: the redelivery runs the
    /// handler again, or finds the claim if that was committed. What the handler wrote *after* the transaction had ended was
    /// committed statement by statement, which no library can undo.
    #[error(
        "the delivery's transaction had ended before the handler returned Ok; return every database error with `?`, do not drop a nested `begin()` half-way, and run no COMMIT, ROLLBACK or DDL in a handler"
    )]
    TransactionLost(#[source] Cause),

    /// The transaction of yours that a delivery was to join, or that [`commit`](crate::commit) was to commit, is dead: an earlier statement
    /// in it failed on PostgreSQL and the error was dropped, a deadlock or SQLite itself has rolled it back, or a nested `begin()` in it
    /// was dropped half-way. Also: a pooled connection came with a transaction that somebody has forgotten on it; it is closed. Transient:
    /// no message is at fault. Nothing that was delivered into that transaction is applied.
    #[error(
        "the outer transaction is aborted or has ended, since an earlier error in it was dropped or a nested `begin()` was cancelled; roll it back and let every message that was delivered into it be redelivered"
    )]
    OuterTransaction(#[source] Cause),

    /// The connection failed while COMMIT was under way, so that it is unknown whether the effect is there. Transient: the next
    /// delivery either finds the claim or processes the message.
    #[error(
        "the connection was lost during COMMIT, so it is unknown whether the message was processed; let the broker redeliver it, and its claim will tell"
    )]
    CommitUnknown(#[source] sqlx::Error),

    /// Any other fault of the database or of the way to it; nothing was applied. Transient or not by the database's code.
    #[error("{step}: {source}")]
    Database {
        /// What the library was doing.
        step: Step,
        /// The fault.
        source: sqlx::Error,
    },
}

impl Error {
    /// Whether the same message may succeed when it is delivered again, with nothing about the message or the handler changed. If
    /// so, let the broker redeliver; if not, send it to the dead letters.
    ///
    /// Decided by type and by the database's code (SQLSTATE, errno), never by a message's text.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Error::InvalidKey(_)
            | Error::InvalidConsumer(_)
            | Error::InvalidVersion(_)
            | Error::InvalidValue(_)
            | Error::InvalidTime(_)
            | Error::Expired { .. }
            | Error::TooFarAhead { .. }
            | Error::Combination(_)
            | Error::Mismatch
            | Error::Isolation
            | Error::Aborted(_) => false,
            Error::OutOfTurn { .. }
            | Error::NoPartition { .. }
            | Error::NotTried(_)
            | Error::Schema(_)
            | Error::InFlight(_)
            | Error::TransactionLost(_)
            | Error::OuterTransaction(_)
            | Error::CommitUnknown(_)
            // Nothing of the message had reached the database.
            | Error::Database {
                step: Step::Acquire | Step::Begin,
                ..
            } => true,
            Error::Database { source, .. } => transient::of_sqlx(source),
        }
    }

    /// Whether nothing can be asked of the connection any more.
    pub(crate) fn is_disconnected(&self) -> bool {
        matches!(self, Error::Database { source, .. } if backend::fault(source) == Fault::Disconnected)
    }

    pub(crate) fn transaction_lost() -> Error {
        Error::TransactionLost(Cause::no_transaction())
    }

    pub(crate) fn database(step: Step) -> impl FnOnce(sqlx::Error) -> Error {
        move |source| Error::Database { step, source }
    }

    pub(crate) fn outer_transaction() -> Error {
        Error::OuterTransaction(Cause::no_transaction())
    }

    pub(crate) fn at_begin(error: sqlx::Error) -> Error {
        match backend::fault(&error) {
            // A savepoint was asked for.
            Fault::Aborted => Error::OuterTransaction(error.into()),
            // SQLite waits for its one writer here.
            Fault::LockTimeout => Error::InFlight(error),
            _ => Error::database(Step::Begin)(error),
        }
    }

    pub(crate) fn at_claim(error: sqlx::Error) -> Error {
        match backend::fault(&error) {
            Fault::NoTable | Fault::NoTableOrTransaction => Error::Schema(error.into()),
            Fault::LockTimeout => Error::InFlight(error),
            _ => Error::database(Step::Claim)(error),
        }
    }

    /// An error of storing the handler's value.
    pub(crate) fn at_store(error: sqlx::Error) -> Error {
        match backend::fault(&error) {
            Fault::Aborted => Error::Aborted(error),
            Fault::NoTable | Fault::NoTableOrTransaction => Error::Schema(error.into()),
            _ => Error::database(Step::Store)(error),
        }
    }

    /// An error of the COMMIT of a transaction that is not a delivery's.
    pub(crate) fn at_outer_commit(error: sqlx::Error) -> Error {
        // No message is at fault when the session is set up so that nothing can be told of the transaction.
        if matches!(error, sqlx::Error::Configuration(_)) {
            return Error::OuterTransaction(error.into());
        }
        match Error::at_commit(error) {
            Error::Aborted(error) => Error::OuterTransaction(error.into()),
            Error::TransactionLost(cause) => Error::OuterTransaction(cause),
            other => other,
        }
    }

    /// An error of the seal, of COMMIT or of RELEASE SAVEPOINT.
    pub(crate) fn at_commit(error: sqlx::Error) -> Error {
        match backend::fault(&error) {
            Fault::Aborted => Error::Aborted(error),
            Fault::NoTableOrTransaction | Fault::NoTransaction | Fault::DivisionByZero => {
                Error::TransactionLost(error.into())
            }
            Fault::Disconnected => Error::CommitUnknown(error),
            _ => Error::database(Step::Commit)(error),
        }
    }
}

/// For handlers that return [`sqlx::Error`]. A database fault is passed on; what sqlx has no variant for travels inside
/// `sqlx::Error::Encode` (keys, versions, values) or `sqlx::Error::Configuration`, where [`is_transient`](crate::is_transient) finds it.
impl From<Error> for sqlx::Error {
    fn from(error: Error) -> Self {
        match error {
            // Where the fault alone would be judged otherwise, the whole error is kept.
            Error::Database { ref source, .. }
                if error.is_transient() != transient::of_sqlx(source) =>
            {
                sqlx::Error::Configuration(error.into())
            }
            Error::Database { source, .. } | Error::InFlight(source) => source,
            Error::InvalidKey(_)
            | Error::InvalidConsumer(_)
            | Error::InvalidVersion(_)
            | Error::InvalidTime(_)
            | Error::InvalidValue(_) => sqlx::Error::Encode(error.into()),
            _ => sqlx::Error::Configuration(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_fault_passes_through_sqlx_error() {
        let error = Error::database(Step::Begin)(sqlx::Error::PoolTimedOut);
        assert_eq!(
            error.to_string(),
            "could not begin the delivery's transaction: pool timed out while waiting for an open connection"
        );
        assert!(matches!(
            sqlx::Error::from(error),
            sqlx::Error::PoolTimedOut
        ));
    }
}
