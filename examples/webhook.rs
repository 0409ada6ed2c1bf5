//! A web service that takes payments from webhooks, each once, however often the provider sends it. A repetition gets the first answer again.
//!
//! ```text
//! export WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw    # the provider gives you yours
//! cargo run --example webhook --features webhook
//! cargo run -q --example webhook --features webhook -- sign pay-1 '{"account": "alice", "amount": 100}' | sh    # run it twice
//! ```
//!
//! `DATABASE_URL` and `LISTEN` say where; see `main` for their defaults. `sign` prints the request as a command for `curl`. To pull the
//! plug at the worst moment, start the service with `ANSWER_DELAY_MS=10000` and `kill -9` it when it says `committed, not yet answered`.
//!
//! Requests are signed as <https://www.standardwebhooks.com> says. Providers send again what is not answered by 2xx in a few seconds.
//!
//! | answer | when |
//! |---|---|
//! | 200 | Processed, now or before: the body is the same each time, and `Idempotent-Replayed: true` tells. |
//! | 400 | No `Webhook-Id`, or an empty or over-long one: nothing would tell a repetition from a second payment. |
//! | 401 | No valid signature, or one that is more than 5 minutes old: nobody may send again what was recorded long ago. |
//! | 409 | The same message is being processed. The provider learns the result when it sends it again. |
//! | 413 | A body beyond 64 KiB, of which no more is read. |
//! | 422 | The message is at fault and stays so: no payment, an unknown account, or an id that was used for another payment. |
//! | 503 | A fault that may pass, such as a lost database. Nothing was applied, or the next delivery finds that it was. |
//! | 500 | A fault of ours, in the handler or in its tables. What the provider sends again succeeds once it is repaired. |

use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{env, str::FromStr as _};

use anyhow::{Context as _, anyhow, bail};
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, routing::post};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use idem::{Outcome, idempotent};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::Sha256;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use tokio::signal::unix::{SignalKind, signal};

const MAX_BODY_BYTES: usize = 64 * 1024;
const TOLERANCE_SECONDS: u64 = 5 * 60;

#[derive(Deserialize)]
struct Payment {
    account: String,
    amount: i64,
}

/// What the provider gets, and gets again for a repetition. It is kept as JSON, so that a later version must be able to read it.
#[derive(Serialize, Deserialize)]
struct Receipt {
    account: String,
    balance: i64,
}

#[derive(Debug, thiserror::Error)]
enum WebhookError {
    #[error("the header Webhook-Id is missing")]
    NoId,
    #[error("no valid signature of the last 5 minutes")]
    Unauthorized,
    #[error("the body is no payment: {0}")]
    NoPayment(#[from] serde_json::Error),
    #[error("there is no account `{0}`")]
    UnknownAccount(String),
    // Not transparent, here and below: it would leave the error out of the chain of sources, where `idem::is_transient` looks for it.
    #[error("{0}")]
    Delivery(#[from] idem::Error),
    #[error("the database failed: {0}")]
    Database(#[from] sqlx::Error),
}

struct Payments {
    pool: PgPool,
    secret: Secret,
    answer_delay: Duration,
}

impl Payments {
    /// Runs once per id. The fingerprint is of the payment and not of the body's bytes, which may be written in another way next time.
    /// A request does not wait for another one of the same payment, since providers hang up after some seconds.
    #[idempotent(
        key = "id",
        consumer = "payments",
        replay,
        fingerprint = "(&payment.account, payment.amount)",
        in_flight = "fail",
        pool = "self.pool"
    )]
    async fn apply(
        &self,
        tx: &mut PgConnection,
        id: &str,
        payment: &Payment,
    ) -> Result<Receipt, WebhookError> {
        let credit = "UPDATE accounts SET balance = balance + $1 WHERE id = $2 RETURNING balance";
        let balance = sqlx::query_scalar(credit)
            .bind(payment.amount)
            .bind(&payment.account)
            .fetch_optional(&mut *tx)
            .await?;
        let account = payment.account.clone();
        match balance {
            Some(balance) => Ok(Receipt { account, balance }),
            None => Err(WebhookError::UnknownAccount(account)),
        }
    }
}

/// When the provider hangs up, this is dropped at an `.await`, which is safe: nothing is applied, or everything.
async fn receive(
    State(payments): State<Arc<Payments>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, WebhookError> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let id = header("webhook-id").ok_or(WebhookError::NoId)?;
    // Before anything else is believed, the id included.
    let signed = header("webhook-timestamp").zip(header("webhook-signature"));
    signed
        .filter(|(time, signatures)| payments.secret.verify(id, time, &body, signatures))
        .ok_or(WebhookError::Unauthorized)?;
    let payment = serde_json::from_slice(&body)?;

    let outcome = payments.apply(id, &payment).await?;
    if outcome.is_processed() {
        println!("processed {id}: committed, not yet answered");
        tokio::time::sleep(payments.answer_delay).await;
    } else {
        println!("replayed {id}: an earlier delivery has committed it");
    }
    let replayed = [("idempotent-replayed", "true")];
    Ok(match outcome {
        Outcome::Processed(receipt) => Json(receipt).into_response(),
        Outcome::Replayed(receipt) => (replayed, Json(receipt)).into_response(),
        // Processed before the handler had `replay`, so that there is no value. It is processed all the same.
        Outcome::Duplicate | Outcome::Stale => replayed.into_response(),
    })
}

impl IntoResponse for WebhookError {
    fn into_response(self) -> Response {
        use idem::Error::{InFlight, InvalidKey, Mismatch};
        let status = match &self {
            Self::NoId | Self::Delivery(InvalidKey(_)) => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Delivery(InFlight(_)) => StatusCode::CONFLICT,
            Self::NoPayment(_) | Self::UnknownAccount(_) | Self::Delivery(Mismatch) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            error if idem::is_transient(error) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Delivery(_) | Self::Database(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        eprintln!("answered {status}: {self}");
        // What is wrong in here is nobody else's business.
        let error = if status.is_server_error() {
            status.canonical_reason().unwrap_or_default().to_owned()
        } else {
            self.to_string()
        };
        let retry_after = match status {
            StatusCode::CONFLICT | StatusCode::SERVICE_UNAVAILABLE => {
                Some([(header::RETRY_AFTER, "1")])
            }
            _ => None,
        };
        (status, retry_after, Json(json!({ "error": error }))).into_response()
    }
}

struct Secret(Hmac<Sha256>);

impl Secret {
    fn new(text: &str) -> anyhow::Result<Self> {
        let key = text.strip_prefix("whsec_");
        let key = key.and_then(|key| BASE64_STANDARD.decode(key).ok());
        let key = key.filter(|key| !key.is_empty());
        let key = key.context("WEBHOOK_SECRET is not `whsec_` and base64")?;
        Ok(Self(Hmac::new_from_slice(&key)?))
    }

    /// Over the timestamp as it was sent, and over the body's bytes as they came.
    fn of(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let content = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body].concat();
        self.0.clone().chain_update(content)
    }

    /// One of several signatures has to be right, since a provider that changes its secret signs with both for a while.
    fn verify(&self, id: &str, timestamp: &str, body: &[u8], signatures: &str) -> bool {
        let age = timestamp.parse().map(|sent| unix_time().abs_diff(sent));
        let expected = self.of(id, timestamp, body);
        // In constant time: `==` would tell an attacker how many bytes are right.
        let is_right = |signature: Vec<u8>| expected.clone().verify_slice(&signature).is_ok();
        let signatures = signatures
            .split(' ')
            .filter_map(|one| one.strip_prefix("v1,"));
        let mut signatures = signatures.filter_map(|one| BASE64_STANDARD.decode(one).ok());
        age.is_ok_and(|age| age <= TOLERANCE_SECONDS) && signatures.any(is_right)
    }
}

fn unix_time() -> u64 {
    let now = SystemTime::UNIX_EPOCH.elapsed();
    now.map_or(0, |now| now.as_secs())
}

/// The provider's half, as a command to paste or to pipe into `sh`.
fn sign(secret: &Secret, listen: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let ["sign", id, body] = arguments else {
        bail!("usage: webhook [sign ID BODY]")
    };
    let timestamp = unix_time().to_string();
    let signature = secret.of(id, &timestamp, body.as_bytes()).finalize();
    let signature = BASE64_STANDARD.encode(signature.into_bytes());
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    println!(
        "curl -i http://{listen}/webhooks/payments -H {} -H 'Webhook-Timestamp: {timestamp}' \\\n  \
         -H 'Webhook-Signature: v1,{signature}' -H 'Content-Type: application/json' --data-raw {}",
        quoted(&format!("Webhook-Id: {id}")),
        quoted(body),
    );
    Ok(())
}

#[tokio::main]
async fn main() -> std::process::ExitCode {
    let Err(error) = run().await else {
        return std::process::ExitCode::SUCCESS;
    };
    eprintln!("error: {error:#}");
    std::process::ExitCode::FAILURE
}

async fn run() -> anyhow::Result<()> {
    let setting = |name, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    let listen = setting("LISTEN", "127.0.0.1:8080");
    let database = setting(
        "DATABASE_URL",
        "postgres://postgres@127.0.0.1:5432/postgres",
    );
    let answer_delay = setting("ANSWER_DELAY_MS", "0").parse();
    let answer_delay = Duration::from_millis(answer_delay.context("ANSWER_DELAY_MS")?);
    let secret = env::var("WEBHOOK_SECRET").context("WEBHOOK_SECRET")?;
    let secret = Secret::new(&secret)?;
    let arguments: Vec<String> = env::args().skip(1).collect();
    if !arguments.is_empty() {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        return sign(&secret, &listen, &arguments);
    }

    let options = PgConnectOptions::from_str(&database);
    let options = options.context("DATABASE_URL is no URL of PostgreSQL")?;
    let server = format!("{}:{}", options.get_host(), options.get_port());
    // A delivery takes one connection. One that waits longer for it than the provider for us is better answered by 503.
    let pool = PgPoolOptions::new().max_connections(10);
    let pool = pool
        .acquire_timeout(Duration::from_secs(5))
        .connect_with(options)
        .await;
    let pool =
        pool.map_err(|error| anyhow!("no PostgreSQL at {server} ({error}); set DATABASE_URL"))?;
    idem::migrate(&pool).await?;
    // Your migrations do this.
    let accounts =
        "CREATE TABLE IF NOT EXISTS accounts (id text PRIMARY KEY, balance bigint NOT NULL);
        INSERT INTO accounts VALUES ('alice', 0), ('bob', 0) ON CONFLICT DO NOTHING";
    sqlx::raw_sql(accounts).execute(&pool).await?;

    let payments = Payments {
        pool: pool.clone(),
        secret,
        answer_delay,
    };
    let router = Router::new()
        .route("/webhooks/payments", post(receive))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(Arc::new(payments));
    let listener = tokio::net::TcpListener::bind(&listen)
        .await
        .context(listen)?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    println!("listening on http://{}", listener.local_addr()?);
    // Ctrl-C or SIGTERM: take no more and answer what is in work. This is politeness; `kill -9` is as safe.
    let stop = async move {
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
    };
    axum::serve(listener, router)
        .with_graceful_shutdown(stop)
        .await?;
    pool.close().await;
    Ok(())
}
