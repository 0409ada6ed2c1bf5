//! A hundred messages in one transaction, with one statement for their effects, and one of them is poison. Needs PostgreSQL:
//!
//! ```text
//! cargo run --example batch --features batch
//! cargo run --release --example batch --features batch -- measure         # 2000 messages, in three ways
//! cargo run --release --example batch --features batch -- measure 5000
//! ```
//!
//! `DATABASE_URL` says where. The tables live in a schema of this run's own, and are gone at the end.

use std::process::ExitCode;
use std::str::FromStr as _;

use anyhow::{Context as _, anyhow, bail, ensure};
use idem::{Outcome, idempotent};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _};

#[path = "batch/measure.rs"]
mod measure;

const BATCH: usize = 100;
const TABLE: &str = "CREATE TABLE ledger
    (event text PRIMARY KEY, account text NOT NULL, amount bigint NOT NULL CHECK (amount > 0))";

#[derive(Clone)]
struct Event {
    id: String,
    account: String,
    amount: i64,
}

/// The body gets the events that are new, and has their effects in one statement. Beware of `UPDATE … FROM unnest(…)` there: it changes a
/// row once, however many of the events are for it. Sum them up first (`GROUP BY account`).
#[idempotent(key = "event.id", consumer = "ledger", each = "event in events")]
async fn book(tx: &mut PgConnection, events: Vec<Event>) -> sqlx::Result<()> {
    let ids: Vec<&str> = events.iter().map(|event| event.id.as_str()).collect();
    let accounts: Vec<&str> = events.iter().map(|event| event.account.as_str()).collect();
    let amounts: Vec<i64> = events.iter().map(|event| event.amount).collect();
    let insert = "INSERT INTO ledger (event, account, amount)
        SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])";
    let insert = sqlx::query(insert).bind(ids).bind(accounts).bind(amounts);
    insert.execute(&mut *tx).await?;
    Ok(())
}

/// Plays the consumer of a broker that hands out a hundred messages at a time.
async fn consume(pool: &PgPool, title: &str, events: &[Event]) {
    println!("\n{title}");
    // If the batch fails, its messages are delivered one by one, so that each has a result of its own.
    let results = idem::batch(events.to_vec(), |events| book(pool, events)).await;
    let (mut processed, mut duplicates, mut again, mut dead) = (0, 0, 0, 0);
    for (event, result) in events.iter().zip(results) {
        match result {
            // Acknowledge these.
            Ok(Outcome::Processed(())) => processed += 1,
            Ok(Outcome::Duplicate | Outcome::Replayed(()) | Outcome::Stale) => duplicates += 1,
            // Give these back to the queue: a deadlock, a lost connection, or not tried after one.
            Err(error) if idem::is_transient(&error) => again += 1,
            // Reject these, which would fail each time, to the dead letters.
            Err(error) => {
                dead += 1;
                println!("   {}: {error}", event.id);
            }
        }
    }
    let acknowledged = processed + duplicates;
    println!("   acknowledge {acknowledged:>3}: {processed} processed, {duplicates} duplicates");
    println!("   redeliver   {again:>3}");
    println!("   dead-letter {dead:>3}");
}

fn events(name: &str, number: usize) -> Vec<Event> {
    let event = |n: i64| Event {
        // Ids that rise, as those of UUIDv7 do, are easy on the index.
        id: format!("{name}-{n:06}"),
        account: format!("account-{}", n % 10),
        amount: n,
    };
    (1..).map(event).take(number).collect()
}

async fn tour(pool: &PgPool) -> anyhow::Result<()> {
    let mut events = events("event", BATCH);
    // The last ten are redeliveries of the first.
    events.truncate(BATCH - 10);
    events.extend_from_within(..10);
    let mut poisoned = events.clone();
    // The table's constraint refuses it.
    poisoned[41].amount = -42;

    let title = "1. A batch with one poison message, which does not hold up the others";
    consume(pool, title, &poisoned).await;
    let title = "2. The same again, as after a crash before the acknowledgements";
    consume(pool, title, &poisoned).await;
    let title = "3. The same again, and the poison message is repaired";
    consume(pool, title, &events).await;

    let booked = "SELECT count(*), sum(amount)::bigint FROM ledger";
    let booked: (i64, i64) = sqlx::query_as(booked).fetch_one(pool).await?;
    ensure!(
        booked == (90, (1..=90).sum()),
        "the ledger holds (number, sum) {booked:?}"
    );
    println!("\nOK: each of the 90 events is in the ledger once.");
    Ok(())
}

async fn run() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let measured = match arguments.as_slice() {
        [] => None,
        ["measure"] => Some(2000),
        ["measure", number] => {
            let parsed = number.parse().ok().filter(|number| *number > 0);
            Some(parsed.with_context(|| format!("`{number}` is no number of messages"))?)
        }
        _ => bail!("usage: batch [measure [NUMBER]]"),
    };

    let url = std::env::var("DATABASE_URL");
    let url = url
        .as_deref()
        .unwrap_or("postgres://postgres@127.0.0.1:5432/postgres");
    let options =
        PgConnectOptions::from_str(url).context("DATABASE_URL is no URL of PostgreSQL")?;
    let server = format!("{}:{}", options.get_host(), options.get_port());
    let mut conn = PgConnection::connect_with(&options)
        .await
        .map_err(|error| anyhow!("no PostgreSQL at {server} ({error}); set DATABASE_URL"))?;

    // Two runs at once do not meet in a schema of their own.
    let schema = format!("idem_batch_{}", std::process::id());
    let create = AssertSqlSafe(format!("CREATE SCHEMA {schema}"));
    sqlx::raw_sql(create).execute(&mut conn).await?;
    let result = in_schema(options.options([("search_path", &schema)]), measured).await;
    let drop = AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"));
    sqlx::raw_sql(drop).execute(&mut conn).await?;
    conn.close().await?;
    result
}

async fn in_schema(options: PgConnectOptions, measured: Option<usize>) -> anyhow::Result<()> {
    let pool = PgPoolOptions::new().max_connections(1);
    let pool = pool.connect_with(options).await?;
    idem::migrate(&pool).await?;
    sqlx::raw_sql(TABLE).execute(&pool).await?;
    let result = match measured {
        None => tour(&pool).await,
        Some(number) => measure::measure(&pool, number).await,
    };
    pool.close().await;
    result
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Err(error) = run().await else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}
