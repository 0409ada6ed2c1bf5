use std::time::Duration;

use anyhow::{Context as _, anyhow};
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::{self, AckKind, Message, stream};
use futures_util::StreamExt as _;

use super::{Arrival, Depth, Ticket, number};

/// After this long without an acknowledgement, JetStream delivers a message again, also while its first delivery is still under way.
const ACK_WAIT: Duration = Duration::from_secs(6);

const CONSUMER: &str = "workers";

pub(crate) struct Producer {
    jetstream: jetstream::Context,
    queue: String,
}

impl Producer {
    pub(super) async fn connect(url: &str, queue: &str) -> anyhow::Result<Self> {
        let jetstream = open(url).await?;
        let config = stream::Config {
            name: queue.to_owned(),
            subjects: vec![queue.to_owned()],
            retention: stream::RetentionPolicy::WorkQueue,
            ..stream::Config::default()
        };
        let stream = jetstream.get_or_create_stream(config).await?;
        let config = pull::Config {
            durable_name: Some(CONSUMER.to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            // Enough for all the workers, also those that were killed.
            max_ack_pending: 1000,
            ..pull::Config::default()
        };
        stream.get_or_create_consumer(CONSUMER, config).await?;
        Ok(Self {
            jetstream,
            queue: queue.to_owned(),
        })
    }

    pub(super) async fn publish(&self, numbers: &[i64]) -> anyhow::Result<()> {
        let mut confirmations = Vec::with_capacity(numbers.len());
        for number in numbers {
            let payload = number.to_string().into();
            confirmations.push(self.jetstream.publish(self.queue.clone(), payload).await?);
        }
        for confirmation in confirmations {
            confirmation.await?;
        }
        Ok(())
    }

    pub(super) async fn depth(&self) -> anyhow::Result<Depth> {
        let mut consumer = consumer(&self.jetstream, &self.queue).await?;
        let info = consumer.info().await?;
        Ok(Depth {
            ready: info.num_pending,
            unacknowledged: Some(info.num_ack_pending.try_into()?),
        })
    }

    pub(super) async fn remove(&self) -> anyhow::Result<()> {
        self.jetstream.delete_stream(&self.queue).await?;
        Ok(())
    }
}

pub(crate) struct Consumer {
    jetstream: jetstream::Context,
    messages: pull::Stream,
}

impl Consumer {
    pub(super) async fn connect(url: &str, queue: &str, prefetch: u16) -> anyhow::Result<Self> {
        let jetstream = open(url).await?;
        let consumer = consumer(&jetstream, queue).await?;
        let messages = consumer
            .stream()
            .max_messages_per_batch(prefetch.into())
            .expires(Duration::from_secs(3))
            .heartbeat(Duration::from_secs(1))
            .messages()
            .await?;
        Ok(Self {
            jetstream,
            messages,
        })
    }

    pub(super) async fn next(&mut self) -> anyhow::Result<Arrival> {
        let message = self.messages.next().await;
        let message = message.context("the broker ended the subscription")??;
        let delivered = message.info().map_err(|error| anyhow!(error))?.delivered;
        Ok(Arrival {
            number: number(&message.payload)?,
            is_redelivered: delivered > 1,
            ticket: Ticket::Nats(Box::new(message)),
        })
    }

    pub(super) async fn close(self) -> anyhow::Result<()> {
        drop(self.messages);
        // Acknowledgements are sent without an answer.
        self.jetstream.client().flush().await?;
        Ok(())
    }
}

async fn open(url: &str) -> anyhow::Result<jetstream::Context> {
    let client = async_nats::ConnectOptions::new()
        .connection_timeout(Duration::from_secs(5))
        .connect(url)
        .await;
    let client = client.with_context(|| format!("no NATS server answers at {url}"))?;
    Ok(jetstream::new(client))
}

async fn consumer(jetstream: &jetstream::Context, queue: &str) -> anyhow::Result<PullConsumer> {
    Ok(jetstream.get_consumer_from_stream(CONSUMER, queue).await?)
}

pub(super) async fn acknowledge(message: &Message) -> anyhow::Result<()> {
    message.ack().await.map_err(|error| anyhow!(error))
}

pub(super) async fn give_back(message: &Message) -> anyhow::Result<()> {
    let again = AckKind::Nak(None);
    message
        .ack_with(again)
        .await
        .map_err(|error| anyhow!(error))
}
