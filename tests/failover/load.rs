use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem::{Error, Outcome};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;

use crate::{Failed, bill};

/// A broker that delivers at least once: what was not acknowledged comes again, and of what was, each third does too.
pub(crate) struct Broker {
    seed: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<i64>,
    delivered: usize,
    acknowledged: BTreeSet<i64>,
    count: Count,
}

/// What the deliveries came to.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Count {
    pub(crate) processed: usize,
    pub(crate) duplicates: usize,
    pub(crate) failed: usize,
    pub(crate) unknown: usize,
}

impl Broker {
    pub(crate) fn new(seed: u64, messages: std::ops::Range<i64>) -> Arc<Self> {
        let queue = idem_tests::shuffled(&messages.collect::<Vec<_>>(), seed).into();
        let state = Mutex::new(State {
            queue,
            ..State::default()
        });
        Arc::new(Self { seed, state })
    }

    pub(crate) fn acknowledged(&self) -> Vec<i64> {
        self.state
            .lock()
            .unwrap()
            .acknowledged
            .iter()
            .copied()
            .collect()
    }

    pub(crate) fn count(&self) -> Count {
        self.state.lock().unwrap().count
    }

    /// Starts workers, each with a pool of its own, that work until nothing is left.
    pub(crate) fn work(self: &Arc<Self>, workers: usize, url: &str) -> JoinSet<()> {
        let mut set = JoinSet::new();
        for _ in 0..workers {
            let pool = PgPoolOptions::new()
                .max_connections(2)
                .acquire_timeout(Duration::from_secs(2))
                .connect_lazy(url)
                .unwrap();
            let broker = Arc::clone(self);
            set.spawn(async move { broker.worker(&pool).await });
        }
        set
    }

    async fn worker(&self, pool: &PgPool) {
        while let Some(message) = self.next() {
            let outcome = bill(pool, message).await;
            let has_failed = outcome.is_err();
            self.settle(message, outcome);
            if has_failed {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    fn next(&self) -> Option<i64> {
        let mut state = self.state.lock().unwrap();
        state.delivered += 1;
        state.queue.pop_front()
    }

    fn settle(&self, message: i64, outcome: Result<Outcome<()>, Failed>) {
        let mut state = self.state.lock().unwrap();
        match outcome {
            Ok(outcome) => {
                match outcome {
                    Outcome::Processed(()) => state.count.processed += 1,
                    _ => state.count.duplicates += 1,
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
                assert!(idem::is_transient(&error), "{error:?}");
                let is_unknown = matches!(error, Failed::Delivery(Error::CommitUnknown(_)));
                state.count.unknown += usize::from(is_unknown);
                state.count.failed += 1;
                state.queue.push_back(message);
            }
        }
    }

    /// One in so many, by the seed.
    fn chance(&self, number: usize, of: u64) -> bool {
        let mut hasher = DefaultHasher::new();
        (self.seed, number).hash(&mut hasher);
        hasher.finish().is_multiple_of(of)
    }
}
