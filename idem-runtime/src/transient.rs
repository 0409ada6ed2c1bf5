use std::io::ErrorKind;

use crate::backend::{self, Fault};
use crate::error::{Cause, Error};

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
/// | read-only server, too many connections, disk full | division by zero, value out of range, syntax error |
/// | permission denied, missing table or column (a deploy ahead of its migration); SQLite does not tell these from a syntax error, except for the table of claims | no such row (`RowNotFound`), and any error of yours |
///
/// What is transient may still fail each time, when nobody migrates or grants: let the broker bound the number of redeliveries.
///
/// With thiserror, keep the [`sqlx::Error`] in the chain: `#[error("database: {0}")] Database(#[from] sqlx::Error)`. Under
/// `#[error(transparent)]` only its own source stays, and some of its variants, such as
/// [`PoolTimedOut`](sqlx::Error::PoolTimedOut), have none. An [`Error`] may be transparent.
#[must_use]
pub fn is_transient(error: &(dyn std::error::Error + 'static)) -> bool {
    let chain = || std::iter::successors(Some(error), |error| error.source());
    // Ours first: as a `sqlx::Error` it stands wrapped in one that means something else.
    if let Some(error) = chain().find_map(|error| error.downcast_ref::<Error>()) {
        return error.is_transient();
    }
    // `#[error(transparent)]` passes our sources on and leaves us out of the chain.
    if chain().any(<dyn std::error::Error>::is::<Cause>) {
        return true;
    }
    if let Some(error) = chain().find_map(|error| error.downcast_ref::<sqlx::Error>()) {
        return of_sqlx(error);
    }
    // What `#[error(transparent)]` leaves of a `sqlx::Error`.
    chain().any(|error| {
        error
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| is_of_the_network(error.kind()))
            || error
                .downcast_ref::<Box<dyn sqlx::error::DatabaseError>>()
                .is_some_and(|error| means_redelivery(backend::database_fault(&**error)))
    })
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
        Fault::Transient | Fault::LockTimeout | Fault::Disconnected | Fault::NoTable => true,
        Fault::DivisionByZero
        | Fault::NoTableOrTransaction
        | Fault::Aborted
        | Fault::NoTransaction
        | Fault::Permanent => false,
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
        let missing = Error::Schema(Cause(Some(sqlx::Error::RowNotFound)));
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
