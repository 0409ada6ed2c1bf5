//! Consumers at work: new messages at a steady rate, and how long each claim took.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use idem::idempotent;
use sqlx::{MySqlConnection, MySqlPool, PgConnection, PgPool};
use tokio::task::JoinSet;

/// As many connections as consumers.
pub(crate) const CONSUMERS: u32 = 4;

/// Where the consumers claim.
#[derive(Clone)]
pub(crate) enum Table {
    Plain(PgPool),
    ByDay(PgPool),
    MySql(MySqlPool),
}

impl Table {
    async fn claim(&self, arrival: &Arrival) -> Result<(), idem::Error> {
        match self {
            Self::Plain(pool) => process(pool, arrival).await.map(drop),
            Self::ByDay(pool) => process_by_day(pool, arrival).await.map(drop),
            Self::MySql(pool) => process_on_mysql(pool, arrival).await.map(drop),
        }
    }
}

pub(crate) struct Arrival {
    id: String,
    sent: SystemTime,
}

#[idempotent(
    key = "arrival.id",
    consumer = "plain",
    retain = "7d",
    redelivery = "4d"
)]
async fn process(tx: &mut PgConnection, arrival: &Arrival) -> Result<(), idem::Error> {
    // Only the claim is measured.
    let _ = (tx, arrival);
    Ok(())
}

#[idempotent(
    key = "arrival.id",
    consumer = "by-day",
    time = "arrival.sent",
    retain = "7d",
    redelivery = "4d"
)]
async fn process_by_day(tx: &mut PgConnection, arrival: &Arrival) -> Result<(), idem::Error> {
    let _ = (tx, arrival);
    Ok(())
}

#[idempotent(
    key = "arrival.id",
    consumer = "plain",
    retain = "7d",
    redelivery = "4d"
)]
async fn process_on_mysql(tx: &mut MySqlConnection, arrival: &Arrival) -> Result<(), idem::Error> {
    let _ = (tx, arrival);
    Ok(())
}

#[idempotent(
    key = "arrival.id",
    consumer = "plain",
    each = "arrival in arrivals",
    retain = "7d",
    redelivery = "4d"
)]
pub(crate) async fn process_batch(
    tx: &mut PgConnection,
    arrivals: Vec<Arrival>,
) -> Result<(), idem::Error> {
    let _ = (tx, arrivals);
    Ok(())
}

impl Arrival {
    /// With an id that has the form of a UUIDv7: the time, and what makes it unique.
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let sent = SystemTime::now();
        let since = sent.duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = since.as_millis();
        let id = format!(
            "{:08x}-{:04x}-7000-8000-{number:012x}",
            (time >> 16) & 0xffff_ffff,
            time & 0xffff
        );
        Self { id, sent }
    }
}

/// What consumers measured.
pub(crate) struct Seen {
    pub(crate) latencies: Vec<Duration>,
    /// How many had to be redelivered, after a wait for a lock that took too long for example.
    pub(crate) redelivered: u32,
    pub(crate) time: Duration,
}

impl Seen {
    pub(crate) fn rate(&self) -> f64 {
        float(self.latencies.len()) / self.time.as_secs_f64()
    }

    pub(crate) fn claims(&self) -> i64 {
        i64::try_from(self.latencies.len()).unwrap_or(i64::MAX)
    }
}

/// Consumers, until they are stopped.
pub(crate) struct Load {
    start: Instant,
    stop: Arc<AtomicBool>,
    consumers: JoinSet<Result<(Vec<Duration>, u32), idem::Error>>,
}

impl Load {
    /// So many claims a second in all; as many as will go, without a number.
    pub(crate) fn start(table: &Table, rate: Option<f64>) -> Self {
        let start = Instant::now();
        let stop = Arc::new(AtomicBool::new(false));
        let mut consumers = JoinSet::new();
        for consumer in 0..CONSUMERS {
            let (table, stop) = (table.clone(), Arc::clone(&stop));
            consumers.spawn(async move {
                let (mut latencies, mut redelivered) = (Vec::new(), 0);
                let mut turn = consumer;
                while !stop.load(Ordering::Relaxed) {
                    let mut due = Instant::now();
                    if let Some(rate) = rate {
                        // A claim that is late since the one before took long counts from when it should have begun.
                        let planned = start + Duration::from_secs_f64(f64::from(turn) / rate);
                        if planned > due {
                            tokio::time::sleep_until(planned.into()).await;
                            due = Instant::now();
                        } else {
                            due = planned;
                        }
                        turn += CONSUMERS;
                    }
                    let arrival = Arrival::new();
                    while let Err(error) = table.claim(&arrival).await {
                        // As a broker does.
                        if !error.is_transient() {
                            return Err(error);
                        }
                        redelivered += 1;
                    }
                    latencies.push(due.elapsed());
                }
                Ok((latencies, redelivered))
            });
        }
        Self {
            start,
            stop,
            consumers,
        }
    }

    pub(crate) async fn stop(mut self) -> anyhow::Result<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        let (mut latencies, mut redelivered) = (Vec::new(), 0);
        while let Some(consumer) = self.consumers.join_next().await {
            let (its, again) = consumer??;
            latencies.extend(its);
            redelivered += again;
        }
        Ok(Seen {
            latencies,
            redelivered,
            time: self.start.elapsed(),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "nobody measures 2^52 messages")]
pub(crate) fn float(number: usize) -> f64 {
    number as f64
}
