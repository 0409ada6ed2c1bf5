use std::pin::Pin;
use std::task::{Context, Poll};

use crate::backend::BoxFuture;

/// A future of sqlx's nested `begin` that is forgotten when it is dropped half-way: dropping it would roll the outer transaction back,
/// behind the back of its owner. What stays is a savepoint that nobody returns to, and the memory of one small future. The answer that
/// is still to come is read before the connection's next statement.
pub(crate) struct ForgottenWhenDropped<'a, T>(Option<BoxFuture<'a, T>>);

impl<'a, T> ForgottenWhenDropped<'a, T> {
    pub(crate) fn new(future: BoxFuture<'a, T>) -> Self {
        Self(Some(future))
    }
}

impl<T> Future for ForgottenWhenDropped<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(future) = &mut self.0 else {
            return Poll::Pending;
        };
        let result = future.as_mut().poll(cx);
        if result.is_ready() {
            self.0 = None;
        }
        result
    }
}

impl<T> Drop for ForgottenWhenDropped<'_, T> {
    fn drop(&mut self) {
        std::mem::forget(self.0.take());
    }
}
