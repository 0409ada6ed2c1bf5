use super::{Codec, Failed};
use crate::backend::{self, Backend};
use crate::claims::{Claims, Verdict};
use crate::outcome::{BatchOutcome, Outcome};
use crate::retry::Backoff;
use crate::source::{Guard, Lease, Source};
use crate::trace::{SharedSpan, Span};
use crate::transaction::{self, Open};
use crate::transient::is_conflict;
use crate::tx::Tx;
use crate::{Deliveries, Delivery, Error};

use super::TransactionParameter;

/// Where the lease stays while the delivery borrows from it, and between its attempts.
pub struct Slot<'c, DB: Backend>(Option<Lease<'c, DB>>);

impl<DB: Backend> Slot<'_, DB> {
    #[must_use]
    pub fn new() -> Self {
        Self(None)
    }
}

impl<DB: Backend> Default for Slot<'_, DB> {
    fn default() -> Self {
        Self::new()
    }
}

/// How a delivery starts.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once, and a box would be an allocation for each message"
)]
pub enum Begun<'l, DB: Backend, O> {
    /// The message is new: run the body.
    Fresh(Running<'l, DB>),
    /// It is not, or something failed: return this.
    Ended(O),
}

/// As [`Begun`], of a delivery that may run again.
#[expect(clippy::large_enum_variant, reason = "as `Begun`")]
pub enum Attempt<'l, DB: Backend, O> {
    Fresh(Running<'l, DB>),
    Ended(O),
    /// It lost against another transaction, and the wait is over.
    Again,
}

/// How an attempt ends.
pub enum Finished<O> {
    Ended(O),
    Again,
}

/// How often a delivery may run again, and after which errors.
pub struct Retries<E> {
    backoff: Backoff,
    is_conflict: fn(&E) -> bool,
}

impl<E> Retries<E> {
    #[must_use]
    pub fn new(retries: u32, is_conflict: fn(&E) -> bool) -> Self {
        Self {
            backoff: Backoff::new(retries),
            is_conflict,
        }
    }
}

/// A delivery whose body is to be run.
pub struct Running<'l, DB: Backend> {
    tx: Tx<'l, DB>,
    guard: &'l mut Guard,
    open: Open,
    span: Span,
    persistent: bool,
    /// The claims as they are stored.
    claims: Claims<'l>,
    /// Of a batch, whether each message is fresh.
    fresh: Vec<bool>,
}

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
            (Verdict::Replayed(json), Some(codec)) => (codec.decode)(&json)
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

/// Why a delivery with a body failed.
enum Fault<E> {
    Library(Error),
    Body(E),
}

impl<E> Fault<E> {
    fn into_error(self, failed: Failed<E>) -> E {
        match self {
            Fault::Library(error) => failed(error),
            Fault::Body(error) => error,
        }
    }
}

impl<'l, DB: Backend> Running<'l, DB> {
    /// The handler's transaction, as the type that it declares.
    pub fn transaction<P>(&mut self) -> &mut P
    where
        P: TransactionParameter<'l, Database = DB> + ?Sized,
    {
        P::of(&mut self.tx)
    }

    /// The delivery's span, for the body to run in.
    pub fn span(&self) -> SharedSpan {
        self.span.share()
    }

    /// Those messages of the batch that are fresh, in their order.
    pub fn fresh<M>(&self, messages: Vec<M>) -> Vec<M> {
        messages
            .into_iter()
            .zip(&self.fresh)
            .filter_map(|(message, is_fresh)| is_fresh.then_some(message))
            .collect()
    }

    /// Seals and commits, or rolls back.
    pub async fn finish<T, E>(
        self,
        result: Result<T, E>,
        failed: Failed<E>,
    ) -> Result<Outcome<T>, E> {
        let ended = self.end(result, None).await;
        ended
            .map(Outcome::Processed)
            .map_err(|(fault, _)| fault.into_error(failed))
    }

    /// As [`finish`](Self::finish), and stores the value.
    pub async fn finish_replay<T, E>(
        self,
        result: Result<T, E>,
        failed: Failed<E>,
        codec: Codec<T>,
    ) -> Result<Outcome<T>, E> {
        let ended = self.end(result, Some(codec)).await;
        ended
            .map(Outcome::Processed)
            .map_err(|(fault, _)| fault.into_error(failed))
    }

    /// As [`finish`](Self::finish), of a batch.
    pub async fn finish_batch<T, E>(
        mut self,
        result: Result<T, E>,
        failed: Failed<E>,
    ) -> Result<BatchOutcome<T>, E> {
        let fresh = std::mem::take(&mut self.fresh);
        let ended = self.end(result, None).await;
        ended
            .map(|value| BatchOutcome::new(&fresh, Some(value)))
            .map_err(|(fault, _)| fault.into_error(failed))
    }

    /// As [`finish`](Self::finish), of a delivery that may run again.
    pub async fn finish_again<T, E>(
        self,
        result: Result<T, E>,
        failed: Failed<E>,
        retries: &mut Retries<E>,
    ) -> Finished<Result<Outcome<T>, E>> {
        let ended = self.end(result, None).await;
        ended_or_again(ended, failed, retries).await
    }

    /// As [`finish_replay`](Self::finish_replay), of a delivery that may run again.
    pub async fn finish_replay_again<T, E>(
        self,
        result: Result<T, E>,
        failed: Failed<E>,
        codec: Codec<T>,
        retries: &mut Retries<E>,
    ) -> Finished<Result<Outcome<T>, E>> {
        let ended = self.end(result, Some(codec)).await;
        ended_or_again(ended, failed, retries).await
    }

    /// What went wrong, and whether it may run again.
    async fn end<T, E>(
        self,
        result: Result<T, E>,
        codec: Option<Codec<T>>,
    ) -> Result<T, (Fault<E>, bool)> {
        let Self {
            mut tx,
            guard,
            open,
            span,
            persistent,
            claims,
            ..
        } = self;
        let conn = &mut *tx.transaction;
        let ended = span
            .within(async {
                let value = result.map_err(Fault::Body)?;
                if let Some(codec) = codec {
                    let json =
                        (codec.encode)(&value).map_err(|error| Fault::Library(error.into()))?;
                    let (call, keys) = (claims.call(persistent), claims.stored_keys());
                    transaction::store::<DB>(conn, call, &keys, &json)
                        .await
                        .map_err(Fault::Library)?;
                }
                Ok(value)
            })
            .await;
        let ended = match ended {
            Ok(value) => span
                .within(transaction::commit::<DB>(conn, guard, open))
                .await
                .map(|()| value)
                .map_err(Fault::Library),
            Err(fault) => {
                span.within(transaction::roll_back::<DB>(conn, guard, open))
                    .await;
                Err(fault)
            }
        };
        // It is over, and what sqlx would roll back for it is not ours.
        std::mem::forget(tx.transaction);
        span.end(if ended.is_ok() { "processed" } else { "failed" });
        let may_run_again = open.is_outermost() && !guard.close;
        ended.map_err(|fault| (fault, may_run_again))
    }
}

async fn ended_or_again<T, E>(
    ended: Result<T, (Fault<E>, bool)>,
    failed: Failed<E>,
    retries: &mut Retries<E>,
) -> Finished<Result<Outcome<T>, E>> {
    match ended {
        Ok(value) => Finished::Ended(Ok(Outcome::Processed(value))),
        Err((fault, may_run_again)) => {
            let is_conflict = match &fault {
                Fault::Library(error) => is_conflict(error),
                Fault::Body(error) => (retries.is_conflict)(error),
            };
            if !(may_run_again && is_conflict && retries.backoff.is_left()) {
                return Finished::Ended(Err(fault.into_error(failed)));
            }
            drop(fault);
            retries.backoff.wait().await;
            Finished::Again
        }
    }
}
