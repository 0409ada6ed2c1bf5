//! `examples/rabbitmq.rs` as its readers run it: against a real broker that redelivers, killed with SIGKILL between commit and
//! acknowledgement, and started again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr as _;
use std::time::{Duration, Instant};

use idem_tests::examples::{PATIENCE, Process, build};
use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

const PAYMENTS: usize = 40;
const ACCOUNTS: usize = 5;
/// Longer than the test: whatever is committed while this runs is not acknowledged.
const NEVER_MS: u64 = 3_600_000;

#[tokio::test(flavor = "multi_thread")]
async fn p2_p3_a_consumer_killed_between_commit_and_ack_has_each_effect_once() {
    let stage = Stage::build().await;
    // In a task of its own, so that a panic there does not leave the queues and the database behind.
    let result = tokio::spawn(scenario(stage.clone())).await;
    stage.tear_down().await;
    if let Err(error) = result {
        std::panic::resume_unwind(error.into_panic());
    }
}

async fn scenario(stage: Stage) {
    // The first start creates the tables and the queues, and Ctrl-C ends it.
    let mut first = start(&stage, "first", 16, 0);
    first.wait_for("the subscription", waiting);
    interrupt(&mut first);

    let mut db = stage.database().await;
    let accounts =
        "INSERT INTO accounts SELECT 'account-' || n, 0 FROM generate_series(0, $1 - 1) n";
    sqlx::query(accounts)
        .bind(i32::try_from(ACCOUNTS).unwrap())
        .execute(&mut db)
        .await
        .unwrap();
    let amqp = stage.broker().await;
    let channel = amqp.create_channel().await.unwrap();
    publish(&channel, &stage.name).await;

    // Five times one delivery at a time, so that the kill hits a known message; then with several in work.
    let mut processed = Vec::new();
    let mut hit = BTreeSet::new();
    let mut duplicates = BTreeSet::new();
    for (round, prefetch) in [1, 1, 1, 1, 1, 8, 8].into_iter().enumerate() {
        let mut consumer = start(&stage, &format!("kill {round}"), prefetch, NEVER_MS);
        consumer.wait_for("a commit", |line| committed(line).is_some());
        let lines = consumer.kill();

        let last = lines.last().unwrap();
        assert!(
            prefetch > 1 || committed(last).is_some(),
            "the kill came too late: {last}"
        );
        let commits = ids(&lines, committed);
        // While one delivery waits, another of the same payment may come, and be acknowledged as a duplicate.
        let acknowledged = ids(&lines, |line| line.strip_prefix("acknowledged "));
        assert!(
            acknowledged.len() <= ids(&lines, duplicate).len(),
            "a commit was acknowledged before the kill"
        );
        hit.extend(commits.iter().cloned());
        processed.extend(commits);
        duplicates.extend(ids(&lines, duplicate));
    }

    // Two at once finish the work.
    let mut last = ["last a", "last b"].map(|run| start(&stage, run, 16, 0));
    for consumer in &mut last {
        consumer.wait_for("the subscription", waiting);
    }
    wait_until_empty(&channel, &stage.name).await;
    for consumer in &mut last {
        let lines = interrupt(consumer);
        processed.extend(ids(&lines, committed));
        duplicates.extend(ids(&lines, duplicate));
    }

    // What a stopped consumer has not acknowledged comes back within moments.
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(
            ready(&channel, &stage.name).await,
            0,
            "messages left in the queue"
        );
    }

    // Each effect once: payment n adds 100 to the power of n / ACCOUNTS, so that every two digits of a balance count one payment.
    let balances = "SELECT balance FROM accounts WHERE id LIKE 'account-%' ORDER BY id";
    let balances: Vec<i64> = sqlx::query_scalar(balances)
        .fetch_all(&mut db)
        .await
        .unwrap();
    assert_eq!(
        balances, [1_01_01_01_01_01_01_01; ACCOUNTS],
        "two digits per payment: 00 is lost, 02 is twice"
    );
    // Every kill hit a payment that was committed, and each of these came back and was recognised.
    assert!(
        hit.len() >= 7,
        "every round hits a message of its own: {hit:?}"
    );
    let unseen: Vec<_> = hit.difference(&duplicates).collect();
    assert!(
        unseen.is_empty(),
        "killed before their acknowledgement, and never redelivered: {unseen:?}"
    );

    // A consumer that is killed between COMMIT and its line on stdout does not report the payment, but none is reported twice.
    let reports = processed.len();
    processed.sort();
    processed.dedup();
    assert_eq!(processed.len(), reports, "the handler ran again");
    let payments: Vec<String> = (0..PAYMENTS).map(payment_id).collect();
    let claims =
        "SELECT message_id FROM processed_messages WHERE consumer = 'billing' ORDER BY message_id";
    let claims: Vec<String> = sqlx::query_scalar(claims).fetch_all(&mut db).await.unwrap();
    assert_eq!(
        claims, payments,
        "a claim for each payment, and for nothing else"
    );

    let expected: Vec<(Option<String>, String)> = unprocessable().into();
    assert_eq!(
        dead_letters(&channel, &stage.name, expected.len()).await,
        expected
    );
    amqp.close(200, "done".into()).await.unwrap();
}

fn payment_id(n: usize) -> String {
    format!("payment-{n:02}")
}

fn waiting(line: &str) -> bool {
    line.starts_with("waiting for messages")
}

fn committed(line: &str) -> Option<&str> {
    let (id, rest) = line.strip_prefix("processed ")?.split_once(": ")?;
    rest.starts_with("committed, not yet acknowledged")
        .then_some(id)
}

fn duplicate(line: &str) -> Option<&str> {
    Some(line.strip_prefix("duplicate ")?.split_once(": ")?.0)
}

fn ids(lines: &[String], id: impl Fn(&str) -> Option<&str>) -> Vec<String> {
    lines
        .iter()
        .filter_map(|line| id(line))
        .map(str::to_owned)
        .collect()
}

/// Id and body, in the order of the ids.
fn unprocessable() -> [(Option<String>, String); 3] {
    let anonymous = r#"{ "account": "account-0", "amount": 1 }"#;
    let stranger = r#"{ "account": "stranger", "amount": 1 }"#;
    [
        (None, anonymous.to_owned()),
        (Some("broken".to_owned()), "{".to_owned()),
        (Some("no-account".to_owned()), stranger.to_owned()),
    ]
}

/// A third of the payments once, a third twice in a row, a third twice in a row and again at the end; among them what cannot be
/// processed.
async fn publish(channel: &Channel, queue: &str) {
    let payment = |n: usize| {
        let (account, amount) = (
            n % ACCOUNTS,
            100_i64.pow(u32::try_from(n / ACCOUNTS).unwrap()),
        );
        let body = format!(r#"{{ "account": "account-{account}", "amount": {amount} }}"#);
        (Some(payment_id(n)), body)
    };
    let mut messages = Vec::new();
    for n in 0..PAYMENTS {
        messages.extend(std::iter::repeat_n(
            payment(n),
            if n % 3 == 0 { 1 } else { 2 },
        ));
        if n == PAYMENTS / 2 {
            messages.extend(unprocessable());
        }
    }
    messages.extend((0..PAYMENTS).filter(|n| n % 3 == 2).map(payment));

    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await
        .unwrap();
    for (id, body) in messages {
        let mut properties = BasicProperties::default().with_delivery_mode(2);
        if let Some(id) = id {
            properties = properties.with_message_id(id.into());
        }
        let options = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let published = channel.basic_publish(
            "".into(),
            queue.into(),
            options,
            body.as_bytes(),
            properties,
        );
        let confirmation = published.await.unwrap().await.unwrap();
        assert!(confirmation.is_ack() && confirmation.take_message().is_none());
    }
}

async fn ready(channel: &Channel, queue: &str) -> u32 {
    let options = QueueDeclareOptions::durable().passive();
    let queue = channel
        .queue_declare(queue.into(), options, FieldTable::default())
        .await;
    queue.unwrap().message_count()
}

async fn wait_until_empty(channel: &Channel, queue: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = ready(channel, queue).await;
        if left == 0 {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{left} messages still in the queue after {PATIENCE:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Takes all dead letters. The broker moves them in the background, so that the last may not be there yet.
async fn dead_letters(
    channel: &Channel,
    queue: &str,
    expected: usize,
) -> Vec<(Option<String>, String)> {
    let mut letters = Vec::new();
    let mut deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let options = BasicGetOptions { no_ack: true };
        match channel
            .basic_get(format!("{queue}.dead").into(), options)
            .await
            .unwrap()
        {
            Some(letter) => {
                let id = letter
                    .properties
                    .message_id()
                    .as_ref()
                    .map(ToString::to_string);
                letters.push((id, String::from_utf8(letter.data.clone()).unwrap()));
            }
            // All are there, unless there are too many.
            None if letters.len() >= expected => {
                deadline = deadline.min(Instant::now() + Duration::from_millis(500));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            None => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    letters.sort();
    letters
}

/// A database and a queue for this test alone.
#[derive(Clone)]
struct Stage {
    name: String,
    amqp: String,
    postgres: PgConnectOptions,
    example: PathBuf,
}

impl Stage {
    async fn build() -> Self {
        let setting =
            |name, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
        let postgres = setting(
            "IDEM_TEST_POSTGRES",
            "postgres://postgres@127.0.0.1:5432/postgres",
        );
        let nanos = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
        let stage = Self {
            name: format!("idem_rabbitmq_{}_{nanos}", std::process::id()),
            amqp: setting("IDEM_TEST_AMQP", "amqp://guest:guest@127.0.0.1:5672/%2f"),
            postgres: PgConnectOptions::from_str(&postgres).expect("IDEM_TEST_POSTGRES is no URL"),
            example: build(&["rabbitmq", "--features", "rabbitmq"]),
        };
        // Both servers first, so that a missing one leaves nothing behind.
        stage
            .broker()
            .await
            .close(200, "reachable".into())
            .await
            .unwrap();
        stage
            .administer(&format!("CREATE DATABASE {}", stage.name))
            .await;
        stage
    }

    async fn tear_down(&self) {
        let amqp = self.broker().await;
        let channel = amqp.create_channel().await.unwrap();
        for queue in [self.name.clone(), format!("{}.dead", self.name)] {
            channel
                .queue_delete(queue.into(), QueueDeleteOptions::default())
                .await
                .unwrap();
        }
        amqp.close(200, "done".into()).await.unwrap();
        self.administer(&format!("DROP DATABASE {} WITH (FORCE)", self.name))
            .await;
    }

    async fn broker(&self) -> Connection {
        match Connection::connect(&self.amqp, ConnectionProperties::default()).await {
            Ok(connection) => connection,
            Err(error) => panic!(
                "no RabbitMQ at IDEM_TEST_AMQP ({error}): `./test.sh` starts what is missing"
            ),
        }
    }

    async fn administer(&self, statement: &str) {
        let mut db = connect(&self.postgres).await;
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(&mut db)
            .await
            .unwrap();
        db.close().await.unwrap();
    }

    async fn database(&self) -> PgConnection {
        connect(&self.postgres.clone().database(&self.name)).await
    }
}

async fn connect(options: &PgConnectOptions) -> PgConnection {
    match PgConnection::connect_with(options).await {
        Ok(connection) => connection,
        Err(error) => panic!(
            "no PostgreSQL at IDEM_TEST_POSTGRES ({error}): `./test.sh` starts what is missing"
        ),
    }
}

fn start(stage: &Stage, run: &str, prefetch: u16, ack_delay_ms: u64) -> Process {
    let database = stage.postgres.clone().database(&stage.name).to_url_lossy();
    let mut command = Command::new(&stage.example);
    command
        .env("AMQP_URL", &stage.amqp)
        .env("DATABASE_URL", database.as_str())
        .env("QUEUE", &stage.name)
        .env("PREFETCH", prefetch.to_string())
        .env("ACK_DELAY_MS", ack_delay_ms.to_string());
    Process::start(&mut command, run)
}

/// Ctrl-C, which has to end the process in good order. Returns everything that it has printed.
fn interrupt(consumer: &mut Process) -> Vec<String> {
    consumer.signal("INT");
    consumer.wait()
}
