//! Prepared statements, which pgbouncer before 1.21 does not know of: a session has those of whoever used it before.

use idem::{Error, Outcome, Unprepared};

use crate::handlers::{Failed, bill};
use crate::setup::{Setup, pool};

/// The limit: without `Unprepared`, a second client finds the first one's statement under the name of its own. It fails, asks for
/// redelivery, and applies nothing.
#[tokio::test]
async fn limit_a_prepared_claim_fails_in_another_clients_session() {
    let setup = Setup::with_sessions(1).await;
    let (one, other) = (setup.clients(1).await, setup.clients(1).await);
    assert_eq!(bill(&one, 0).await.unwrap(), Outcome::Processed(()));
    let error = bill(&other, 1).await.unwrap_err();
    let Failed::Delivery(Error::Database { source, .. }) = &error else {
        panic!("{error:?}");
    };
    let code = source
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code);
    // duplicate_prepared_statement
    assert_eq!(code.as_deref(), Some("42P05"));
    assert!(idem::is_transient(&error));
    assert_eq!(
        bill(Unprepared(&other), 1).await.unwrap(),
        Outcome::Processed(())
    );
    setup.assert_once(2).await;
}

/// `doctor` sees that there is one.
#[tokio::test]
async fn doctor_sees_the_pooler() {
    let setup = Setup::start().await;
    let through = setup.clients(3).await;
    let past = pool(&setup.server.url("postgres"), 3).await;
    let sees = async |pool| {
        let report = idem::doctor(pool).await.unwrap();
        report
            .findings
            .iter()
            .any(|finding| finding.check == "pooler")
    };
    assert!(sees(&through).await && !sees(&past).await);
}
