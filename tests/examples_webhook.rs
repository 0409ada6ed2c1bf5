//! `examples/webhook.rs` as its readers run it: a process, real HTTP, and a database that is locked, cut off and repaired under it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{LazyLock, mpsc};
use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use idem_tests::examples::{PATIENCE, Process, build, failed, succeeded};
use idem_tests::{Fixture, Proxy, Wire};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres, Transaction};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ALICE: &str = r#"{"account": "alice", "amount": 100}"#;
/// Longer than the tests.
const NEVER_MS: &str = "3600000";

static WEBHOOK: LazyLock<PathBuf> = LazyLock::new(|| build(&["webhook", "--features", "webhook"]));

/// A service with a database of its own.
struct Stage {
    fixture: Fixture<Postgres>,
    pool: PgPool,
    service: Process,
    address: String,
}

impl Stage {
    async fn start() -> Self {
        let fixture = Fixture::<Postgres>::new().await;
        let pool = fixture.pool(3).await;
        let (service, address) = serve(&fixture.url, "0");
        Self {
            fixture,
            pool,
            service,
            address,
        }
    }

    fn restart(&mut self, answer_delay_ms: &str) {
        (self.service, self.address) = serve(&self.fixture.url, answer_delay_ms);
    }

    fn send(&self, id: &str, body: &str) -> Answer {
        Request::signed(id, body).send(&self.address)
    }

    async fn execute(&self, sql: &str) {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql));
        sql.execute(&self.pool).await.unwrap();
    }

    async fn balances(&self) -> (i64, i64) {
        sqlx::query_as("SELECT sum(balance) FILTER (WHERE id = 'alice')::bigint, sum(balance) FILTER (WHERE id = 'bob')::bigint FROM accounts")
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    /// Holds the row that a payment to alice changes, so that its handler stops there.
    async fn hold_alice(&self) -> Transaction<'static, Postgres> {
        let mut tx = self.pool.begin().await.unwrap();
        let conn: &mut PgConnection = &mut tx;
        let row = "SELECT balance FROM accounts WHERE id = 'alice' FOR UPDATE";
        sqlx::query(row).execute(conn).await.unwrap();
        tx
    }

    /// Waits until a handler has stopped there.
    async fn wait_for_a_handler(&self) {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 \
            AND wait_event_type = 'Lock' AND query LIKE 'UPDATE accounts%'";
        let deadline = Instant::now() + PATIENCE;
        loop {
            let waiting = sqlx::query_scalar(waiting).bind(self.fixture.name());
            let waiting: i64 = waiting.fetch_one(&self.pool).await.unwrap();
            if waiting > 0 {
                return;
            }
            assert!(Instant::now() < deadline, "no handler came to the row");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Sends until the answer is another than 409.
    fn send_until_settled(&self, id: &str, body: &str) -> Answer {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.send(id, body);
            if answer.status != 409 {
                return answer;
            }
            assert!(Instant::now() < deadline, "in flight for {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn command(database: &str) -> Command {
    let mut command = Command::new(&*WEBHOOK);
    command
        .env("WEBHOOK_SECRET", SECRET)
        .env("DATABASE_URL", database)
        .env("LISTEN", "127.0.0.1:0")
        .env_remove("ANSWER_DELAY_MS");
    command
}

fn serve(database: &str, answer_delay_ms: &str) -> (Process, String) {
    let mut command = command(database);
    command.env("ANSWER_DELAY_MS", answer_delay_ms);
    let mut service = Process::start(&mut command, "webhook");
    let line = service.wait_for("the address", |line| line.starts_with("listening on "));
    let address = line
        .strip_prefix("listening on http://")
        .unwrap()
        .to_owned();
    (service, address)
}

fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

fn signature(secret: &str, id: &str, timestamp: u64, body: &str) -> String {
    let key = BASE64_STANDARD.decode(&secret["whsec_".len()..]).unwrap();
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
    format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
}

#[derive(Clone)]
struct Request {
    headers: BTreeMap<&'static str, String>,
    body: String,
}

impl Request {
    fn signed(id: &str, body: &str) -> Self {
        Self::signed_at(now(), id, body)
    }

    fn signed_at(timestamp: u64, id: &str, body: &str) -> Self {
        let headers = [
            ("Webhook-Id", id.to_owned()),
            ("Webhook-Timestamp", timestamp.to_string()),
            ("Webhook-Signature", signature(SECRET, id, timestamp, body)),
            ("Content-Length", body.len().to_string()),
        ];
        Self {
            headers: headers.into(),
            body: body.to_owned(),
        }
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.insert(name, value.to_owned());
        self
    }

    fn without(mut self, name: &'static str) -> Self {
        self.headers.remove(name);
        self
    }

    fn open(&self, address: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut request =
            format!("POST /webhooks/payments HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
        for (name, value) in &self.headers {
            write!(request, "{name}: {value}\r\n").unwrap();
        }
        // What is refused early is not read to its end.
        let _ = stream.write_all(format!("{request}\r\n{}", self.body).as_bytes());
        stream
    }

    fn send(&self, address: &str) -> Answer {
        Answer::read(self.open(address)).expect("an answer")
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Answer {
    /// `None` if the connection ends before.
    fn read(mut stream: TcpStream) -> Option<Self> {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut bytes = Vec::new();
        // A reset after the answer is no matter.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_lowercase(), value.to_owned())
        });
        Some(Self {
            status,
            headers: headers.collect(),
            body: body.to_owned(),
        })
    }

    fn json(&self) -> Value {
        assert_eq!(self.headers["content-type"], "application/json");
        serde_json::from_str(&self.body).unwrap()
    }

    fn is_replayed(&self) -> bool {
        let replayed = self.headers.get("idempotent-replayed");
        assert!(replayed.is_none_or(|value| value == "true"), "{self:?}");
        replayed.is_some()
    }

    #[track_caller]
    fn is_receipt(&self, balance: i64) -> &Self {
        assert_eq!(self.status, 200, "{self:?}");
        assert_eq!(
            self.json(),
            json!({ "account": "alice", "balance": balance })
        );
        self
    }

    #[track_caller]
    fn is_refused(&self, status: u16, error: &str) {
        assert_eq!(self.status, status, "{self:?}");
        let json = self.json();
        let said = json["error"].as_str().unwrap();
        assert!(said.starts_with(error), "{said}");
        let again_in = self.headers.get("retry-after").map(String::as_str);
        let may_pass = matches!(status, 409 | 503);
        assert_eq!(again_in, may_pass.then_some("1"), "{self:?}");
        assert!(!self.is_replayed());
    }
}

/// The example of the specification's own suite, so that both halves are not wrong in the same way.
#[test]
fn the_signature_is_that_of_standard_webhooks() {
    let signature = signature(
        SECRET,
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1_614_265_330,
        r#"{"test": 2432232314}"#,
    );
    assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_gets_the_first_answer() {
    let stage = Stage::start().await;
    assert!(!stage.send("pay-1", ALICE).is_receipt(100).is_replayed());
    assert!(!stage.send("pay-2", ALICE).is_receipt(200).is_replayed());
    // The balance is that of the first answer, and the payment may be written in another way.
    for body in [ALICE, "{\"amount\":100,\n\"account\":\"alice\"}"] {
        assert!(stage.send("pay-1", body).is_receipt(100).is_replayed());
    }
    let other = ALICE.replace("100", "101");
    let mismatch = stage.send("pay-1", &other);
    mismatch.is_refused(
        422,
        "a message with the same key (or business key) and other content",
    );
    // Ids are exact.
    assert!(!stage.send("PAY-1", ALICE).is_receipt(300).is_replayed());
    assert_eq!(stage.balances().await, (300, 0));

    // Claimed by a handler that had no `replay` yet.
    let claim = "INSERT INTO processed_messages (consumer, message_id) VALUES ('payments', 'old')";
    stage.execute(claim).await;
    let old = stage.send("old", ALICE);
    assert_eq!((old.status, old.body.as_str()), (200, ""), "{old:?}");
    assert!(old.is_replayed());
    assert_eq!(stage.balances().await, (300, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_believed_is_refused() {
    let stage = Stage::start().await;
    let send = |request: Request| request.send(&stage.address);
    // One second for all, since a signature is right in its own second only.
    let time = now();
    let signed = || Request::signed_at(time, "pay-1", ALICE);

    let no_id = "the header Webhook-Id is missing";
    send(signed().without("Webhook-Id")).is_refused(400, no_id);
    stage
        .send("", ALICE)
        .is_refused(400, "the message's key, or its first part, is empty");
    let long = "x".repeat(idem::MAX_KEY_BYTES + 1);
    stage
        .send(&long, ALICE)
        .is_refused(400, "the message's key");
    // Beyond ASCII no header is text.
    stage.send("pay-ä", ALICE).is_refused(400, no_id);

    let unauthorized = "no valid signature of the last 5 minutes";
    let other = signature("whsec_AAAAAAAAAAAAAAAA", "pay-1", time, ALICE);
    let right = signature(SECRET, "pay-1", time, ALICE);
    let cases = [
        signed().without("Webhook-Signature"),
        signed().without("Webhook-Timestamp"),
        signed().with("Webhook-Timestamp", "yesterday"),
        signed().with("Webhook-Timestamp", &(time + 1).to_string()),
        signed().with("Webhook-Id", "pay-2"),
        signed().with("Webhook-Signature", &other),
        signed().with("Webhook-Signature", "v1,"),
        signed().with("Webhook-Signature", "v1,not base64"),
        // Another scheme, a cut one, and the text without its scheme.
        signed().with("Webhook-Signature", &right.replace("v1,", "v1a,")),
        signed().with("Webhook-Signature", &right[..right.len() - 4]),
        signed().with("Webhook-Signature", &right[3..]),
        Request {
            body: ALICE.replace("100", "900"),
            ..signed()
        },
        Request::signed_at(time - 310, "pay-1", ALICE),
        Request::signed_at(now() + 310, "pay-1", ALICE),
    ];
    for request in cases {
        let headers = format!("{:?}", request.headers);
        let answer = send(request);
        assert_eq!(answer.status, 401, "{headers}");
        answer.is_refused(401, unauthorized);
    }

    for body in ["", "{", "{}", r#"{"account": "alice", "amount": 1.5}"#] {
        stage
            .send("pay-1", body)
            .is_refused(422, "the body is no payment: ");
    }
    let stranger = r#"{"account": "eve", "amount": 1}"#;
    let no_account = "there is no account `eve`";
    stage.send("pay-1", stranger).is_refused(422, no_account);

    let large = format!("{ALICE}{}", " ".repeat(64 * 1024));
    assert_eq!(stage.send("pay-1", &large).status, 413);
    // Nobody says how long it is.
    let chunked = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let chunked = Request {
        body: chunked,
        ..Request::signed("pay-1", &large).without("Content-Length")
    };
    assert_eq!(
        send(chunked.with("Transfer-Encoding", "chunked")).status,
        413
    );

    // None of these has left a claim: the id is as good as new. Within the limits, and with one right signature among several, it counts.
    let several = format!("v1a,x {other} {right}");
    let last = signed().with("Webhook-Signature", &several);
    assert!(!send(last).is_receipt(100).is_replayed());
    let early = Request::signed_at(time - 200, "pay-1", ALICE);
    assert!(send(early).is_receipt(100).is_replayed());
    let largest = format!("{ALICE}{}", " ".repeat(64 * 1024 - ALICE.len()));
    assert!(stage.send("pay-1", &largest).is_receipt(100).is_replayed());
    assert_eq!(stage.balances().await, (100, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn p2_p9_of_twenty_at_once_one_is_processed_and_the_others_do_not_wait() {
    let stage = Stage::start().await;
    // While the first one is held, the others are answered.
    let held = stage.hold_alice().await;
    let (sender, answers) = mpsc::channel();
    for _ in 0..20 {
        let (sender, address) = (sender.clone(), stage.address.clone());
        std::thread::spawn(move || {
            let answer = Request::signed("pay-1", ALICE).send(&address);
            sender.send(answer).unwrap();
        });
    }
    for _ in 0..19 {
        let answer = answers.recv_timeout(PATIENCE).unwrap();
        answer.is_refused(409, "another worker is still processing this message");
    }
    held.rollback().await.unwrap();
    let first = answers.recv_timeout(PATIENCE).unwrap();
    assert!(!first.is_receipt(100).is_replayed());

    // And as it comes.
    for round in 0..5 {
        let balance = 200 + 100 * round;
        let address = stage.address.as_str();
        let request = Request::signed(&format!("round-{round}"), ALICE);
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let send = |_| scope.spawn(|| request.send(address));
            let threads: Vec<_> = (0..20).map(send).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let mut processed = 0;
        for answer in &answers {
            match answer.status {
                200 if answer.is_replayed() => {}
                200 => processed += 1,
                _ => {
                    answer.is_refused(409, "another worker");
                    continue;
                }
            }
            answer.is_receipt(balance);
        }
        assert_eq!(processed, 1, "{answers:?}");
        assert_eq!(stage.balances().await, (balance, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_p5_killed_or_hung_up_on_at_any_point_each_payment_counts_once() {
    let mut stage = Stage::start().await;
    // Committed and not yet answered.
    stage.restart(NEVER_MS);
    let unanswered = Request::signed("pay-1", ALICE).open(&stage.address);
    let committed = "processed pay-1: committed, not yet answered";
    stage
        .service
        .wait_for("the commit", |line| line == committed);
    stage.service.kill();
    assert!(Answer::read(unanswered).is_none());
    stage.restart("0");
    assert!(stage.send("pay-1", ALICE).is_receipt(100).is_replayed());

    // Killed within the handler: the database keeps the claim until it notices, and nobody takes it for processed.
    let held = stage.hold_alice().await;
    let unanswered = Request::signed("pay-2", ALICE).open(&stage.address);
    stage.wait_for_a_handler().await;
    stage.service.kill();
    assert!(Answer::read(unanswered).is_none());
    stage.restart("0");
    stage.send("pay-2", ALICE).is_refused(409, "another worker");
    held.rollback().await.unwrap();
    let answer = stage.send_until_settled("pay-2", ALICE);
    assert!(!answer.is_receipt(200).is_replayed());

    // The provider hangs up within the handler, which may be done before that is noticed.
    let held = stage.hold_alice().await;
    let unanswered = Request::signed("pay-3", ALICE).open(&stage.address);
    stage.wait_for_a_handler().await;
    drop(unanswered);
    held.rollback().await.unwrap();
    stage.send_until_settled("pay-3", ALICE).is_receipt(300);
    assert_eq!(stage.balances().await, (300, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_lets_the_service_answer_what_is_in_work() {
    let mut stage = Stage::start().await;
    for (signal, balance) in [("TERM", 100), ("INT", 200)] {
        let held = stage.hold_alice().await;
        let in_work = Request::signed(signal, ALICE).open(&stage.address);
        stage.wait_for_a_handler().await;
        stage.service.signal(signal);
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(&stage.address).is_ok() {
            assert!(Instant::now() < deadline, "it goes on listening");
            std::thread::sleep(Duration::from_millis(20));
        }
        held.rollback().await.unwrap();
        let answer = Answer::read(in_work).expect("an answer");
        assert!(!answer.is_receipt(balance).is_replayed());
        stage.service.wait();
        stage.restart("0");
        assert!(stage.send(signal, ALICE).is_receipt(balance).is_replayed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_faults_are_503_if_they_may_pass_and_500_if_not() {
    let mut stage = Stage::start().await;
    // The answer to COMMIT is lost, so that nobody knows; the next delivery finds out.
    let proxy = Proxy::start(Wire::Postgres, &stage.fixture.url, Duration::ZERO).await;
    (stage.service, stage.address) = serve(&proxy.url(&stage.fixture.url), "0");
    proxy.cut_answer_to("COMMIT");
    let unavailable = "Service Unavailable";
    stage.send("pay-1", ALICE).is_refused(503, unavailable);
    assert!(proxy.has_cut());
    assert!(stage.send("pay-1", ALICE).is_receipt(100).is_replayed());

    // A deployment ahead of its migration.
    let rename = "ALTER TABLE processed_messages RENAME TO elsewhere";
    stage.execute(rename).await;
    stage.send("pay-2", ALICE).is_refused(503, unavailable);
    let rename = "ALTER TABLE elsewhere RENAME TO processed_messages";
    stage.execute(rename).await;
    assert!(!stage.send("pay-2", ALICE).is_receipt(200).is_replayed());

    // A constraint that the code does not know. The caller learns nothing of it.
    let constraint = "ALTER TABLE accounts ADD CONSTRAINT secret CHECK (balance < 250)";
    stage.execute(constraint).await;
    let answer = stage.send("pay-3", ALICE);
    answer.is_refused(500, "Internal Server Error");
    assert!(!answer.body.contains("secret"));
    stage
        .execute("ALTER TABLE accounts DROP CONSTRAINT secret")
        .await;
    assert!(!stage.send("pay-3", ALICE).is_receipt(300).is_replayed());
    assert_eq!(stage.balances().await, (300, 0));
}

/// The command is taken apart by a real shell, in which `curl` prints its arguments.
#[tokio::test(flavor = "multi_thread")]
async fn sign_prints_a_request_that_is_accepted() {
    let stage = Stage::start().await;
    let body = r#"{"account": "alice", "amount": 100, "note": "it's $HOME"}"#;
    let output = command("not used")
        .args(["sign", "it's 1", body])
        .env("LISTEN", &stage.address)
        .output()
        .unwrap();
    let script = format!(
        "curl() {{ printf '%s\\n' \"$@\"; }}\n{}",
        succeeded(&output)
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let printed: Vec<&str> = succeeded(&output).lines().collect();
    let url = format!("http://{}/webhooks/payments", stage.address);
    assert_eq!(printed[..2], ["-i", url.as_str()]);
    assert_eq!(printed[printed.len() - 2..], ["--data-raw", body]);

    let mut request = Request::signed("", body);
    for name in ["Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"] {
        let start = format!("{name}: ");
        let value = printed.iter().find_map(|line| line.strip_prefix(&start));
        request = request.with(name, value.expect(name));
    }
    assert_eq!(request.headers["Webhook-Id"], "it's 1");
    request.send(&stage.address).is_receipt(100);
}

#[test]
fn what_is_missing_at_the_start_is_said() {
    let run = |change: &dyn Fn(&mut Command) -> &mut Command| -> Output {
        let mut command = command("postgres://postgres:secret@127.0.0.1:1/postgres");
        change(&mut command).output().unwrap()
    };
    let output = run(&|command| command);
    let error = failed(&output);
    assert!(
        error.starts_with("no PostgreSQL at 127.0.0.1:1 (")
            && error.ends_with("); set DATABASE_URL"),
        "{error}"
    );
    assert!(!error.contains("secret"), "{error}");

    let output = run(&|command| command.env("DATABASE_URL", "not a URL"));
    assert!(failed(&output).starts_with("DATABASE_URL is no URL of PostgreSQL: "));
    let output = run(&|command| command.env_remove("WEBHOOK_SECRET"));
    assert!(failed(&output).starts_with("WEBHOOK_SECRET: "));
    for secret in ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_?"] {
        let output = run(&|command| command.env("WEBHOOK_SECRET", secret));
        assert_eq!(failed(&output), "WEBHOOK_SECRET is not `whsec_` and base64");
    }
    let output = run(&|command| command.env("ANSWER_DELAY_MS", "long"));
    assert!(failed(&output).starts_with("ANSWER_DELAY_MS: "));
    for arguments in [
        &["serve"][..],
        &["sign"],
        &["sign", "pay-1"],
        &["sign", "a", "b", "c"],
    ] {
        let output = run(&|command| command.args(arguments));
        assert_eq!(failed(&output), "usage: webhook [sign ID BODY]");
    }
}
