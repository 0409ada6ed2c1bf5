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
    /// As [`Duplicate`](Outcome::Duplicate), with the value that the earlier delivery returned. Only handlers with `replay` return it.
    Replayed(T),
    /// A newer version of what the key names was applied, so that this one is of no more use; the handler did not run. Only handlers with
    /// `version` return it.
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

/// What the delivery of a batch came to (`each`): the messages that are new were processed together, in one transaction, and the others
/// before. All of them are safe to acknowledge.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[must_use = "it says which messages this delivery processed; look at it, or write `let _ =` to acknowledge all"]
pub struct BatchOutcome<T> {
    /// The handler's value; `None` if no message was new, and the handler did not run.
    pub value: Option<T>,
    /// Where in the batch the messages stand that were processed, from 0 and in order.
    pub fresh: Vec<usize>,
    /// Where the duplicates stand: of earlier deliveries, or of a message before them in the same batch.
    pub duplicates: Vec<usize>,
}

impl<T> BatchOutcome<T> {
    pub(crate) fn new(fresh: &[bool], value: Option<T>) -> Self {
        let (new, duplicates) = (0..fresh.len()).partition(|index| fresh[*index]);
        Self {
            value,
            fresh: new,
            duplicates,
        }
    }
}
