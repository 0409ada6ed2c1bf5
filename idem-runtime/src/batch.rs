use crate::error::Cause;
use crate::retry::AsError;
use crate::transient::{Reach, reach};
use crate::{BatchOutcome, Error, Outcome};

/// Delivers a batch to a handler with `each`, and when that fails, its messages one by one, so that one that cannot be processed does not
/// hold up the others. What comes back is in the order of the messages: acknowledge each `Ok`, and let each `Err` be redelivered or go
/// to the dead letters, as its own error says. The handler's value is of a batch, and is dropped: a message is `Processed(())`.
///
/// ```no_run
/// # extern crate idem_runtime as idem;
/// # use idem::{BatchOutcome, Outcome};
/// # use sqlx::PgPool;
/// # #[derive(Clone)] struct Event;
/// # async fn add_credits(_: &PgPool, _: Vec<Event>) -> Result<BatchOutcome<()>, sqlx::Error> { unimplemented!() }
/// # fn acknowledge(_: usize) {}
/// # async fn example(pool: &PgPool, events: Vec<Event>) {
/// // #[idempotent(key = "event.id", consumer = "billing", each = "event in events")]
/// // async fn add_credits(tx: &mut PgConnection, events: Vec<Event>) -> Result<(), sqlx::Error> { … }
/// let results = idem::batch(events, |events| add_credits(pool, events)).await;
/// for (index, result) in results.into_iter().enumerate() {
///     match result {
///         Ok(Outcome::Processed(()) | Outcome::Duplicate) => acknowledge(index),
///         Ok(_) => acknowledge(index),
///         Err(error) => eprintln!("message {index}: {error}"),
///     }
/// }
/// # }
/// ```
///
/// A message is processed at most once whatever happens, since its claim decides. The batch's own error is given up for those of the single
/// messages. When the database cannot be reached, the rest is not tried, [`Error::NotTried`], so that a hundred messages do not wait
/// for a hundred time-outs: at once where the library's own steps say so, and after two messages in a row where the error may be of
/// another connection of the handler's.
///
/// # Errors
///
/// None of its own; each message has a result.
pub async fn batch<M, F, Fut, T, E, Kind>(
    messages: Vec<M>,
    handler: F,
) -> Vec<Result<Outcome<()>, E>>
where
    M: Clone,
    F: Fn(Vec<M>) -> Fut,
    Fut: Future<Output = Result<BatchOutcome<T>, E>>,
    E: From<Error> + AsError<Kind>,
{
    let error = match handler(messages.clone()).await {
        Ok(outcome) => return settled(messages.len(), &outcome),
        Err(error) => error,
    };
    if messages.len() == 1 || reach(error.as_error()) == Reach::Gone {
        return stopped(messages.len(), error);
    }
    drop(error);
    let mut results = Vec::with_capacity(messages.len());
    let all = messages.len();
    let mut before = Reach::There;
    for message in messages {
        let now = match handler(vec![message]).await {
            Ok(outcome) => {
                results.extend(settled(1, &outcome));
                Reach::There
            }
            Err(error) => {
                let reach = reach(error.as_error());
                results.push(Err(error));
                reach
            }
        };
        // A connection that fails twice in a row is hardly the fault of both messages.
        if now == Reach::Gone || now == Reach::InDoubt && before == Reach::InDoubt {
            break;
        }
        before = now;
    }
    results.resize_with(all, not_tried);
    results
}

fn settled<T, E>(messages: usize, outcome: &BatchOutcome<T>) -> Vec<Result<Outcome<()>, E>> {
    let mut results: Vec<_> = (0..messages).map(|_| Ok(Outcome::Duplicate)).collect();
    for index in &outcome.fresh {
        if let Some(result) = results.get_mut(*index) {
            *result = Ok(Outcome::Processed(()));
        }
    }
    results
}

/// The error for the first message, and the rest not tried.
fn stopped<E: From<Error>>(messages: usize, error: E) -> Vec<Result<Outcome<()>, E>> {
    let mut results = vec![Err(error)];
    results.resize_with(messages, not_tried);
    results
}

fn not_tried<E: From<Error>>() -> Result<Outcome<()>, E> {
    Err(Error::NotTried(Cause::out_of_reach()).into())
}
