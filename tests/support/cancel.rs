use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Runs a future for at most `polls` polls and drops it then; `None` if it was not done.
pub async fn cancelled_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_times(polls, future.as_mut()).await
}

/// Polls a future at most so many times, each time when it asks for it, and leaves it alive.
pub async fn poll_times<F: Future + Unpin>(polls: usize, mut future: F) -> Option<F::Output> {
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match std::pin::Pin::new(&mut future).poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
