//! The two brokers: what the producer and the consumers need of them, and no more.

mod nats;
mod rabbit;

use std::time::Duration;

/// Which broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub(crate) enum Broker {
    Rabbitmq,
    Nats,
}

impl Broker {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rabbitmq => "rabbitmq",
            Self::Nats => "nats",
        }
    }

    /// Of a URL.
    fn of(url: &str) -> Self {
        if url.starts_with("nats") {
            Self::Nats
        } else {
            Self::Rabbitmq
        }
    }
}

/// How long the broker may take for anything before the connection is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// The producer's end. It also sees how much is left in the queue.
pub(crate) enum Producer {
    Rabbit(rabbit::Producer),
    Nats(nats::Producer),
}

/// What is in the queue: not yet handed out, and handed out but not yet acknowledged, where the broker tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Depth {
    pub(crate) ready: u64,
    pub(crate) unacknowledged: Option<u64>,
}

impl Producer {
    /// Creates the queue if need be.
    pub(crate) async fn connect(url: &str, queue: &str) -> anyhow::Result<Self> {
        within(async {
            Ok(match Broker::of(url) {
                Broker::Rabbitmq => Self::Rabbit(rabbit::Producer::connect(url, queue).await?),
                Broker::Nats => Self::Nats(nats::Producer::connect(url, queue).await?),
            })
        })
        .await
    }

    /// Publishes messages in this order and waits until the broker has taken all of them.
    pub(crate) async fn publish(&self, numbers: &[i64]) -> anyhow::Result<()> {
        within(async {
            match self {
                Self::Rabbit(producer) => producer.publish(numbers).await,
                Self::Nats(producer) => producer.publish(numbers).await,
            }
        })
        .await
    }

    pub(crate) async fn depth(&self) -> anyhow::Result<Depth> {
        within(async {
            match self {
                Self::Rabbit(producer) => producer.depth().await,
                Self::Nats(producer) => producer.depth().await,
            }
        })
        .await
    }

    /// Removes the queue.
    pub(crate) async fn remove(&self) -> anyhow::Result<()> {
        within(async {
            match self {
                Self::Rabbit(producer) => producer.remove().await,
                Self::Nats(producer) => producer.remove().await,
            }
        })
        .await
    }
}

/// A consumer's end.
pub(crate) enum Consumer {
    Rabbit(Box<rabbit::Consumer>),
    Nats(Box<nats::Consumer>),
}

/// One arrival of a message.
pub(crate) struct Arrival {
    pub(crate) number: i64,
    pub(crate) is_redelivered: bool,
    ticket: Ticket,
}

enum Ticket {
    Rabbit(Box<lapin::message::Delivery>),
    Nats(Box<async_nats::jetstream::Message>),
}

impl Consumer {
    /// At most `prefetch` messages are out at a time.
    pub(crate) async fn connect(url: &str, queue: &str, prefetch: u16) -> anyhow::Result<Self> {
        within(async {
            Ok(match Broker::of(url) {
                Broker::Rabbitmq => Self::Rabbit(Box::new(
                    rabbit::Consumer::connect(url, queue, prefetch).await?,
                )),
                Broker::Nats => Self::Nats(Box::new(
                    nats::Consumer::connect(url, queue, prefetch).await?,
                )),
            })
        })
        .await
    }

    /// An error ends the subscription.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Arrival> {
        match self {
            Self::Rabbit(consumer) => consumer.next().await,
            Self::Nats(consumer) => consumer.next().await,
        }
    }

    /// Gives back what nobody works on.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        within(async {
            match self {
                Self::Rabbit(consumer) => consumer.close().await,
                Self::Nats(consumer) => consumer.close().await,
            }
        })
        .await
    }
}

impl Arrival {
    /// If this fails, the connection is gone, and the broker delivers it again.
    pub(crate) async fn acknowledge(self) -> anyhow::Result<()> {
        within(async {
            match self.ticket {
                Ticket::Rabbit(delivery) => rabbit::acknowledge(&delivery).await,
                Ticket::Nats(message) => nats::acknowledge(&message).await,
            }
        })
        .await
    }

    /// Has it delivered again.
    pub(crate) async fn give_back(self) -> anyhow::Result<()> {
        within(async {
            match self.ticket {
                Ticket::Rabbit(delivery) => rabbit::give_back(&delivery).await,
                Ticket::Nats(message) => nats::give_back(&message).await,
            }
        })
        .await
    }
}

async fn within<T>(step: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::time::timeout(PATIENCE, step).await?
}

/// A message on the wire is its number.
fn number(payload: &[u8]) -> anyhow::Result<i64> {
    Ok(std::str::from_utf8(payload)?.parse()?)
}
