//! P4: an I/O error in the chain is transient if it is of the network, and otherwise the handler's own.

use std::io::ErrorKind;

use super::*;

#[derive(Debug, thiserror::Error)]
#[error("the export failed")]
struct ExportFailed(#[source] std::io::Error);

#[test]
fn p4_an_io_error_is_transient_where_it_is_of_the_network() {
    for kind in [
        ErrorKind::ConnectionRefused,
        ErrorKind::ConnectionReset,
        ErrorKind::BrokenPipe,
        ErrorKind::TimedOut,
        ErrorKind::UnexpectedEof,
    ] {
        assert!(idem::is_transient(&std::io::Error::from(kind)), "{kind:?}");
        assert!(idem::is_transient(&ExportFailed(kind.into())), "{kind:?}");
        let of_sqlx = Fail::Database(std::io::Error::from(kind).into());
        assert!(of_sqlx.is_transient(), "{kind:?}");
    }
    for kind in [
        ErrorKind::NotFound,
        ErrorKind::InvalidData,
        ErrorKind::PermissionDenied,
        ErrorKind::AlreadyExists,
    ] {
        assert!(!idem::is_transient(&std::io::Error::from(kind)), "{kind:?}");
        assert!(!idem::is_transient(&ExportFailed(kind.into())), "{kind:?}");
    }
}
