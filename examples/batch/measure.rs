//! What a batch saves: the same messages one by one, in a transaction per batch, and with a statement per batch.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use idem::idempotent;
use sqlx::postgres::{PgConnection, PgPool};

use crate::{BATCH, Event, book, events};

const ROUNDS: usize = 7;

#[derive(Clone, Copy)]
enum Way {
    Single,
    StatementPerEffect,
    StatementPerBatch,
}

const WAYS: [(Way, &str); 3] = [
    (Way::Single, "single deliveries"),
    (Way::StatementPerEffect, "each, a statement per effect"),
    (Way::StatementPerBatch, "each, a statement per batch"),
];

#[idempotent(key = "event.id", consumer = "single")]
async fn book_single(tx: &mut PgConnection, event: &Event) -> sqlx::Result<()> {
    insert(tx, event).await
}

#[idempotent(key = "event.id", consumer = "one-by-one", each = "event in events")]
async fn book_one_by_one(tx: &mut PgConnection, events: Vec<Event>) -> sqlx::Result<()> {
    for event in &events {
        insert(tx, event).await?;
    }
    Ok(())
}

async fn insert(conn: &mut PgConnection, event: &Event) -> sqlx::Result<()> {
    sqlx::query("INSERT INTO ledger (event, account, amount) VALUES ($1, $2, $3)")
        .bind(&event.id)
        .bind(&event.account)
        .bind(event.amount)
        .execute(conn)
        .await?;
    Ok(())
}

async fn deliver(way: Way, pool: &PgPool, batches: Vec<Vec<Event>>) -> sqlx::Result<Duration> {
    let start = Instant::now();
    for batch in batches {
        match way {
            Way::Single => {
                for event in &batch {
                    let _ = book_single(pool, event).await?;
                }
            }
            Way::StatementPerEffect => drop(book_one_by_one(pool, batch).await?),
            Way::StatementPerBatch => drop(book(pool, batch).await?),
        }
    }
    Ok(start.elapsed())
}

/// All ways in each round, in an order that changes, so that whatever slows the machine down for a while meets each of them.
pub(crate) async fn measure(pool: &PgPool, number: usize) -> anyhow::Result<()> {
    let server = "SELECT format('PostgreSQL %s, fsync %s, synchronous_commit %s', current_setting('server_version'),
        current_setting('fsync'), current_setting('synchronous_commit'))";
    let server: String = sqlx::query_scalar(server).fetch_one(pool).await?;
    let build = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    println!(
        "{number} new messages for each way in each round, in batches of {BATCH}, one after another on one pooled connection.\n\
         Median (lowest to highest) of {ROUNDS} rounds after a first one that warms up; ratios are taken within a round.\n\
         Statements are BEGIN, the claims, the effects, and COMMIT with its check; the pool's pings come on top.\n\
         {server}; {build} build.\n"
    );

    let mut statements = [0; WAYS.len()];
    let mut rates = [const { Vec::new() }; WAYS.len()];
    for round in 0..=ROUNDS {
        // Counting costs time, and is done in the first round only.
        let counting = (round == 0).then(|| tracing::subscriber::set_default(CountStatements));
        for turn in 0..WAYS.len() {
            let way = (round + turn) % WAYS.len();
            let messages = events(&format!("{round}-{way}"), number);
            let batches: Vec<_> = messages.chunks(BATCH).map(<[Event]>::to_vec).collect();
            let transactions = match WAYS[way].0 {
                Way::Single => number,
                Way::StatementPerEffect | Way::StatementPerBatch => batches.len(),
            };
            let time = deliver(WAYS[way].0, pool, batches).await?;
            if counting.is_some() {
                // It does not report BEGIN.
                statements[way] = STATEMENTS.swap(0, Ordering::Relaxed) + transactions;
            } else {
                rates[way].push(float(number) / time.as_secs_f64());
            }
        }
    }

    println!(
        "{:30}{:>24}{:>24}{:>24}",
        "", "messages per second", "ratio to single", "statements per message"
    );
    for (way, (_, name)) in WAYS.iter().enumerate() {
        let ratios = rates[way]
            .iter()
            .zip(&rates[0])
            .map(|(rate, single)| rate / single);
        let (rate, ratio) = (spread(rates[way].clone(), 0), spread(ratios.collect(), 2));
        let each = float(statements[way]) / float(number);
        println!("{name:<30}{rate:>24}{ratio:>24}{each:>24.2}");
    }
    let booked = sqlx::query_scalar("SELECT count(*) FROM ledger");
    let booked: i64 = booked.fetch_one(pool).await?;
    let expected = number * WAYS.len() * (ROUNDS + 1);
    ensure!(
        usize::try_from(booked)? == expected,
        "the ledger holds {booked} of {expected} events"
    );
    println!("\nOK: each of the {booked} events is in the ledger once.");
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "nobody measures 2^52 messages")]
fn float(number: usize) -> f64 {
    number as f64
}

/// The median, the lowest and the highest.
fn spread(mut values: Vec<f64>, digits: usize) -> String {
    values.sort_by(f64::total_cmp);
    let [lowest, median, highest] = [0, values.len() / 2, values.len() - 1].map(|at| values[at]);
    format!("{median:.digits$} ({lowest:.digits$} to {highest:.digits$})")
}

/// Counts the statements that sqlx reports to `tracing`.
struct CountStatements;

static STATEMENTS: AtomicUsize = AtomicUsize::new(0);

impl tracing::Subscriber for CountStatements {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "sqlx::query"
    }

    fn event(&self, _: &tracing::Event<'_>) {
        STATEMENTS.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
        tracing::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}
    fn enter(&self, _: &tracing::Id) {}
    fn exit(&self, _: &tracing::Id) {}
}
