mod value;
pub(crate) use value::Names;

use std::ops::{Deref, DerefMut};

use sqlx::Transaction;

use crate::backend::{self, Backend};
use crate::claims::{Claims, Earlier, Verdict};
use crate::error::Error;
use crate::source::Lease;
use crate::terms::Terms;
#[cfg(feature = "testing")]
use crate::testing::{self, Point};
use crate::trace::Span;
use crate::transaction::{self, Open};
use crate::value::StoredValue;
use crate::{Delivery, Key, Source};

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
///     _ => {} // an earlier delivery did it
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
    let delivery = Delivery::of(consumer, key);
    claim_on(source, delivery.terms()?).await
}

pub(crate) async fn claim_on<'c, S, DB>(
    source: S,
    terms: &Terms<'_>,
) -> Result<Claimed<'c, DB>, Error>
where
    S: Source<'c, Database = DB>,
    DB: Backend,
{
    let span = Span::new(terms.consumer, terms.name());
    let started = span
        .within(start(
            source,
            Claims::Message {
                terms,
                replays: terms.replays,
            },
        ))
        .await;
    let (lease, open, verdict) = match started {
        Ok(started) => started,
        Err(error) => {
            span.end("failed");
            return Err(error);
        }
    };
    Ok(match verdict {
        Verdict::Fresh | Verdict::FreshOf(_) => Claimed::Fresh(Claim {
            lease,
            open,
            span,
            names: Names::new(terms.consumer, &terms.places_with_value()),
        }),
        ended => {
            span.end(ended.name());
            match ended {
                Verdict::Duplicate(Earlier {
                    value: Some(value), ..
                }) => Claimed::Replayed(StoredValue(value)),
                Verdict::Stale => Claimed::Stale,
                _ => Claimed::Duplicate,
            }
        }
    })
}

/// Begins and claims.
pub(crate) async fn start<'c, S, DB>(
    source: S,
    claims: Claims<'_>,
) -> Result<(Lease<'c, DB>, Open, Verdict), Error>
where
    S: Source<'c, Database = DB>,
    DB: Backend,
{
    let mut lease = source.lease().await?;
    let open = transaction::begin(&mut lease, claims).await?;
    let persistent = lease.persistent;
    let (conn, guard) = lease.split();
    let verdict = transaction::claim::<DB>(conn, guard, open, claims, persistent).await?;
    Ok((lease, open, verdict))
}

/// What [`claim`] found.
#[must_use = "a fresh claim must be committed; dropping it rolls it back, and the message counts as not processed"]
pub enum Claimed<'c, DB: Backend> {
    /// The message is new. Do its work on the claim and commit it.
    Fresh(Claim<'c, DB>),
    /// An earlier delivery has committed it. Acknowledge.
    Duplicate,
    /// An earlier delivery has committed it, and stored this value. Only for a [`Delivery`] that asks for it (`Delivery::replaying`).
    /// Acknowledge.
    Replayed(StoredValue),
    /// A newer version was applied. Only for a [`Delivery`] with a [`version`](Delivery::version). Acknowledge.
    Stale,
}

/// An open transaction whose first statement was the claim. It derefs to the connection; end it with [`commit`](Claim::commit) or
/// [`rollback`](Claim::rollback). Dropped, it is rolled back.
#[must_use = "a claim must be committed; dropping it rolls it back"]
pub struct Claim<'c, DB: Backend> {
    pub(crate) lease: Lease<'c, DB>,
    pub(crate) open: Open,
    pub(crate) span: Span,
    pub(crate) names: Names,
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
            ..
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
            ..
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
    #[cfg(feature = "testing")]
    testing::reach::<DB>(conn, Point::BeforeCommit { is_outermost: true }).await?;
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
            #[cfg(feature = "testing")]
            if result.is_ok() {
                return testing::reach::<DB>(conn, Point::Committed).await;
            }
            // It is over; its drop has only a depth of 0 to look at.
            result
        }
        _ => transaction.commit().await.map_err(Error::at_outer_commit),
    }
}
