use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use idem::{Error, Outcome};

/// A broker in memory that delivers at least once: what was not acknowledged comes again, and a third of what was does too.
pub struct Broker {
    seed: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<i64>,
    /// For when nothing is in the queue.
    fresh: Range<i64>,
    /// Delivered, and not settled yet.
    out: usize,
    delivered: usize,
    acknowledged: BTreeSet<i64>,
    count: Count,
}

/// What the deliveries came to.
#[derive(Debug, Default, Clone, Copy)]
pub struct Count {
    /// `Processed`.
    pub processed: usize,
    /// `Duplicate`.
    pub duplicates: usize,
    /// Any error.
    pub failed: usize,
    /// Of these, [`Error::CommitUnknown`].
    pub unknown: usize,
}

impl Broker {
    /// With these messages, in an order by the seed.
    #[must_use]
    pub fn new(seed: u64, messages: Range<i64>) -> Arc<Self> {
        let queue = crate::shuffled(&messages.collect::<Vec<_>>(), seed).into();
        let state = Mutex::new(State {
            queue,
            ..State::default()
        });
        Arc::new(Self { seed, state })
    }

    /// With new messages, counted from 0, until it is stopped.
    #[must_use]
    pub fn endless(seed: u64) -> Arc<Self> {
        let state = Mutex::new(State {
            fresh: 0..i64::MAX,
            ..State::default()
        });
        Arc::new(Self { seed, state })
    }

    /// Ends an endless supply. Returns how many messages there are.
    pub fn stop(&self) -> i64 {
        let fresh = std::mem::take(&mut self.state.lock().unwrap().fresh);
        fresh.start
    }

    /// The next message, to be settled; `None` when nothing is left and nothing can come back.
    pub async fn next(&self) -> Option<i64> {
        loop {
            {
                let mut state = self.state.lock().unwrap();
                let next = state.queue.pop_front();
                if let Some(message) = next.or_else(|| state.fresh.next()) {
                    state.delivered += 1;
                    state.out += 1;
                    return Some(message);
                }
                if state.out == 0 {
                    return None;
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// Acknowledges a message on `Ok`, and takes it back on an error, which has to be transient.
    pub fn settle<E>(&self, message: i64, result: &Result<Outcome<()>, E>)
    where
        E: std::error::Error + 'static,
    {
        let mut state = self.state.lock().unwrap();
        state.out -= 1;
        match result {
            Ok(outcome) => {
                if outcome.is_processed() {
                    state.count.processed += 1;
                } else {
                    state.count.duplicates += 1;
                }
                state.acknowledged.insert(message);
                if self.chance(state.delivered, 3) {
                    // Now, while others are at it, or much later.
                    if self.chance(state.delivered + 1, 2) {
                        state.queue.push_front(message);
                    } else {
                        state.queue.push_back(message);
                    }
                }
            }
            Err(error) => {
                assert!(idem::is_transient(error), "{error:?}");
                let ours = error.source().and_then(|it| it.downcast_ref());
                let is_unknown = matches!(ours, Some(Error::CommitUnknown(_)));
                state.count.unknown += usize::from(is_unknown);
                state.count.failed += 1;
                state.queue.push_back(message);
            }
        }
    }

    /// The messages that were acknowledged, each once.
    #[must_use]
    pub fn acknowledged(&self) -> BTreeSet<i64> {
        self.state.lock().unwrap().acknowledged.clone()
    }

    /// What the deliveries came to so far.
    #[must_use]
    pub fn count(&self) -> Count {
        self.state.lock().unwrap().count
    }

    /// One in so many, by the seed.
    fn chance(&self, number: usize, of: u64) -> bool {
        let mut hasher = DefaultHasher::new();
        (self.seed, number).hash(&mut hasher);
        hasher.finish().is_multiple_of(of)
    }
}
