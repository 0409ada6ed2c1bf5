use std::ops::{Deref, DerefMut};

use sqlx::Transaction;

use crate::backend::{self, Backend};
use crate::error::Error;
use crate::key::EncodedKey;
use crate::source::Lease;
use crate::trace::Span;
use crate::transaction::{self, Open};
use crate::{Key, Source, consumer};

/// Claims a message without the attribute: begins a transaction and inserts the claim as its first statement.
///
/// ```no_run
/// # extern crate idem_runtime as idem;
/// use idem::Claimed;
///
/// # #[cfg(feature = "sqlite")]
/// # async fn example(pool: &sqlx::SqlitePool, event_id: &str) -> Result<(), Box<dyn std::error::Error>> {
/// match idem::claim(pool, "billing", event_id).await? {
///     Claimed::Fresh(mut claim) => {
///         sqlx::query("UPDATE accounts SET credits = credits + 1").execute(&mut *claim).await?;
///         claim.commit().await?;
///     }
///     Claimed::Duplicate => {}
/// }
/// // Acknowledge here.
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`Error::InvalidConsumer`] and [`Error::InvalidKey`] before a connection is taken, otherwise what the database says. Nothing stays
/// claimed.
pub async fn claim<'c, S, DB, K>(
    source: S,
    consumer: &str,
    key: K,
) -> Result<Claimed<'c, DB>, Error>
where
    S: Source<'c, Database = DB>,
    DB: Backend,
    K: Key,
{
    consumer::check(consumer)?;
    let encoded = EncodedKey::new(&key)?;
    // Gone before the first await, a key that cannot be sent to another thread does not keep the future from being sent.
    drop(key);
    claim_encoded(source, consumer, encoded).await
}

pub(crate) async fn claim_encoded<'c, S, DB>(
    source: S,
    consumer: &str,
    key: EncodedKey,
) -> Result<Claimed<'c, DB>, Error>
where
    S: Source<'c, Database = DB>,
    DB: Backend,
{
    let span = Span::new(consumer, &key);
    let claimed = span
        .within(async {
            let mut lease = source.lease().await?;
            let open = transaction::begin(&mut lease).await?;
            let persistent = lease.persistent;
            let (conn, guard) = lease.split();
            let claim = (consumer, &key, persistent);
            let fresh = transaction::claim::<DB>(conn, guard, open, claim).await?;
            Ok(fresh.then_some((lease, open)))
        })
        .await;
    match claimed {
        Ok(Some((lease, open))) => Ok(Claimed::Fresh(Claim { lease, open, span })),
        Ok(None) => {
            span.end("duplicate");
            Ok(Claimed::Duplicate)
        }
        Err(error) => {
            span.end("failed");
            Err(error)
        }
    }
}

/// What [`claim`] found.
#[must_use = "a fresh claim must be committed; dropping it rolls it back, and the message counts as not processed"]
pub enum Claimed<'c, DB: Backend> {
    /// The message is new. Do its work on the claim and commit it.
    Fresh(Claim<'c, DB>),
    /// An earlier delivery has committed it. Acknowledge.
    Duplicate,
}

/// An open transaction whose first statement was the claim. It derefs to the connection; end it with [`commit`](Claim::commit) or
/// [`rollback`](Claim::rollback). Dropped, it is rolled back.
#[must_use = "a claim must be committed; dropping it rolls it back"]
pub struct Claim<'c, DB: Backend> {
    lease: Lease<'c, DB>,
    open: Open,
    span: Span,
}

impl<DB: Backend> Claim<'_, DB> {
    /// Commits the claim and what was written on it, together. Acknowledge only after `Ok`.
    ///
    /// # Errors
    ///
    /// [`Error::Aborted`] and [`Error::TransactionLost`] when the transaction is dead, [`Error::CommitUnknown`] when the connection fails,
    /// [`Error::Database`] when the database refuses. In no case is the claim kept without the work.
    pub async fn commit(self) -> Result<(), Error> {
        let Self {
            mut lease,
            open,
            span,
        } = self;
        let (conn, guard) = lease.split();
        let result = span
            .within(transaction::commit::<DB>(conn, guard, open))
            .await;
        span.end(if result.is_ok() {
            "processed"
        } else {
            "failed"
        });
        result
    }

    /// Gives the claim up: the message counts as not processed, and its next delivery is fresh. If the connection fails here, it is
    /// closed, and the database rolls back.
    pub async fn rollback(self) {
        let Self {
            mut lease,
            open,
            span,
        } = self;
        let (conn, guard) = lease.split();
        span.within(transaction::roll_back::<DB>(conn, guard, open))
            .await;
        span.end("failed");
    }

    pub(crate) fn span(&self) -> &Span {
        &self.span
    }
}

impl<DB: Backend> Deref for Claim<'_, DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        self.lease.connection_ref()
    }
}

impl<DB: Backend> DerefMut for Claim<'_, DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        self.lease.connection()
    }
}

/// Commits a transaction of yours that deliveries have joined, and notices when it is dead, which [`Transaction::commit`] does not:
/// PostgreSQL answers the COMMIT of an aborted transaction with a ROLLBACK that looks like success. Acknowledge the messages after its
/// `Ok`, and none of them before.
///
/// # Errors
///
/// [`Error::OuterTransaction`] when the transaction is dead, [`Error::CommitUnknown`] when the connection fails, [`Error::Database`] when
/// the database refuses. Let all messages that were delivered into it be redelivered.
pub async fn commit<DB: Backend>(mut transaction: Transaction<'_, DB>) -> Result<(), Error> {
    let conn = &mut *transaction;
    DB::settle(conn).await.map_err(Error::at_outer_commit)?;
    match backend::depth::<DB>(conn) {
        0 => Err(Error::outer_transaction()),
        1 => {
            let result = DB::commit_foreign(conn)
                .await
                .map_err(Error::at_outer_commit);
            if result.is_err()
                && backend::rollback::<DB>(conn).await.is_err()
                && !DB::is_alive(conn).await
            {
                DB::forget_levels(conn, 0).await.ok();
            }
            // It is over; its drop has only a depth of 0 to look at.
            result
        }
        _ => transaction.commit().await.map_err(Error::at_outer_commit),
    }
}
