use std::ops::{Deref, DerefMut};

use sqlx::Transaction;

use crate::Error;
use crate::backend::Backend;
use crate::once::AsyncFunc;
use crate::savepoint::savepoint;

/// A handler's transaction that also knows the delivery: a handler under the attribute may declare `tx: &mut Tx<'_, Postgres>`.
///
/// It derefs to the connection, so that queries run on `&mut **tx`. For effects that the database does not see, pass
/// [`idempotency_keys`](Tx::idempotency_keys) on to the other side, so that a second run after a rollback is recognised there.
pub struct Tx<'t, DB: Backend> {
    pub(crate) transaction: Transaction<'t, DB>,
    pub(crate) consumer: &'t str,
    pub(crate) keys: Vec<&'t str>,
    /// As it is stored.
    pub(crate) business_key: Option<&'t str>,
    pub(crate) attempt: u32,
}

impl<'t, DB: Backend> Tx<'t, DB> {
    /// The consumer's name.
    #[must_use]
    pub fn consumer(&self) -> &'t str {
        self.consumer
    }

    /// The message's key, as it is stored. Of a message without one, its business key; under `each`, that of the first fresh message.
    #[must_use]
    pub fn key(&self) -> &'t str {
        self.keys.first().copied().unwrap_or_default()
    }

    /// A key for the other side of a call, equal in all runs and deliveries that ask for this effect and different between effects: the
    /// consumer, a colon, and the business key as it is stored, or the message's where there is none. One for each fresh message, in their
    /// order; without `each`, exactly one. At most 1280 bytes; where the other side takes fewer, pass a hash of it.
    ///
    /// The call itself is not part of the transaction: after a rollback it is done again, and the other side has to recognise it. Under
    /// `each`, do a call for each message, since the next delivery may come with another batch.
    #[must_use]
    pub fn idempotency_keys(&self) -> Vec<String> {
        let key = |effect| format!("{}:{effect}", self.consumer);
        match self.business_key {
            Some(effect) => vec![key(effect)],
            None => self.keys.iter().map(|effect| key(effect)).collect(),
        }
    }

    /// Under `each`, the keys of the fresh messages, in their order; otherwise the one.
    #[must_use]
    pub fn keys(&self) -> &[&'t str] {
        &self.keys
    }

    /// Which run of the body this is within this delivery: 1, and more under `retries`. Redeliveries are not counted here, since nothing
    /// of them is left in the database; ask the broker.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Runs the closure in a savepoint: see [`savepoint`](crate::savepoint()).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn savepoint<F, T, E>(&mut self, body: F) -> Result<T, E>
    where
        F: for<'a> AsyncFunc<&'a mut DB::Connection, Result<T, E>, Fut: Send>,
        E: From<Error>,
    {
        savepoint(&mut *self.transaction, body).await
    }
}

impl<DB: Backend> Deref for Tx<'_, DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.transaction
    }
}

impl<DB: Backend> DerefMut for Tx<'_, DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.transaction
    }
}

impl<DB: Backend> std::fmt::Debug for Tx<'_, DB> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tx")
            .field("consumer", &self.consumer)
            .field("keys", &self.keys)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
