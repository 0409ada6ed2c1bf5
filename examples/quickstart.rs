//! Twelve deliveries of seven events, and every event counts once. No server, no set-up:
//!
//! ```text
//! cargo run --example quickstart
//! cargo run --example quickstart -- my-deliveries.jsonl    # or `-` for standard input
//! ```
//!
//! The input is what a broker hands over that delivers *at least* once: one `CloudEvents` event per line, some of them repeated. See
//! `deliveries.jsonl` next to this file. The example plays the broker:
//!
//! - Consecutive lines with the same event are copies that arrive at the same time.
//! - `"fails_at_first": true` makes the handler fail at the first delivery, and the event is delivered again at the end.

use std::collections::{BTreeMap, VecDeque};
use std::io::Read as _;
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

use anyhow::{Context as _, ensure};
use idem::{Outcome, idempotent};
use serde::Deserialize;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool};

/// The attributes that `CloudEvents` requires, and the data.
#[derive(Clone, Deserialize)]
struct Event {
    specversion: String,
    source: String,
    id: String,
    r#type: String,
    data: Purchase,
    /// Brokers flag a delivery when an earlier one was not acknowledged.
    #[serde(skip)]
    redelivered: bool,
}

#[derive(Clone, Deserialize, PartialEq)]
struct Purchase {
    account: String,
    amount: i32,
    #[serde(default)]
    fails_at_first: bool,
}

/// The handler's own error, and two variants that let `?` take the library's errors and the database's.
#[derive(Debug, thiserror::Error)]
enum BillingError {
    #[error("no answer from the mail server")]
    ReceiptNotSent,
    #[error("the delivery failed")]
    Delivery(#[from] idem::Error),
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
}

/// Runs once per event, since what it writes on `tx` is committed together with the key, or not at all. `CloudEvents` says what the key
/// is: two deliveries with the same source and id are the same event.
#[idempotent(key = "(event.source, event.id)", consumer = "billing")]
async fn add_credits(tx: &mut SqliteConnection, event: &Event) -> Result<i64, BillingError> {
    let credits = sqlx::query_scalar(
        "INSERT INTO accounts (id, credits) VALUES ($1, $2)
         ON CONFLICT (id) DO UPDATE SET credits = credits + excluded.credits RETURNING credits",
    )
    .bind(&event.data.account)
    .bind(event.data.amount)
    .fetch_one(&mut *tx)
    .await?;
    // The worst moment to fail, since the credits are written. The error rolls them back, and the key with them.
    if event.data.fails_at_first && !event.redelivered {
        return Err(BillingError::ReceiptNotSent);
    }
    Ok(credits)
}

/// Plays the broker: delivers until every delivery is acknowledged.
async fn deliver(events: &[Event], pool: &SqlitePool) -> anyhow::Result<()> {
    println!(" no    source     id      account    amount   outcome");
    let mut number = 0;
    let mut queue: VecDeque<Vec<Event>> = events
        .chunk_by(|a, b| (&a.source, &a.id) == (&b.source, &b.id))
        .map(<[Event]>::to_vec)
        .collect();
    while let Some(copies) = queue.pop_front() {
        let last = copies.len() - 1;
        let mut deliveries = Vec::new();
        for event in copies {
            let pool = pool.clone();
            deliveries.push(tokio::spawn(async move {
                // A pool stands where the handler declares its transaction.
                let result = add_credits(&pool, &event).await;
                (event, result)
            }));
        }
        let mut again = Vec::new();
        for (place, delivery) in deliveries.into_iter().enumerate() {
            let (event, result) = delivery.await?;
            let outcome = match &result {
                // Ok: acknowledge. The effect is committed, by this delivery or by an earlier one.
                Ok(Outcome::Processed(credits)) => {
                    format!("processed, {} has {credits}", event.data.account)
                }
                Ok(Outcome::Duplicate | Outcome::Replayed(_) | Outcome::Stale) => {
                    "duplicate".to_owned()
                }
                Err(error) => format!("failed: {error}"),
            };
            number += 1;
            let bracket = match place {
                _ if last == 0 => ' ',
                0 => '┐',
                _ if place == last => '┘',
                _ => '│',
            };
            println!(
                "{number:>3} {bracket}  {:<10} {:<7} {:<9} {:>7}   {outcome}",
                event.source, event.id, event.data.account, event.data.amount,
            );
            // Err: do not acknowledge. What may pass is delivered again; for the rest a broker has its dead letters.
            if let Err(error) = result {
                let may_pass =
                    matches!(error, BillingError::ReceiptNotSent) || idem::is_transient(&error);
                ensure!(may_pass, "{:#}", anyhow::Error::new(error));
                again.push(Event {
                    redelivered: true,
                    ..event
                });
            }
        }
        if !again.is_empty() {
            queue.push_back(again);
        }
    }
    Ok(())
}

/// Reads one event per line. What cannot be an event is an error that names the line.
fn parse(input: &str) -> anyhow::Result<Vec<Event>> {
    let mut events = Vec::new();
    for (line, number) in input.lines().zip(1..) {
        if line.trim().is_empty() {
            continue;
        }
        let event: Event = serde_json::from_str(line).map_err(|error| {
            // serde_json has seen this one line only, and calls it the first.
            let error = error.to_string().replace(" at line 1 column", " at column");
            anyhow!("line {number}: {error}")
        })?;
        let (version, kind) = (&event.specversion, &event.r#type);
        ensure!(version == "1.0", "line {number}: unknown specversion `{version}`");
        ensure!(kind == EVENT_TYPE, "line {number}: type `{kind}` instead of `{EVENT_TYPE}`");
        events.push(event);
    }
    ensure!(!events.is_empty(), "the input holds no events");
    Ok(events)
}

/// What every account has to hold in the end, computed without the library and without the database.
fn sums(events: &[Event]) -> (usize, BTreeMap<String, i64>) {
    let mut distinct = BTreeMap::new();
    let mut sums = BTreeMap::new();
    for event in events {
        distinct.insert((&event.source, &event.id), &event.data);
    }
    for data in distinct.values() {
        *sums.entry(data.account.clone()).or_default() += i64::from(data.amount);
    }
    (distinct.len(), sums)
}

async fn run(directory: &Path) -> anyhow::Result<()> {
    let argument = std::env::args().nth(1);
    let input = match argument.as_deref() {
        None => include_str!("deliveries.jsonl").to_owned(),
        Some("-") => std::io::read_to_string(std::io::stdin()).context("standard input")?,
        Some(path) => std::fs::read_to_string(path).context(path.to_owned())?,
    };
    let events = parse(&input)?;
    let (distinct, expected) = sums(&events);

    // A file, and not `sqlite::memory:`, which would be a database of its own for each connection.
    let options = SqliteConnectOptions::new()
        .filename(directory.join("quickstart.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal);
    let pool = SqlitePool::connect_with(options).await?;
    idem::migrate(&pool).await?;
    sqlx::query("CREATE TABLE accounts (id TEXT PRIMARY KEY, credits INTEGER NOT NULL)")
        .execute(&pool)
        .await?;

    println!("{} deliveries of {distinct} events. Copies in a bracket arrive at the same time.\n", events.len());
    deliver(&events, &pool).await?;

    let balances = sqlx::query_as("SELECT id, credits FROM accounts").fetch_all(&pool).await?;
    let balances: BTreeMap<String, i64> = balances.into_iter().collect();
    pool.close().await;
    println!("\nBalances");
    for (account, credits) in &balances {
        println!("{account:>31} {credits:>10}");
    }
    ensure!(balances == expected, "the balances are not the sums over the distinct events, {expected:?}");
    println!("\nOK: the balances are the sums over the {distinct} distinct events.");
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let name = format!("idem-quickstart-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let result = match std::fs::create_dir(&directory) {
        Ok(()) => run(&directory).await,
        Err(error) => Err(error.into()),
    };
    ExitCode::SUCCESS
}
