use anyhow::{Context as _, ensure};
use futures_util::StreamExt as _;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};

use super::{Arrival, Depth, Ticket, number};

pub(crate) struct Producer {
    connection: Connection,
    channel: Channel,
    queue: String,
}

impl Producer {
    pub(super) async fn connect(url: &str, queue: &str) -> anyhow::Result<Self> {
        let (connection, channel) = open(url).await?;
        // Should the run be killed, nothing stays behind on somebody else's broker for longer than this.
        let mut arguments = FieldTable::default();
        arguments.insert("x-expires".into(), AMQPValue::LongInt(600_000));
        let options = QueueDeclareOptions::durable();
        channel
            .queue_declare(queue.into(), options, arguments)
            .await?;
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await?;
        Ok(Self {
            connection,
            channel,
            queue: queue.to_owned(),
        })
    }

    pub(super) async fn publish(&self, numbers: &[i64]) -> anyhow::Result<()> {
        let mut confirmations = Vec::with_capacity(numbers.len());
        for number in numbers {
            let text = number.to_string();
            // Delivery mode 2 is "persistent".
            let properties = BasicProperties::default()
                .with_message_id(text.as_str().into())
                .with_delivery_mode(2);
            let options = BasicPublishOptions::default();
            let queue = self.queue.as_str().into();
            let published = self
                .channel
                .basic_publish("".into(), queue, options, text.as_bytes(), properties)
                .await?;
            confirmations.push(published);
        }
        for confirmation in confirmations {
            ensure!(confirmation.await?.is_ack(), "the broker refused a message");
        }
        Ok(())
    }

    pub(super) async fn depth(&self) -> anyhow::Result<Depth> {
        let options = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let queue = self.queue.as_str().into();
        let queue = self
            .channel
            .queue_declare(queue, options, FieldTable::default())
            .await?;
        Ok(Depth {
            ready: queue.message_count().into(),
            unacknowledged: None,
        })
    }

    pub(super) async fn remove(&self) -> anyhow::Result<()> {
        let queue = self.queue.as_str().into();
        self.channel
            .queue_delete(queue, QueueDeleteOptions::default())
            .await?;
        self.connection.close(200, "done".into()).await?;
        Ok(())
    }
}

pub(crate) struct Consumer {
    connection: Connection,
    deliveries: lapin::Consumer,
}

impl Consumer {
    pub(super) async fn connect(url: &str, queue: &str, prefetch: u16) -> anyhow::Result<Self> {
        let (connection, channel) = open(url).await?;
        channel
            .basic_qos(prefetch, BasicQosOptions::default())
            .await?;
        let options = BasicConsumeOptions::default();
        let deliveries = channel
            .basic_consume(queue.into(), "".into(), options, FieldTable::default())
            .await?;
        Ok(Self {
            connection,
            deliveries,
        })
    }

    pub(super) async fn next(&mut self) -> anyhow::Result<Arrival> {
        let delivery = self.deliveries.next().await;
        let delivery = delivery.context("the broker ended the subscription")??;
        Ok(Arrival {
            number: number(&delivery.data)?,
            is_redelivered: delivery.redelivered,
            ticket: Ticket::Rabbit(Box::new(delivery)),
        })
    }

    pub(super) async fn close(self) -> anyhow::Result<()> {
        self.connection.close(200, "done".into()).await?;
        Ok(())
    }
}

async fn open(url: &str) -> anyhow::Result<(Connection, Channel)> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await;
    let connection = connection.with_context(|| {
        format!("no RabbitMQ answers at {url}: run `./test.sh`, which starts what is missing, or set IDEM_TEST_AMQP")
    })?;
    let channel = connection.create_channel().await?;
    Ok((connection, channel))
}

pub(super) async fn acknowledge(delivery: &Delivery) -> anyhow::Result<()> {
    delivery.ack(BasicAckOptions::default()).await?;
    Ok(())
}

pub(super) async fn give_back(delivery: &Delivery) -> anyhow::Result<()> {
    let options = BasicNackOptions {
        requeue: true,
        ..BasicNackOptions::default()
    };
    delivery.nack(options).await?;
    Ok(())
}
