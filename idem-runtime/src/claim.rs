use std::ops::{Deref, DerefMut};

use sqlx::Transaction;

use crate::backend::{self, Backend, Closes, Fault};
use crate::error::Error;
use crate::key::EncodedKey;
use crate::source::{Guard, Lease};
use crate::trace::Span;
use crate::{Key, Source, consumer};

/// Claims a message without the attribute: begins a transaction and inserts the claim as its first statement.
///
/// ```no_run
/// use idem_runtime::Claimed;
///
/// # #[cfg(feature = "sqlite")]
/// # async fn example(pool: &sqlx::SqlitePool, event_id: &str) -> Result<(), Box<dyn std::error::Error>> {
/// match idem_runtime::claim(pool, "billing", event_id).await? {
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
            let open = begin(&mut lease).await?;
            let persistent = lease.persistent;
            let (conn, guard) = lease.split();
            let fresh = insert::<DB>(conn, guard, open, (consumer, &key, persistent)).await?;
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
        let result = span.within(commit_open::<DB>(conn, guard, open)).await;
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
        span.within(abandon::<DB>(conn, guard, open)).await;
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
/// PostgreSQL answers the COMMIT of an aborted transaction with a ROLLBACK that looks like success.
///
/// On MySQL a transaction that the server has rolled back (a deadlock whose error was dropped) cannot be told from a live one here.
///
/// # Errors
///
/// As [`Claim::commit`].
pub async fn commit<DB: Backend>(mut transaction: Transaction<'_, DB>) -> Result<(), Error> {
    let conn = &mut *transaction;
    DB::settle(conn).await.map_err(Error::at_commit)?;
    match backend::depth::<DB>(conn) {
        0 => Err(Error::transaction_lost()),
        1 => {
            let result = DB::commit_foreign(conn).await.map_err(Error::at_commit);
            if result.is_err() {
                backend::rollback::<DB>(conn).await.ok();
            }
            // It is over; its drop has only a depth of 0 to look at.
            result
        }
        _ => transaction.commit().await.map_err(Error::at_commit),
    }
}

/// An open transaction, or a savepoint in one: what its end has to know.
#[derive(Clone, Copy)]
pub(crate) struct Open {
    /// sqlx's depth outside.
    outer: usize,
    /// sqlx's depth inside, when every transaction that the handler nests has ended.
    depth: usize,
    returns_to_pool: bool,
}

/// Begins on the lease itself, whose guard then rolls back when it is dropped.
pub(crate) async fn begin<DB: Backend>(lease: &mut Lease<'_, DB>) -> Result<Open, Error> {
    let (outer, returns_to_pool) = outer(lease).await?;
    let (conn, guard) = lease.split();
    if outer == 0 {
        guard.close = DB::CLOSES != Closes::Never;
        backend::begin::<DB>(conn, Some(DB::BEGIN))
            .await
            .map_err(Error::at_begin)?;
    } else {
        DB::savepoint(conn).await.map_err(Error::at_begin)?;
    }
    guard.close = DB::CLOSES == Closes::UntilItEnds;
    guard.levels = 1;
    Ok(Open {
        outer,
        depth: outer + 1,
        returns_to_pool,
    })
}

/// Begins as [`begin`] does, for handlers that want sqlx's own type: a `Transaction` borrows its connection, so that the guard stays
/// behind in the lease.
pub(crate) async fn begin_transaction<'l, DB: Backend>(
    lease: &'l mut Lease<'_, DB>,
) -> Result<(Transaction<'l, DB>, &'l mut Guard, Open), Error> {
    let (outer, returns_to_pool) = outer(lease).await?;
    let (conn, guard) = lease.split();
    let transaction = if outer == 0 {
        guard.close = DB::CLOSES != Closes::Never;
        let begin = sqlx::SqlSafeStr::into_sql_str(DB::BEGIN);
        Transaction::begin(conn, Some(begin)).await
    } else {
        DB::nested(conn).await
    }
    .map_err(Error::at_begin)?;
    guard.close = DB::CLOSES == Closes::UntilItEnds;
    let open = Open {
        outer,
        depth: outer + 1,
        returns_to_pool,
    };
    Ok((transaction, guard, open))
}

async fn outer<DB: Backend>(lease: &mut Lease<'_, DB>) -> Result<(usize, bool), Error> {
    let conn = lease.connection();
    if backend::depth::<DB>(conn) > 0 {
        DB::settle(conn).await.map_err(Error::at_begin)?;
    }
    let outer = backend::depth::<DB>(conn);
    if lease.joins && outer == 0 {
        return Err(Error::transaction_lost());
    }
    Ok((outer, lease.returns_to_pool()))
}

/// The claim, which is the first statement. If it is not fresh, the transaction is over.
pub(crate) async fn insert<DB: Backend>(
    conn: &mut DB::Connection,
    guard: &mut Guard,
    open: Open,
    (consumer, key, persistent): (&str, &EncodedKey, bool),
) -> Result<bool, Error> {
    let fresh = DB::insert(conn, consumer, key.as_str(), persistent).await;
    match &fresh {
        Ok(true) => {}
        Err(error) if backend::fault(error) == Fault::Disconnected => *guard = Guard::CLOSE,
        Ok(false) | Err(_) => abandon::<DB>(conn, guard, open).await,
    }
    fresh.map_err(Error::at_claim)
}

/// The seal, and COMMIT or RELEASE SAVEPOINT.
pub(crate) async fn commit_open<DB: Backend>(
    conn: &mut DB::Connection,
    guard: &mut Guard,
    open: Open,
) -> Result<(), Error> {
    let result = seal_and_commit::<DB>(conn, open).await;
    match &result {
        Ok(()) => *guard = Guard::default(),
        // The connection is gone: a ROLLBACK on it can only fail, or wait.
        Err(Error::CommitUnknown(_)) => *guard = Guard::CLOSE,
        Err(_) => abandon::<DB>(conn, guard, open).await,
    }
    result
}

async fn seal_and_commit<DB: Backend>(conn: &mut DB::Connection, open: Open) -> Result<(), Error> {
    DB::settle(conn).await.map_err(Error::at_commit)?;
    // A nested begin() that was cancelled has rolled everything back; one that was forgotten would be committed in place of ours.
    if backend::depth::<DB>(conn) != open.depth {
        return Err(Error::transaction_lost());
    }
    if open.outer == 0 {
        return DB::seal_and_commit(conn, open.returns_to_pool)
            .await
            .map_err(Error::at_commit);
    }
    // RELEASE SAVEPOINT fails in a dead transaction, and needs no seal.
    backend::commit::<DB>(conn).await.map_err(Error::at_commit)
}

/// Rolls back and waits for it, since a rollback that is left to the drop needs an async runtime to go out. A connection on which it
/// fails is closed.
pub(crate) async fn abandon<DB: Backend>(conn: &mut DB::Connection, guard: &mut Guard, open: Open) {
    while backend::depth::<DB>(conn) > open.outer {
        if backend::rollback::<DB>(conn).await.is_err() {
            *guard = Guard::CLOSE;
            return;
        }
    }
    *guard = Guard::default();
}
