use std::io::ErrorKind;

use crate::backend::{self, Fault};
use crate::error::{Cause, Error, Step};

/// Whether the same message may succeed when it is delivered again, for any error: yours, `anyhow`'s, a box. Looks through the chain
/// of sources for an [`Error`], a [`sqlx::Error`], a database's own error or an I/O error of the network, and judges that one. An error with none of
/// these in its chain is the handler's own verdict on the message, and permanent.
///
/// ```
/// # extern crate idem_runtime as idem;
/// assert!(idem::is_transient(&sqlx::Error::PoolTimedOut));
///
/// // `anyhow::Error` and boxes are not errors themselves, but lend the one they hold:
/// let boxed: Box<dyn std::error::Error + Send + Sync> = sqlx::Error::PoolTimedOut.into();
/// assert!(idem::is_transient(&*boxed));
/// ```
///
/// | transient | permanent |
/// |---|---|
/// | deadlock, serialization failure, lock and statement time-out, busy | unique, foreign key, not-null, check violation |
/// | connection lost, server shutting down, pool exhausted or closed | bad key, bad consumer |
/// | read-only server, too many connections, disk full; a savepoint that is gone | division by zero, value out of range, syntax error |
/// | permission denied, missing table or column (a deploy ahead of its migration); SQLite does not tell these from a syntax error, except for the table of claims | no such row (`RowNotFound`), and any error of yours |
///
/// What is transient may still fail each time, when nobody migrates or grants: let the broker bound the number of redeliveries.
///
/// With thiserror, keep the [`sqlx::Error`] in the chain: `#[error("database: {0}")] Database(#[from] sqlx::Error)`. Under
/// `#[error(transparent)]` only its own source stays, and some of its variants, such as
/// [`PoolTimedOut`](sqlx::Error::PoolTimedOut), have none. An [`Error`] may be transparent.
#[must_use]
pub fn is_transient(error: &(dyn std::error::Error + 'static)) -> bool {
    match origin(error) {
        Origin::Delivery(error) => error.is_transient(),
        Origin::Cause | Origin::Network => true,
        Origin::Sqlx(error) => of_sqlx(error),
        Origin::Database(error) => means_redelivery(backend::database_fault(error)),
        Origin::Own => false,
    }
}

/// Whether the unit lost against another transaction, by a serialization failure or a deadlock.
pub(crate) fn is_conflict(error: &(dyn std::error::Error + 'static)) -> bool {
    let fault = match origin(error) {
        Origin::Delivery(Error::Database { source, .. }) | Origin::Sqlx(source) => {
            backend::fault(source)
        }
        Origin::Database(error) => backend::database_fault(error),
        _ => return false,
    };
    fault == Fault::Conflict
}

/// Whether a body has dropped an error of the database, which has aborted the transaction.
#[cfg(feature = "testing")]
pub(crate) fn is_aborted(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(origin(error), Origin::Delivery(Error::Aborted(_)))
}

/// Whether the database can be reached and has the table of claims, as far as an error tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Another message may well succeed.
    There,
    /// The connection failed, perhaps one of the handler's own to somewhere else.
    InDoubt,
    /// The library's own steps failed, so that every message would.
    Gone,
}

pub(crate) fn reach(error: &(dyn std::error::Error + 'static)) -> Reach {
    let of_fault = |fault, worst| match fault {
        Fault::Disconnected => worst,
        _ => Reach::There,
    };
    match origin(error) {
        Origin::Delivery(
            Error::Database {
                step: Step::Acquire,
                ..
            }
            | Error::CommitUnknown(_)
            | Error::Schema(_)
            | Error::NotTried(_),
        ) => Reach::Gone,
        Origin::Delivery(Error::Database { source, .. }) => {
            of_fault(backend::fault(source), Reach::Gone)
        }
        Origin::Sqlx(sqlx::Error::PoolTimedOut) | Origin::Network => Reach::InDoubt,
        Origin::Sqlx(error) => of_fault(backend::fault(error), Reach::InDoubt),
        Origin::Database(error) => of_fault(backend::database_fault(error), Reach::InDoubt),
        Origin::Delivery(_) | Origin::Cause | Origin::Own => Reach::There,
    }
}

/// What an error's chain of sources comes from.
enum Origin<'e> {
    Delivery(&'e Error),
    /// Of one of ours that `#[error(transparent)]` leaves out of the chain.
    Cause,
    Sqlx(&'e sqlx::Error),
    /// What `#[error(transparent)]` leaves of a `sqlx::Error`.
    Database(&'e dyn sqlx::error::DatabaseError),
    /// An I/O error of the connection.
    Network,
    /// The handler's own.
    Own,
}

fn origin<'e>(error: &'e (dyn std::error::Error + 'static)) -> Origin<'e> {
    let chain = || std::iter::successors(Some(error), |error| error.source());
    // Ours first: as a `sqlx::Error` it stands wrapped in one that means something else.
    if let Some(error) = chain().find_map(|error| error.downcast_ref()) {
        return Origin::Delivery(error);
    }
    if chain().any(<dyn std::error::Error>::is::<Cause>) {
        return Origin::Cause;
    }
    if let Some(error) = chain().find_map(|error| error.downcast_ref()) {
        return Origin::Sqlx(error);
    }
    if let Some(error) =
        chain().find_map(|error| error.downcast_ref::<Box<dyn sqlx::error::DatabaseError>>())
    {
        return Origin::Database(&**error);
    }
    let is_of_the_network = chain().any(|error| {
        error
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| is_of_the_network(error.kind()))
    });
    if is_of_the_network {
        Origin::Network
    } else {
        Origin::Own
    }
}

/// An I/O error may also say that the message holds no text, or names a missing file.
fn is_of_the_network(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::AddrNotAvailable
            | ErrorKind::BrokenPipe
            | ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::HostUnreachable
            | ErrorKind::Interrupted
            | ErrorKind::NetworkDown
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NotConnected
            | ErrorKind::TimedOut
            // A server that goes away in the middle of an answer.
            | ErrorKind::UnexpectedEof
            | ErrorKind::WouldBlock
    )
}

pub(crate) fn of_sqlx(error: &sqlx::Error) -> bool {
    means_redelivery(backend::fault(error))
}

fn means_redelivery(fault: Fault) -> bool {
    match fault {
        // Without its table every message would fail, and none is at fault.
        Fault::Conflict
        | Fault::Transient
        | Fault::LockTimeout
        | Fault::Disconnected
        | Fault::NoTable
        | Fault::NoPartition
        // Something was dropped half-way.
        | Fault::NoTransaction => true,
        Fault::DivisionByZero | Fault::NoTableOrTransaction | Fault::Aborted | Fault::Permanent => {
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InvalidKey;

    #[test]
    fn p4_is_transient_looks_through_wrappers() {
        #[derive(Debug, thiserror::Error)]
        enum Mine {
            #[error("delivery")]
            Delivery(#[from] Error),
            #[error("no such account")]
            NoAccount,
        }
        #[derive(Debug, thiserror::Error)]
        #[error(transparent)]
        struct Transparent(#[from] Error);

        let lost = || Error::transaction_lost();
        let empty = || Error::InvalidKey(InvalidKey::Empty { part: 1 });
        assert!(is_transient(&Mine::from(lost())));
        assert!(!is_transient(&Mine::from(empty())));
        assert!(!is_transient(&Mine::NoAccount));
        assert!(is_transient(&Transparent(lost())));
        assert!(!is_transient(&Transparent(empty())));
        assert!(is_transient(&Transparent(Error::NotTried(
            Cause::out_of_reach()
        ))));
        let missing = Error::Schema(sqlx::Error::RowNotFound.into());
        assert!(is_transient(&Transparent(missing)));
        assert!(is_transient(&sqlx::Error::from(lost())));
        assert!(!is_transient(&sqlx::Error::from(empty())));
        assert!(is_transient(&sqlx::Error::from(Error::CommitUnknown(
            sqlx::Error::WorkerCrashed
        ))));
        assert!(!is_transient(&sqlx::Error::RowNotFound));
        let boxed: Box<dyn std::error::Error + Send + Sync> = lost().into();
        assert!(is_transient(&*boxed));
    }
}
