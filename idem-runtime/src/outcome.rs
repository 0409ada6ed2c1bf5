/// What a delivery came to. Every variant is safe to acknowledge: the message's effect is committed. If the delivery joined a
/// transaction of yours, that is so once [`commit`](crate::commit) has said `Ok`.
///
/// The set is closed, so that a `match` names each case and the compiler tells you when one is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "an outcome says whether this delivery ran the handler or an earlier one did; match it, or write `let _ =` to acknowledge either way"]
pub enum Outcome<T> {
    /// The handler ran, and its transaction is committed (or, in a transaction of yours, its savepoint is released and your COMMIT
    /// decides).
    Processed(T),
    /// An earlier delivery of this message did it (perhaps in the transaction that this one joined); the handler did not run.
    Duplicate,
    /// As [`Duplicate`](Outcome::Duplicate), with the value that the earlier delivery returned. No handler returns it yet: it
    /// belongs to the coming `replay` argument, and stands here so that your `match` stays exhaustive.
    Replayed(T),
    /// The message is older than what was applied. No handler returns it yet: it belongs to the coming `version` argument, and
    /// stands here so that your `match` stays exhaustive.
    Stale,
}

impl<T> Outcome<T> {
    /// The handler's value, from this delivery or from an earlier one.
    ///
    /// ```
    /// # extern crate idem_runtime as idem;
    /// # use idem::Outcome;
    /// assert_eq!(Outcome::Processed(7).value(), Some(7));
    /// assert_eq!(Outcome::<i32>::Duplicate.value(), None);
    /// ```
    pub fn value(self) -> Option<T> {
        match self {
            Outcome::Processed(value) | Outcome::Replayed(value) => Some(value),
            Outcome::Duplicate | Outcome::Stale => None,
        }
    }

    /// Whether this delivery ran the handler.
    pub fn is_processed(&self) -> bool {
        matches!(self, Outcome::Processed(_))
    }

    /// Whether an earlier delivery of the same message had the effect: [`Duplicate`](Outcome::Duplicate) or
    /// [`Replayed`](Outcome::Replayed).
    pub fn is_duplicate(&self) -> bool {
        matches!(self, Outcome::Duplicate | Outcome::Replayed(_))
    }

    /// Changes the value and keeps the variant.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Outcome::Processed(value) => Outcome::Processed(change(value)),
            Outcome::Duplicate => Outcome::Duplicate,
            Outcome::Replayed(value) => Outcome::Replayed(change(value)),
            Outcome::Stale => Outcome::Stale,
        }
    }
}
