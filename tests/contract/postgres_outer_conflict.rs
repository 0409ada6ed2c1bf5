//! P1, P4: a delivery that joins a transaction of the caller's and loses a conflict there is not tried again behind the caller's back, which
//! would take a new transaction, and undo the caller's work.

use crate::contract::*;

#[tokio::test]
async fn p1_a_conflict_in_a_transaction_of_the_callers_leaves_the_callers_work() {
    let test = Test::new(2).await;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ";
    let mut outer = test.pool.begin_with(begin).await.unwrap();
    effect(&mut outer, "the caller's").await.unwrap();
    // After the snapshot of `outer`, which its claim then runs into.
    let first = deliver(Form::Once, &test.pool, "evt-1", Body::Succeeds).await;
    assert_eq!(first.unwrap(), Outcome::Processed(7));
    for form in FORMS {
        let error = deliver(form, &mut outer, "evt-1", Body::Panics).await;
        let error = error.unwrap_err();
        assert!(error.is_transient(), "{form:?}: {error:?}");
        assert!(
            matches!(error, Fail::Delivery(Error::Database { .. })),
            "{form:?}: {error:?}"
        );
    }
    idem::commit(outer).await.unwrap();
    assert_eq!(test.effects_of("the caller's").await, 1);
    assert_eq!(test.effects_of("evt-1").await, 1);
}
