use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use futures_util::FutureExt as _;
use idem::Outcome;
use idem_tests::cancelled_after;
use tokio::sync::Notify;

use crate::broker::Arrival;
use crate::event::tell;
use crate::handlers::Delivered;
use crate::harm::{Conduct, Point, reach};
use crate::message::Message;
use crate::store::Store;

/// What a worker bears in mind about its deliveries.
pub(super) struct Deliveries {
    store: Store,
    random: Mutex<Rng>,
    is_calm: AtomicBool,
    hurry: Notify,
}

/// How long a delivery may take before it is dropped.
#[derive(Debug, Clone, Copy)]
enum Limit {
    Time(Duration),
    /// So often it may be polled, which finds every point at which it can be dropped.
    Polls(usize),
}

/// A black hole must not hold a delivery for ever.
const PATIENT: Duration = Duration::from_secs(8);
const SOON: Duration = Duration::from_millis(20);

impl Deliveries {
    pub(super) fn new(store: Store, random: Rng, is_calm: bool) -> Self {
        Self {
            store,
            random: Mutex::new(random),
            is_calm: AtomicBool::new(is_calm),
            hurry: Notify::new(),
        }
    }

    pub(super) fn be_calm(&self) {
        self.is_calm.store(true, Ordering::SeqCst);
    }

    /// Every delivery that is under way is dropped soon.
    pub(super) fn hurry(&self) {
        self.hurry.notify_waiters();
    }

    pub(super) async fn single(&self, arrival: Arrival, message: Message) {
        let conduct = self.conduct();
        let delivery = self.store.deliver(&message, conduct);
        let delivered = self.limited(self.limit(), delivery).await;
        let delivered = match delivered {
            Ended::Delivered(delivered) => delivered,
            Ended::Dropped => {
                tell(format_args!("dropped 1"));
                self.look_for_leaks().await;
                return self.give_back(vec![arrival]).await;
            }
            Ended::Panicked => {
                panicked(1, conduct == Conduct::Panic);
                return self.give_back(vec![arrival]).await;
            }
        };
        let back = settle(arrival, conduct, &delivered).await;
        self.give_back(back.into_iter().collect()).await;
    }

    pub(super) async fn batch(&self, batch: Vec<(Arrival, Message)>) {
        let (arrivals, messages): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let messages: Vec<_> = messages
            .into_iter()
            .map(|message| (message, self.conduct()))
            .collect();
        let conducts: Vec<_> = messages.iter().map(|(_, conduct)| *conduct).collect();
        let delivery = self.store.deliver_batch(messages);
        let delivered = match self.limited(self.limit(), delivery).await {
            Ended::Delivered(delivered) => delivered,
            Ended::Dropped => {
                tell(format_args!("dropped {}", arrivals.len()));
                self.look_for_leaks().await;
                return self.give_back(arrivals).await;
            }
            Ended::Panicked => {
                panicked(arrivals.len(), conducts.contains(&Conduct::Panic));
                return self.give_back(arrivals).await;
            }
        };
        if delivered.len() != arrivals.len() {
            tell(format_args!(
                "unexpected a batch of {} came to {}",
                arrivals.len(),
                delivered.len()
            ));
        }
        // Each has a result of its own: a batch that fails is delivered one by one.
        let mut back = Vec::new();
        for ((arrival, delivered), conduct) in arrivals.into_iter().zip(delivered).zip(conducts) {
            back.extend(settle(arrival, conduct, &delivered).await);
        }
        self.give_back(back).await;
    }

    /// After a little while, since a broker delivers again at once.
    async fn give_back(&self, arrivals: Vec<Arrival>) {
        if arrivals.is_empty() {
            return;
        }
        let pause = self.random(|random| random.u64(20..200));
        tokio::time::sleep(Duration::from_millis(pause)).await;
        for arrival in arrivals {
            if arrival.give_back().await.is_err() {
                tell(format_args!("not-given-back"));
            }
        }
    }

    async fn limited<T>(&self, limit: Limit, delivery: impl Future<Output = T>) -> Ended<T> {
        let delivery = AssertUnwindSafe(delivery).catch_unwind();
        let ended = match limit {
            Limit::Time(time) => tokio::select! {
                ended = delivery => Some(ended),
                () = tokio::time::sleep(time) => None,
                () = self.told_to_hurry() => None,
            },
            Limit::Polls(polls) => cancelled_after(polls, delivery).await,
        };
        match ended {
            Some(Ok(delivered)) => Ended::Delivered(delivered),
            Some(Err(_)) => Ended::Panicked,
            None => Ended::Dropped,
        }
    }

    async fn told_to_hurry(&self) {
        self.hurry.notified().await;
        tokio::time::sleep(SOON).await;
    }

    /// The next borrower of a connection must not find a transaction on it.
    async fn look_for_leaks(&self) {
        match self.store.has_leaked().await {
            Ok(false) => tell(format_args!("no-leak")),
            Ok(true) => tell(format_args!(
                "unexpected a dropped delivery left its transaction on a pooled connection"
            )),
            // No connection is to be had just now.
            Err(_) => tell(format_args!("leak-not-looked-for")),
        }
    }

    fn conduct(&self) -> Conduct {
        if self.is_calm.load(Ordering::SeqCst) {
            return Conduct::Well;
        }
        match self.random(|random| random.u32(..1000)) {
            0..15 => Conduct::Slowly,
            15..22 => Conduct::Fail,
            22..26 => Conduct::Panic,
            26..33 => Conduct::DropError,
            33..40 => Conduct::RollBack,
            _ => Conduct::Well,
        }
    }

    fn limit(&self) -> Limit {
        if self.is_calm.load(Ordering::SeqCst) {
            return Limit::Time(PATIENT);
        }
        self.random(|random| match random.u32(..1000) {
            0..10 => Limit::Polls(random.usize(1..40)),
            10..20 => Limit::Time(Duration::from_micros(random.u64(100..20_000))),
            _ => Limit::Time(PATIENT),
        })
    }

    fn random<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        // A panic in a body happens elsewhere.
        let mut random = self
            .random
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        draw(&mut random)
    }
}

/// Ok: acknowledge. Err: returns what is to be given back.
async fn settle(arrival: Arrival, conduct: Conduct, delivered: &Delivered) -> Option<Arrival> {
    match delivered {
        Ok(outcome) => {
            let name = match outcome {
                Outcome::Processed(()) => "processed",
                Outcome::Duplicate => "duplicate",
                Outcome::Replayed(()) => "replayed",
                Outcome::Stale => "stale",
            };
            tell(format_args!(
                "done {name} {}",
                u8::from(arrival.is_redelivered)
            ));
            if outcome.is_processed() {
                reach(Point::BeforeAck);
            }
            if arrival.acknowledge().await.is_err() {
                tell(format_args!("not-acknowledged"));
            }
            None
        }
        Err(fault) => {
            tell(format_args!("failed {}", fault.class()));
            if fault.comes_of(conduct) {
                tell(format_args!("conduct {}", conduct.name()));
            }
            if !fault.is_expected(conduct) {
                tell(format_args!("unexpected {fault:?}"));
            }
            Some(arrival)
        }
    }
}

enum Ended<T> {
    Delivered(T),
    Dropped,
    Panicked,
}

fn panicked(messages: usize, is_expected: bool) {
    tell(format_args!("panicked {messages}"));
    if !is_expected {
        tell(format_args!("unexpected panic"));
    }
}
