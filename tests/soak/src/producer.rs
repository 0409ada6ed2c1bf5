//! The producer: every number once at least, some of them more often, in windows whose order the seed shuffles.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;

use crate::broker::Producer;
use crate::message::{Kind, Message};

/// Messages of a window overtake each other.
const WINDOW: i64 = 32;

/// The broker keeps no more than this waiting, so that the end comes soon after the last message.
const BACKLOG: u64 = 400;

/// What the supervisor and the producer know of each other.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Messages below this number are published: the broker has said so.
    pub(crate) published: AtomicI64,
    /// How many messages were published a second time on purpose.
    pub(crate) duplicates: AtomicU64,
    /// How many were published again since the broker's answer did not arrive.
    pub(crate) again: AtomicU64,
    /// No more.
    pub(crate) is_over: AtomicBool,
}

/// What to publish, and where.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) url: String,
    pub(crate) queue: String,
    pub(crate) seed: u64,
    pub(crate) messages: i64,
}

/// Publishes until it has done so, or is told to stop; what is begun is finished.
pub(crate) async fn produce(order: Order, shared: &Shared) {
    let mut random = Rng::with_seed(order.seed.rotate_left(17));
    let mut later: VecDeque<(i64, i64)> = VecDeque::new();
    let mut link = Link::new(&order);
    let mut first = 0;
    while first < order.messages && !shared.is_over.load(Ordering::SeqCst) {
        link.wait_for_room(shared).await;
        let end = (first + WINDOW).min(order.messages);
        let mut numbers: Vec<i64> = (first..end).collect();
        random.shuffle(&mut numbers);
        let mut window = Vec::new();
        for number in numbers {
            window.push(number);
            let is_of_batch = Message::of(order.seed, number).kind == Kind::Batch;
            // At once, so that two workers have the same batch in work; or later.
            if is_of_batch && random.u8(..100) < 60 {
                window.push(number);
            } else if random.u8(..100) < 8 {
                later.push_back((end + random.i64(WINDOW..1000), number));
            }
        }
        let due = |later: &mut VecDeque<(i64, i64)>| {
            let place = later.iter().position(|(when, _)| *when <= end)?;
            later.remove(place)
        };
        while let Some((_, number)) = due(&mut later) {
            window.push(number);
        }
        let duplicates = window.len() as u64 - (end - first).unsigned_abs();
        link.publish(&window, shared).await;
        shared.duplicates.fetch_add(duplicates, Ordering::SeqCst);
        shared.published.store(end, Ordering::SeqCst);
        first = end;
    }
    let rest: Vec<i64> = later.into_iter().map(|(_, number)| number).collect();
    link.publish(&rest, shared).await;
    shared
        .duplicates
        .fetch_add(rest.len() as u64, Ordering::SeqCst);
}

/// Publishes the messages of these numbers, as often as it takes.
pub(crate) async fn publish(order: &Order, numbers: &[i64], shared: &Shared) {
    Link::new(order).publish(numbers, shared).await;
}

/// A connection that is made anew whenever it is lost.
struct Link<'o> {
    order: &'o Order,
    producer: Option<Producer>,
}

impl<'o> Link<'o> {
    fn new(order: &'o Order) -> Self {
        Self {
            order,
            producer: None,
        }
    }

    async fn producer(&mut self) -> &Producer {
        let mut producer = self.producer.take();
        let producer = loop {
            if let Some(producer) = producer {
                break producer;
            }
            producer = Producer::connect(&self.order.url, &self.order.queue)
                .await
                .ok();
            if producer.is_none() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        self.producer.insert(producer)
    }

    /// What was not confirmed is published again, and may be there twice.
    async fn publish(&mut self, numbers: &[i64], shared: &Shared) {
        while self.producer().await.publish(numbers).await.is_err() {
            self.producer = None;
            shared
                .again
                .fetch_add(numbers.len() as u64, Ordering::SeqCst);
        }
    }

    async fn wait_for_room(&mut self, shared: &Shared) {
        while !shared.is_over.load(Ordering::SeqCst) {
            match self.producer().await.depth().await {
                Ok(depth) if depth.ready < BACKLOG => return,
                Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(_) => self.producer = None,
            }
        }
    }
}
