use crate::backend::Backend;
use crate::claim::{Claimed, claim_on};
use crate::terms::Terms;
use crate::{Delivery, Error, Key, Outcome, Source};

/// The closure form: claims the message, runs the closure on the transaction's connection if it is new, and commits both together.
///
/// ```no_run
/// # extern crate idem_runtime as idem;
/// # #[cfg(feature = "sqlite")]
/// # async fn example(pool: &sqlx::SqlitePool, event_id: &str, amount: i64) -> Result<(), Box<dyn std::error::Error>> {
/// use idem::Outcome;
/// use sqlx::SqliteConnection;
///
/// let outcome = idem::once(pool, "billing", event_id, async |tx: &mut SqliteConnection| {
///     sqlx::query("UPDATE accounts SET credits = credits + ?").bind(amount).execute(tx).await?;
///     Ok::<_, sqlx::Error>(amount)
/// })
/// .await?;
/// assert!(matches!(outcome, Outcome::Processed(_) | Outcome::Duplicate));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The closure's own error, after the rollback, or the library's as `E::from(error)`. In both cases nothing was applied (or, for
/// [`Error::CommitUnknown`], it is unknown): let the broker redeliver.
pub async fn once<'c, S, DB, K, F, T, E>(
    source: S,
    consumer: &str,
    key: K,
    body: F,
) -> Result<Outcome<T>, E>
where
    S: Source<'c, Database = DB>,
    DB: Backend,
    K: Key,
    F: for<'t> AsyncFunc<&'t mut DB::Connection, Result<T, E>, Fut: Send>,
    E: From<Error>,
{
    let delivery = Delivery::of(consumer, key);
    once_on(source, delivery.terms()?, body).await
}

pub(crate) async fn once_on<'c, S, DB, F, T, E>(
    source: S,
    terms: &Terms<'_>,
    body: F,
) -> Result<Outcome<T>, E>
where
    S: Source<'c, Database = DB>,
    DB: Backend,
    F: for<'t> AsyncFunc<&'t mut DB::Connection, Result<T, E>, Fut: Send>,
    E: From<Error>,
{
    let mut claim = match claim_on(source, terms).await? {
        Claimed::Fresh(claim) => claim,
        Claimed::Duplicate | Claimed::Replayed(_) => return Ok(Outcome::Duplicate),
        Claimed::Stale => return Ok(Outcome::Stale),
    };
    let span = claim.span().share();
    match span.within(body(&mut claim)).await {
        Ok(value) => {
            claim.commit().await?;
            Ok(Outcome::Processed(value))
        }
        Err(error) => {
            claim.rollback().await;
            Err(error)
        }
    }
}

pub(crate) async fn replay_on<'c, S, DB, F, T, E>(
    source: S,
    terms: &Terms<'_>,
    body: F,
) -> Result<Outcome<T>, E>
where
    S: Source<'c, Database = DB>,
    DB: Backend,
    F: for<'t> AsyncFunc<&'t mut DB::Connection, Result<T, E>, Fut: Send>,
    T: crate::Replay,
    E: From<Error>,
{
    let mut claim = match claim_on(source, terms).await? {
        Claimed::Fresh(claim) => claim,
        Claimed::Duplicate => return Ok(Outcome::Duplicate),
        Claimed::Replayed(value) => return Ok(Outcome::Replayed(value.decode()?)),
        Claimed::Stale => return Ok(Outcome::Stale),
    };
    let span = claim.span().share();
    match span.within(body(&mut claim)).await {
        Ok(value) => {
            claim.commit_with(&value).await?;
            Ok(Outcome::Processed(value))
        }
        Err(error) => {
            claim.rollback().await;
            Err(error)
        }
    }
}

/// An async closure whose future has a name, so that it can be required to be `Send`. Implemented for every async closure and every
/// function that returns a future; there is no need to name or implement it.
pub trait AsyncFunc<A, R>:
    AsyncFnOnce(A) -> R + FnOnce(A) -> <Self as AsyncFunc<A, R>>::Fut
{
    /// The closure's future.
    type Fut: Future<Output = R>;
}

impl<F, A, R, Fut> AsyncFunc<A, R> for F
where
    F: AsyncFnOnce(A) -> R + FnOnce(A) -> Fut,
    Fut: Future<Output = R>,
{
    type Fut = Fut;
}
