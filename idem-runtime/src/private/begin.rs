use super::{Attempt, Begun, Codec, Failed, Retries, Running, Slot};
use crate::backend::{self, Backend};
use crate::claims::{Claims, Earlier, Verdict};
use crate::outcome::{BatchOutcome, Outcome};
use crate::source::Source;
use crate::trace::Span;
use crate::transaction;
use crate::transient::is_conflict;
use crate::tx::Tx;
use crate::{Deliveries, Delivery, Error};

/// Begins and claims.
pub async fn begin<'l, 'c, DB, S, T, E>(
    slot: &'l mut Slot<'c, DB>,
    source: S,
    message: &'l Delivery<'static>,
    failed: Failed<E>,
) -> Begun<'l, DB, Result<Outcome<T>, E>>
where
    DB: Backend,
    S: Source<'c, Database = DB>,
{
    match attempt(slot, Some(source), message, None, 1).await {
        Ok(running) => Begun::Fresh(running),
        Err(stopped) => Begun::Ended(stopped.result.map_err(failed)),
    }
}

/// As [`begin`], with the value of an earlier delivery.
pub async fn begin_replay<'l, 'c, DB, S, T, E>(
    slot: &'l mut Slot<'c, DB>,
    source: S,
    message: &'l Delivery<'static>,
    failed: Failed<E>,
    codec: Codec<T>,
) -> Begun<'l, DB, Result<Outcome<T>, E>>
where
    DB: Backend,
    S: Source<'c, Database = DB>,
{
    match attempt(slot, Some(source), message, Some(codec), 1).await {
        Ok(running) => Begun::Fresh(running),
        Err(stopped) => Begun::Ended(stopped.result.map_err(failed)),
    }
}

/// As [`begin`], and as often as it takes. The source is taken by the first attempt.
pub async fn begin_again<'l, 'c, DB, S, T, E>(
    slot: &'l mut Slot<'c, DB>,
    source: &mut Option<S>,
    message: &'l Delivery<'static>,
    failed: Failed<E>,
    retries: &mut Retries<E>,
) -> Attempt<'l, DB, Result<Outcome<T>, E>>
where
    DB: Backend,
    S: Source<'c, Database = DB>,
{
    match attempt(slot, source.take(), message, None, retries.backoff.run()).await {
        Ok(running) => Attempt::Fresh(running),
        Err(stopped) => stopped.or_again(failed, retries).await,
    }
}

/// As [`begin_again`], with the value of an earlier delivery.
pub async fn begin_replay_again<'l, 'c, DB, S, T, E>(
    slot: &'l mut Slot<'c, DB>,
    source: &mut Option<S>,
    message: &'l Delivery<'static>,
    failed: Failed<E>,
    codec: Codec<T>,
    retries: &mut Retries<E>,
) -> Attempt<'l, DB, Result<Outcome<T>, E>>
where
    DB: Backend,
    S: Source<'c, Database = DB>,
{
    let run = retries.backoff.run();
    match attempt(slot, source.take(), message, Some(codec), run).await {
        Ok(running) => Attempt::Fresh(running),
        Err(stopped) => stopped.or_again(failed, retries).await,
    }
}

/// Begins and claims the messages of a batch.
pub async fn begin_batch<'l, 'c, DB, S, T, E>(
    slot: &'l mut Slot<'c, DB>,
    source: S,
    messages: &'l Deliveries<'static>,
    failed: Failed<E>,
) -> Begun<'l, DB, Result<BatchOutcome<T>, E>>
where
    DB: Backend,
    S: Source<'c, Database = DB>,
{
    let terms = match messages.terms() {
        Ok(terms) => terms,
        Err(error) => return Begun::Ended(Err(failed(error))),
    };
    let none = vec![false; terms.messages.len()];
    if none.is_empty() {
        return Begun::Ended(Ok(BatchOutcome::new(&none, None)));
    }
    let span = Span::new(terms.consumer, &terms.name());
    match start(slot, Some(source), Claims::Batch(terms), span, 1).await {
        Ok(Ok(running)) => Begun::Fresh(running),
        Ok(Err(_)) => Begun::Ended(Ok(BatchOutcome::new(&none, None))),
        Err(failure) => Begun::Ended(Err(failed(failure.error))),
    }
}

/// A delivery that has no body to run.
struct Stopped<T> {
    result: Result<Outcome<T>, Error>,
    /// Whether it may run again after a conflict.
    may_run_again: bool,
}

impl<T> Stopped<T> {
    fn new(result: Result<Outcome<T>, Error>) -> Self {
        Self {
            result,
            may_run_again: false,
        }
    }

    async fn or_again<DB: Backend, E>(
        self,
        failed: Failed<E>,
        retries: &mut Retries<E>,
    ) -> Attempt<'static, DB, Result<Outcome<T>, E>> {
        match self.result {
            Err(error)
                if self.may_run_again && retries.backoff.is_left() && is_conflict(&error) =>
            {
                drop(error);
                retries.backoff.wait().await;
                Attempt::Again
            }
            result => Attempt::Ended(result.map_err(failed)),
        }
    }
}

/// With a codec, a duplicate gets the stored value.
async fn attempt<'l, 'c, DB, S, T>(
    slot: &'l mut Slot<'c, DB>,
    source: Option<S>,
    message: &'l Delivery<'static>,
    codec: Option<Codec<T>>,
    run: u32,
) -> Result<Running<'l, DB>, Stopped<T>>
where
    DB: Backend,
    S: Source<'c, Database = DB>,
{
    let terms = message.terms().map_err(|error| Stopped::new(Err(error)))?;
    let claims = Claims::Message {
        terms,
        replays: codec.is_some(),
    };
    let span = Span::new(terms.consumer, terms.name());
    match start(slot, source, claims, span, run).await {
        Ok(Ok(running)) => Ok(running),
        Ok(Err(verdict)) => Err(Stopped::new(match (verdict, codec) {
            (
                Verdict::Duplicate(Earlier {
                    value: Some(json), ..
                }),
                Some(codec),
            ) => (codec.decode)(&json)
                .map(Outcome::Replayed)
                .map_err(Error::from),
            (Verdict::Stale, _) => Ok(Outcome::Stale),
            _ => Ok(Outcome::Duplicate),
        })),
        Err(failure) => Err(Stopped {
            result: Err(failure.error),
            may_run_again: failure.may_run_again,
        }),
    }
}

struct Failure {
    error: Error,
    may_run_again: bool,
}

/// The delivery, or the verdict of one that is over.
async fn start<'l, 'c, DB, S>(
    slot: &'l mut Slot<'c, DB>,
    source: Option<S>,
    claims: Claims<'l>,
    span: Span,
    run: u32,
) -> Result<Result<Running<'l, DB>, Verdict>, Failure>
where
    DB: Backend,
    S: Source<'c, Database = DB>,
{
    let mut may_run_again = false;
    let started = span
        .within(async {
            if let Some(source) = source {
                slot.0 = Some(source.lease().await?);
            }
            let lease = slot.0.as_mut().ok_or_else(Error::transaction_lost)?;
            let persistent = lease.persistent;
            // In a transaction of the caller's, a conflict ends that one.
            let is_outermost = backend::depth::<DB>(lease.connection()) == 0;
            let (mut transaction, guard, open) =
                transaction::begin_transaction(lease, claims).await?;
            let claimed =
                transaction::claim::<DB>(&mut transaction, guard, open, claims, persistent).await;
            may_run_again = is_outermost && !guard.close;
            let fresh = match claimed {
                Ok(Verdict::Fresh) => Vec::new(),
                Ok(Verdict::FreshOf(fresh)) if fresh.contains(&true) => fresh,
                ended => {
                    // It is over, and what sqlx would roll back for it is not ours.
                    std::mem::forget(transaction);
                    return ended.map(Err);
                }
            };
            Ok(Ok((transaction, guard, open, persistent, fresh)))
        })
        .await;
    match started {
        Ok(Ok((transaction, guard, open, persistent, fresh))) => Ok(Ok(Running {
            tx: Tx {
                transaction,
                consumer: claims.consumer(),
                keys: claims.names(&fresh),
                business_key: claims.business_key(),
                attempt: run,
            },
            guard,
            open,
            span,
            persistent,
            claims,
            fresh,
        })),
        Ok(Err(verdict)) => {
            span.end(verdict.name());
            Ok(Err(verdict))
        }
        Err(error) => {
            span.end("failed");
            Err(Failure {
                error,
                may_run_again,
            })
        }
    }
}
