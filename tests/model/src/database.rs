//! What the server does.

use crate::state::{Key, State, Transaction};

/// A failed statement's transaction keeps its locks until it ends.
pub(crate) fn holds(transaction: &Transaction, key: Key) -> bool {
    transaction.claims.contains(&key)
}

/// BEGIN where a transaction is open already is no more than a warning.
pub(crate) fn begin(state: &mut State, connection: u8) {
    let begun = state.clock;
    let place = &mut state.pool[usize::from(connection)];
    place.transaction.get_or_insert(Transaction {
        begun,
        ..Transaction::default()
    });
}

/// The answer to COMMIT is not an error when the transaction is aborted: it is rolled back instead, and `false` here.
pub(crate) fn commit(state: &mut State, transaction: Transaction) -> bool {
    if transaction.aborted {
        return false;
    }
    state.effects += u8::from(transaction.effect);
    let claims = transaction.claims.into_iter();
    state
        .claims
        .extend(claims.map(|key| (key, transaction.begun)));
    state.claims.sort_unstable();
    true
}
