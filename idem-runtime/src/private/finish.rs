use super::{Codec, Failed, Finished, Retries, Running};
use crate::Error;
use crate::backend::Backend;
use crate::outcome::{BatchOutcome, Outcome};
use crate::transaction;
use crate::transient::is_conflict;

impl<DB: Backend> Running<'_, DB> {
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
                    let (call, places) = (claims.call(persistent), claims.places());
                    transaction::store::<DB>(conn, open, call, &places, &json)
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
