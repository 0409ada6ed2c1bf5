//! Twelve deliveries of seven events, and every event counts once. No server, no set-up:
//!
//! ```text
//! cargo run --example quickstart
//! cargo run --example quickstart -- my-deliveries.jsonl    # or `-` for standard input
//! ```
//!
//! The input is what a broker hands over that delivers *at least* once: one CloudEvents event per line, some of them repeated. See
//! `deliveries.jsonl` next to this file. The example plays the broker:
//!
//! - Equal lines that follow each other are copies that arrive at the same time.
//! - `"fails_at_first": true` makes the handler fail at the first delivery, and the event is delivered again at the end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, ensure};
use idem::{Outcome, idempotent};
use serde::Deserialize;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool};

/// The attributes that CloudEvents requires, and the data.
#[derive(Clone, PartialEq, Deserialize)]
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

#[derive(Clone, PartialEq, Deserialize)]
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

/// Runs once per event, since what it writes on `tx` is committed together with the key, or not at all. CloudEvents says what the key
/// is: deliveries with the same source and id are the same event.
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
    let copies = events.chunk_by(|event, next| event == next);
    let mut queue: VecDeque<Vec<Event>> = copies.map(<[Event]>::to_vec).collect();
    let mut number = 0;
    while let Some(copies) = queue.pop_front() {
        let mark = if copies.len() > 1 { '│' } else { ' ' };
        let mut tasks = Vec::new();
        for event in copies {
            let pool = pool.clone();
            // A pool stands where the handler declares its transaction.
            let task = async move { (add_credits(&pool, &event).await, event) };
            tasks.push(tokio::spawn(task));
        }
        for task in tasks {
            let (result, event) = task.await?;
            let outcome = match &result {
                // Ok: acknowledge. The effect is committed, by this delivery or by an earlier one.
                Ok(Outcome::Processed(balance)) => format!("processed, balance {balance}"),
                Ok(Outcome::Duplicate | Outcome::Replayed(_) | Outcome::Stale) => {
                    "duplicate".to_owned()
                }
                Err(error) => format!("failed and rolled back: {error}"),
            };
            number += 1;
            println!(
                "{number:>3} {mark}  {:<10} {:<7} {:<9} {:>7}   {outcome}",
                event.source, event.id, event.data.account, event.data.amount,
            );
            // Err: do not acknowledge. What may pass is delivered again; for anything else a broker has its dead letters.
            if let Err(error) = result {
                let own = matches!(error, BillingError::ReceiptNotSent);
                if !own && !idem::is_transient(&error) {
                    return Err(error).with_context(|| format!("delivery {number}"));
                }
                let redelivered = true;
                queue.push_back(vec![Event {
                    redelivered,
                    ..event
                }]);
            }
        }
    }
    Ok(())
}

/// Reads one event per line. A line that holds none is an error with the line's number.
fn parse(input: &str) -> anyhow::Result<Vec<Event>> {
    let mut events = Vec::new();
    for (line, number) in input.lines().zip(1..) {
        if !line.trim().is_empty() {
            events.push(serde_json::from_str(line).map_err(|error| {
                // serde_json has seen this one line only, and calls it the first.
                let error = error.to_string().replace(" at line 1 column", " at column");
                anyhow!("line {number} is not an event: {error}")
            })?);
        }
    }
    ensure!(!events.is_empty(), "the input holds no event");
    Ok(events)
}

/// The number of distinct events, and what they come to for each account, without the library and without the database.
fn sums(events: &[Event]) -> (usize, BTreeMap<String, i64>) {
    let mut distinct = BTreeSet::new();
    let mut sums = BTreeMap::new();
    for event in events {
        if distinct.insert((&event.source, &event.id)) {
            *sums.entry(event.data.account.clone()).or_default() += i64::from(event.data.amount);
        }
    }
    (distinct.len(), sums)
}

async fn bill(events: &[Event], database: &Path) -> anyhow::Result<()> {
    // Connections share a file; `sqlite::memory:` would be a database of its own for each.
    let options = SqliteConnectOptions::new()
        .filename(database)
        .create_if_missing(true);
    let pool = SqlitePool::connect_with(options.journal_mode(SqliteJournalMode::Wal)).await?;
    idem::migrate(&pool).await?;
    let accounts = "CREATE TABLE accounts (id TEXT PRIMARY KEY, credits INTEGER NOT NULL)";
    sqlx::query(accounts).execute(&pool).await?;

    let (deliveries, (distinct, expected)) = (events.len(), sums(events));
    println!("{deliveries} deliveries of {distinct} events; those beside a │ arrive together.\n");
    deliver(events, &pool).await?;

    let balances = "SELECT id, credits FROM accounts";
    let balances = sqlx::query_as(balances).fetch_all(&pool).await?;
    let balances: BTreeMap<String, i64> = balances.into_iter().collect();
    pool.close().await;
    println!("\nBalances");
    for (account, credits) in &balances {
        println!("{:25}{account:<9} {credits:>7}", "");
    }
    ensure!(
        balances == expected,
        "the balances are not the sums over the {distinct} distinct events, {expected:?}"
    );
    println!("\nOK: the balances are the sums over the {distinct} distinct events.");
    Ok(())
}

async fn run() -> anyhow::Result<()> {
    let argument = std::env::args().nth(1);
    let input = match argument.as_deref() {
        None => include_str!("deliveries.jsonl").to_owned(),
        Some("-") => std::io::read_to_string(std::io::stdin()).context("standard input")?,
        Some(path) => std::fs::read_to_string(path).context(path.to_owned())?,
    };
    let events = parse(&input)?;
    let directory = std::env::temp_dir().join(format!("idem-quickstart-{}", std::process::id()));
    std::fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
    let result = bill(&events, &directory.join("quickstart.db")).await;
    std::fs::remove_dir_all(&directory)?;
    result
}

#[tokio::main]
async fn main() -> ExitCode {
    let Err(error) = run().await else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}
