//! Two read models of accounts, built from events that arrive shuffled and repeated. No server, no set-up:
//!
//! ```text
//! cargo run --example projection
//! cargo run --example projection -- 7                # shuffled in another way
//! cargo run --example projection -- 7 unversioned    # what goes wrong without `version`, and ends with exit code 1
//! ```
//!
//! When to choose which:
//!
//! - `key` alone, where the order does not matter: each event counts once, when it arrives. To add credits, to send a receipt.
//! - `version`, where an event carries the *state* after a change: one that is older than what was applied is of no more use, and nothing
//!   ever waits. For the latest state: a search index, a cache, a balance to show.
//! - `version` and `gapless`, where an event carries the *change*, and none may be left out or overtaken: one that came too early is
//!   redelivered until it is its turn. For running totals, audit trails, state machines. The price: an event that never comes holds up
//!   all later ones of its key (and of no other), so watch for messages that are redelivered again and again.

use std::collections::VecDeque;
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use idem::{Outcome, idempotent};
use sqlx::sqlite::{SqliteConnection, SqlitePool, SqlitePoolOptions};

/// The state after the change, and the change. The producer counts the changes of each account from 1.
#[derive(Clone)]
struct Event {
    account: String,
    version: i64,
    amount: i64,
    balance: i64,
}

#[derive(Debug, thiserror::Error)]
enum ProjectionError {
    #[error("the delivery failed")]
    Delivery(#[from] idem::Error),
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
}

/// The latest balance. The key names what the versions count, which is the account and not the event.
#[idempotent(
    key = "event.account",
    consumer = "balances",
    version = "event.version"
)]
async fn show_balance(tx: &mut SqliteConnection, event: &Event) -> Result<i64, ProjectionError> {
    Ok(set_balance(tx, event).await?)
}

/// The statement, whose every line has the total up to there. It takes the amounts only, to show that none is missing.
#[idempotent(
    key = "event.account",
    consumer = "statements",
    version = "event.version",
    gapless
)]
async fn add_line(tx: &mut SqliteConnection, event: &Event) -> Result<i64, ProjectionError> {
    let total = sqlx::query_scalar(
        "INSERT INTO statements (account, version, amount, balance) VALUES ($1, $2, $3, $3 + coalesce(
           (SELECT balance FROM statements WHERE account = $1 ORDER BY version DESC LIMIT 1), 0)) RETURNING balance",
    )
    .bind(&event.account)
    .bind(event.version)
    .bind(event.amount)
    .fetch_one(&mut *tx)
    .await?;
    Ok(total)
}

/// The mistake: each event counts once, and the last one to arrive wins.
#[idempotent(
    key = "(&event.account, event.version)",
    consumer = "balances-unversioned"
)]
async fn overwrite(tx: &mut SqliteConnection, event: &Event) -> Result<i64, ProjectionError> {
    Ok(set_balance(tx, event).await?)
}

async fn set_balance(conn: &mut SqliteConnection, event: &Event) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "INSERT INTO balances (account, balance) VALUES ($1, $2)
         ON CONFLICT (account) DO UPDATE SET balance = excluded.balance RETURNING balance",
    )
    .bind(&event.account)
    .bind(event.balance)
    .fetch_one(conn)
    .await
}

/// Plays the broker: delivers to one consumer until every delivery is acknowledged.
async fn deliver(
    deliveries: &[Event],
    handler: impl AsyncFn(&Event) -> Result<Outcome<i64>, ProjectionError>,
) -> anyhow::Result<()> {
    println!("  no  account  version   outcome");
    let mut queue: VecDeque<&Event> = deliveries.iter().collect();
    // In each round at least one event has its turn. A broker bounds the redeliveries too.
    let limit = deliveries.len().pow(2);
    let mut number = 0;
    while let Some(event) = queue.pop_front() {
        let said = match handler(event).await {
            // Ok: acknowledge.
            Ok(Outcome::Processed(balance)) => format!("processed, balance {balance}"),
            Ok(Outcome::Stale) => "stale, a newer one was applied".to_owned(),
            Ok(Outcome::Duplicate | Outcome::Replayed(_)) => "duplicate".to_owned(),
            // Err: do not. What may pass is redelivered, after a pause if the broker can make one; the rest is for the dead letters.
            Err(error) if idem::is_transient(&error) => {
                queue.push_back(event);
                match error {
                    ProjectionError::Delivery(idem::Error::OutOfTurn { applied, .. }) => {
                        let next = applied.unwrap_or(0) + 1;
                        format!("out of turn, to be redelivered after version {next}")
                    }
                    error => format!("to be redelivered: {error}"),
                }
            }
            Err(error) => return Err(error).context("a dead letter"),
        };
        number += 1;
        let Event {
            account, version, ..
        } = event;
        println!("{number:>4}  {account:<7}  {version:>7}   {said}");
        ensure!(
            number < limit,
            "{} events wait for one that never comes",
            queue.len()
        );
    }
    Ok(())
}

/// What happened, in the order in which it happened.
fn history(random: &mut Random) -> Vec<Event> {
    let mut events = Vec::new();
    for account in ["alice", "bob", "carol"] {
        let mut balance = 0;
        for version in 1..=5 {
            let amount = random.below(150) - 50;
            balance += amount;
            events.push(Event {
                account: account.to_owned(),
                version,
                amount,
                balance,
            });
        }
    }
    events
}

/// What the broker makes of it: up to three deliveries of each event, in any order.
fn deliveries(history: &[Event], random: &mut Random) -> Vec<Event> {
    let mut deliveries = Vec::new();
    for event in history {
        for _ in 0..=random.below(3) {
            deliveries.push(event.clone());
        }
    }
    deliveries.sort_by_cached_key(|_| random.below(i64::MAX));
    deliveries
}

/// `SplitMix64`: the same numbers in each run with the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).cast_signed().rem_euclid(bound)
    }
}

async fn project(seed: u64, unversioned: bool) -> anyhow::Result<()> {
    // Every connection to `sqlite::memory:` has a database of its own, so that there must be one only.
    let pool = SqlitePoolOptions::new().max_connections(1);
    let pool = pool.connect("sqlite::memory:").await?;
    idem::migrate(&pool).await?;
    let tables = "CREATE TABLE balances (account TEXT PRIMARY KEY, balance INTEGER NOT NULL);
        CREATE TABLE statements (account TEXT, version INTEGER, amount INTEGER NOT NULL, balance INTEGER NOT NULL,
                                 PRIMARY KEY (account, version))";
    sqlx::raw_sql(tables).execute(&pool).await?;

    let random = &mut Random(seed);
    let history = history(random);
    let deliveries = deliveries(&history, random);
    let (events, arrived) = (history.len(), deliveries.len());
    println!("{events} events of 3 accounts in {arrived} deliveries, shuffled by seed {seed}.");

    if unversioned {
        println!("\nThe balance without `version`: the last to arrive wins");
        deliver(&deliveries, async |event| overwrite(&pool, event).await).await?;
        return check_balances(&pool, &history).await;
    }
    println!("\n1. The latest balance, by `version`: what is older comes too late");
    deliver(&deliveries, async |event| show_balance(&pool, event).await).await?;
    println!("\n2. The statement, by `version` and `gapless`: every change, in turn");
    deliver(&deliveries, async |event| add_line(&pool, event).await).await?;

    check_balances(&pool, &history).await?;
    let lines =
        "SELECT account, version, amount, balance FROM statements ORDER BY account, version";
    let lines: Vec<(String, i64, i64, i64)> = sqlx::query_as(lines).fetch_all(&pool).await?;
    let happened = history.into_iter();
    let happened =
        happened.map(|event| (event.account, event.version, event.amount, event.balance));
    ensure!(happened.eq(lines), "the statements are not what happened");
    println!(
        "\nOK: the balances are the latest, and the statements hold all {events} changes in turn."
    );
    Ok(())
}

/// Prints the balances beside what happened.
async fn check_balances(pool: &SqlitePool, history: &[Event]) -> anyhow::Result<()> {
    println!("\nBalances");
    let balances = "SELECT account, balance FROM balances ORDER BY account";
    let balances: Vec<(String, i64)> = sqlx::query_as(balances).fetch_all(pool).await?;
    for (account, balance) in &balances {
        println!("      {account:<7}  {balance:>7}");
    }
    let latest = history.chunk_by(|event, next| event.account == next.account);
    let latest = latest.filter_map(|events| events.last());
    let latest: Vec<_> = latest
        .map(|event| (event.account.clone(), event.balance))
        .collect();
    ensure!(
        balances == latest,
        "the balances are not the latest, which are {latest:?}"
    );
    Ok(())
}

async fn run() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (seed, unversioned) = match arguments.as_slice() {
        [] => ("1", false),
        [seed] => (seed.as_str(), false),
        [seed, mode] if mode == "unversioned" => (seed.as_str(), true),
        _ => bail!("usage: projection [SEED [unversioned]]"),
    };
    let seed = seed.parse().ok();
    let seed = seed.with_context(|| {
        format!(
            "a seed is a number from 0 up, and `{}` is none",
            arguments[0]
        )
    })?;
    project(seed, unversioned).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Err(error) = run().await else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}
