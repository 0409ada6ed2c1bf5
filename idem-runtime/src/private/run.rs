use super::TransactionParameter;
use crate::backend::Backend;
use crate::claims::Claims;
use crate::retry::Backoff;
use crate::source::{Guard, Lease};
use crate::trace::{SharedSpan, Span};
use crate::transaction::Open;
use crate::tx::Tx;

/// Where the lease stays while the delivery borrows from it, and between its attempts.
pub struct Slot<'c, DB: Backend>(pub(super) Option<Lease<'c, DB>>);

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
#[allow(
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
#[allow(clippy::large_enum_variant, reason = "as `Begun`")]
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
    pub(super) backoff: Backoff,
    pub(super) is_conflict: fn(&E) -> bool,
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
    pub(super) tx: Tx<'l, DB>,
    pub(super) guard: &'l mut Guard,
    pub(super) open: Open,
    pub(super) span: Span,
    pub(super) persistent: bool,
    pub(super) claims: Claims<'l>,
    /// Of a batch, whether each message is fresh.
    pub(super) fresh: Vec<bool>,
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
}
