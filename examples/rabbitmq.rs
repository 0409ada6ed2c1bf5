//! A RabbitMQ consumer whose payments reach PostgreSQL once, however often they are delivered and whenever it is killed.
//!
//! ```text
//! cargo run --example rabbitmq --features rabbitmq
//! cargo run --example rabbitmq --features rabbitmq -- publish pay-1 alice 100     # run it twice: the second is a duplicate
//! ```
//!
//! `AMQP_URL`, `DATABASE_URL` and `QUEUE` say where; see `main` for their defaults. To pull the plug at the worst moment, start it with
//! `ACK_DELAY_MS=10000` and `kill -9` it when it says `committed, not yet acknowledged`.

use std::{env, time::Duration};

use anyhow::{Context as _, bail};
use futures_util::StreamExt as _;
use idem::{Outcome, idempotent};
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions,
    BasicPublishOptions, BasicQosOptions, BasicRejectOptions, ConfirmSelectOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

#[derive(serde::Deserialize)]
struct Payment {
    /// The `message_id` that the producer gave. The delivery tag would not do: it counts the deliveries of one channel, so that a
    /// redelivery has another one.
    #[serde(skip)]
    id: String,
    account: String,
    amount: i64,
}

// Not `#[error(transparent)]`: it would leave the `sqlx::Error` out of the chain of sources, where `idem::is_transient` looks for it.
#[derive(Debug, thiserror::Error)]
enum PaymentError {
    #[error("delivery failed")]
    Delivery(#[from] idem::Error),
    #[error("database failed")]
    Database(#[from] sqlx::Error),
    #[error("there is no account `{0}`")]
    UnknownAccount(String),
}

/// Runs once per payment: what it writes on `tx` commits together with the payment's id, or not at all.
#[idempotent(key = "payment.id", consumer = "billing")]
async fn apply(tx: &mut PgConnection, payment: &Payment) -> Result<i64, PaymentError> {
    sqlx::query_scalar("UPDATE accounts SET balance = balance + $1 WHERE id = $2 RETURNING balance")
        .bind(payment.amount)
        .bind(&payment.account)
        .fetch_optional(&mut *tx)
        .await?
        .ok_or_else(|| PaymentError::UnknownAccount(payment.account.clone()))
}

/// Ok: acknowledge. A fault that may pass: give it back to the queue. A fault of the message: to the dead letters.
async fn handle(delivery: Delivery, pool: PgPool, ack_delay: Duration) -> anyhow::Result<()> {
    let payment = match parse(&delivery) {
        Ok(payment) => payment,
        Err(error) => return dead_letter(&delivery, &error).await,
    };
    let id = &payment.id;
    match apply(&pool, &payment).await {
        Ok(outcome) => {
            match outcome {
                Outcome::Processed(balance) => {
                    println!("processed {id}: committed, not yet acknowledged, balance {balance}");
                    tokio::time::sleep(ack_delay).await;
                }
                Outcome::Duplicate | Outcome::Replayed(_) | Outcome::Stale => {
                    println!("duplicate {id}: an earlier delivery has committed it");
                }
            }
            delivery.ack(BasicAckOptions::default()).await?;
            println!("acknowledged {id}");
        }
        Err(error) if idem::is_transient(&error) => {
            eprintln!("requeued {id}: {:#}", anyhow::Error::new(error));
            // The broker would redeliver at once, and a database that is down would be asked without pause.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let options = BasicNackOptions {
                requeue: true,
                ..BasicNackOptions::default()
            };
            delivery.nack(options).await?;
        }
        Err(error) => dead_letter(&delivery, &error.into()).await?,
    }
    Ok(())
}

fn parse(delivery: &Delivery) -> anyhow::Result<Payment> {
    // Nothing else tells a redelivery from a second payment of the same amount, so a message without an id cannot be processed once.
    let Some(id) = delivery.properties.message_id() else {
        bail!("the producer set no message_id");
    };
    let payment = serde_json::from_slice(&delivery.data).context("not a payment")?;
    Ok(Payment {
        id: id.to_string(),
        ..payment
    })
}

/// The queue's dead-letter settings send there what is rejected without requeue.
async fn dead_letter(delivery: &Delivery, error: &anyhow::Error) -> anyhow::Result<()> {
    let id = delivery.properties.message_id();
    eprintln!(
        "dead letter {}: {error:#}",
        id.as_ref().map_or("without id", |id| id.as_str())
    );
    delivery
        .reject(BasicRejectOptions { requeue: false })
        .await?;
    Ok(())
}

/// Durable, replicated queues: a message that the broker has confirmed outlives the broker's crash.
async fn declare(channel: &Channel, queue: &str) -> lapin::Result<()> {
    let dead = format!("{queue}.dead");
    let text = |value: &str| AMQPValue::LongString(LongString::from(value));
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), text("quorum"));
    let options = QueueDeclareOptions::durable();
    channel
        .queue_declare(dead.as_str().into(), options, arguments.clone())
        .await?;
    // The default exchange routes to the queue that the routing key names.
    arguments.insert("x-dead-letter-exchange".into(), text(""));
    arguments.insert("x-dead-letter-routing-key".into(), text(&dead));
    // Without these two a dead letter may be lost on its way.
    arguments.insert("x-dead-letter-strategy".into(), text("at-least-once"));
    arguments.insert("x-overflow".into(), text("reject-publish"));
    // RabbitMQ 4 gives a message up after 20 redeliveries unless told otherwise, which is sooner than most outages end.
    arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(10_000));
    channel
        .queue_declare(queue.into(), options, arguments)
        .await?;
    Ok(())
}

/// The producer's half: an id that stays the same when the payment is published again, because the confirmation did not arrive.
async fn publish(channel: &Channel, queue: &str, args: &[String]) -> anyhow::Result<()> {
    let [command, id, account, amount] = args else {
        bail!("usage: publish ID ACCOUNT AMOUNT")
    };
    anyhow::ensure!(command == "publish", "unknown command `{command}`");
    let body = serde_json::json!({ "account": account, "amount": amount.parse::<i64>()? });
    // Delivery mode 2 is "persistent".
    let properties = BasicProperties::default()
        .with_message_id(id.as_str().into())
        .with_delivery_mode(2);
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    let options = BasicPublishOptions::default();
    let (exchange, body) = ("".into(), body.to_string());
    let confirmation = channel
        .basic_publish(exchange, queue.into(), options, body.as_bytes(), properties)
        .await?;
    anyhow::ensure!(
        confirmation.await?.is_ack(),
        "the broker did not take the message"
    );
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let setting = |name, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    let amqp = setting("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/%2f");
    let database = setting(
        "DATABASE_URL",
        "postgres://postgres@127.0.0.1:5432/postgres",
    );
    let queue = setting("QUEUE", "payments");
    let prefetch: u16 = setting("PREFETCH", "16").parse().context("PREFETCH")?;
    let ack_delay = setting("ACK_DELAY_MS", "0")
        .parse()
        .context("ACK_DELAY_MS")?;
    let ack_delay = Duration::from_millis(ack_delay);

    let connection = Connection::connect(&amqp, ConnectionProperties::default()).await;
    let connection = connection.context("cannot connect to RabbitMQ")?;
    let channel = connection.create_channel().await?;
    declare(&channel, &queue).await?;
    let args: Vec<String> = env::args().skip(1).collect();
    if !args.is_empty() {
        publish(&channel, &queue, &args).await?;
        return Ok(connection.close(200, "published".into()).await?);
    }

    // A delivery takes one connection, so that the pool is as large as the number of deliveries in work.
    let pool = PgPoolOptions::new()
        .max_connections(prefetch.into())
        .connect(&database)
        .await;
    let pool = pool.context("cannot connect to PostgreSQL")?;
    idem::migrate(&pool).await?;
    // Your migrations do this.
    let schema =
        "CREATE TABLE IF NOT EXISTS accounts (id text PRIMARY KEY, balance bigint NOT NULL);
        INSERT INTO accounts VALUES ('alice', 0), ('bob', 0) ON CONFLICT DO NOTHING";
    sqlx::raw_sql(schema).execute(&pool).await?;

    // The broker hands out so many messages before it sees an acknowledgement: this bounds the tasks below.
    channel
        .basic_qos(prefetch, BasicQosOptions::default())
        .await?;
    let (tag, options) = ("".into(), BasicConsumeOptions::default());
    let mut deliveries = channel
        .basic_consume(queue.as_str().into(), tag, options, FieldTable::default())
        .await?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    println!("waiting for messages in {queue}");

    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            // A closed connection ends the process with an error, and its supervisor (systemd, Kubernetes) starts it again. What was
            // in work is redelivered; what of it was committed is then a duplicate.
            delivery = deliveries.next() => {
                let delivery = delivery.context("the broker ended the subscription")??;
                tasks.spawn(handle(delivery, pool.clone(), ack_delay));
            }
            Some(done) = tasks.join_next() => done??,
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
        }
    }

    // Ctrl-C or SIGTERM: take no more, finish what is in work, give the rest back. This is politeness; `kill -9` is as safe.
    channel
        .basic_cancel(deliveries.tag(), BasicCancelOptions::default())
        .await?;
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    connection.close(200, "stopped".into()).await?;
    pool.close().await;
    Ok(())
}
