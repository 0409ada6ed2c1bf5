//! How long claims are kept, and how the old ones go. The tour needs no server:
//!
//! ```text
//! cargo run --example retention --features retention
//! ```
//!
//! What it costs on PostgreSQL, while consumers are at work, and next to one big DELETE. `DATABASE_URL` says where; the tables live in a
//! schema of this run's own, and are gone at the end. Ten million claims take five gigabytes and some minutes:
//!
//! ```text
//! cargo run --release --example retention --features retention -- measure                    # 1M of 10M claims
//! cargo run --release --example retention --features retention -- measure 1000000 100000
//! ```
//!
//! With a `DATABASE_URL` of MySQL or MariaDB, the same there, in a database of this run's own.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use idem::{Archive, Pruner, Windows, idempotent};
use sqlx::sqlite::{SqliteConnection, SqlitePool, SqlitePoolOptions};

#[path = "retention/fill.rs"]
mod fill;
#[path = "retention/index.rs"]
mod index;
#[path = "retention/load.rs"]
mod load;
#[path = "retention/measure.rs"]
mod measure;
#[path = "retention/mysql.rs"]
mod mysql;
#[path = "retention/report.rs"]
mod report;

const DAY: Duration = Duration::from_hours(24);

struct Message {
    id: String,
}

/// The broker redelivers for four days at most. A `retain` that does not exceed that would not compile.
#[idempotent(
    key = "message.id",
    consumer = "billing",
    retain = "7d",
    redelivery = "4d"
)]
async fn bill(tx: &mut SqliteConnection, message: &Message) -> sqlx::Result<()> {
    let write = "INSERT INTO effects VALUES ('billed', $1)";
    sqlx::query(write).bind(&message.id).execute(tx).await?;
    Ok(())
}

/// Its topic is read again from the beginning now and then.
#[idempotent(key = "message.id", consumer = "ledger", retain = "forever")]
async fn book(tx: &mut SqliteConnection, message: &Message) -> sqlx::Result<()> {
    let write = "INSERT INTO effects VALUES ('booked', $1)";
    sqlx::query(write).bind(&message.id).execute(tx).await?;
    Ok(())
}

/// Says nothing, so that its claims are not pruned, and the pruner tells.
#[idempotent(key = "message.id", consumer = "mail")]
async fn greet(tx: &mut SqliteConnection, message: &Message) -> sqlx::Result<()> {
    let write = "INSERT INTO effects VALUES ('greeted', $1)";
    sqlx::query(write).bind(&message.id).execute(tx).await?;
    Ok(())
}

/// A message of so many days ago, by the name that it has in this tour.
fn message(days: u32) -> Message {
    Message {
        id: format!("message-of-{days}-days-ago"),
    }
}

async fn tour(pool: &SqlitePool, file: &Path) -> anyhow::Result<()> {
    println!("1. What the handlers say");
    let mut handlers: Vec<_> = idem::handlers()
        .filter(|handler| handler.file.ends_with("retention.rs"))
        .collect();
    handlers.sort_by_key(|handler| handler.line);
    for handler in handlers {
        let kept = handler
            .retain
            .map_or("nothing about windows".to_owned(), |window| {
                format!("kept: {window}")
            });
        println!("   {:<8} fn {:<5} {kept}", handler.consumer, handler.name);
    }

    println!("\n2. Messages of 0, 6 and 8 days ago are processed by each");
    for days in [0, 6, 8] {
        let _ = bill(pool, &message(days)).await?;
        let _ = book(pool, &message(days)).await?;
        let _ = greet(pool, &message(days)).await?;
        // The database's clock writes the time of a claim. Here it is set back by hand.
        let age = "UPDATE processed_messages SET processed_at = strftime('%Y-%m-%d %H:%M:%f', processed_at, $1) WHERE message_id = $2";
        let age = sqlx::query(age).bind(format!("-{days} days"));
        age.bind(message(days).id).execute(pool).await?;
    }
    println!("   claims: {}", claims(pool).await?);

    println!("\n3. A window that leaves a hole");
    let short = Windows::of_handlers().window("billing", 2 * DAY);
    let error = short.check().err().context("it is too short")?;
    println!("   refused: {error}");

    println!("\n4. One run of the pruner");
    let pruner = Pruner::new(pool).archive(Archive::json_lines(file));
    for due in pruner.preview().await? {
        println!("   due: {} of {}", due.claims, due.consumer);
    }
    let done = pruner.run_once().await?;
    println!(
        "   removed {}, archived {}, in {} transaction",
        done.claims, done.archived, done.chunks
    );
    println!("   kept for want of a window: {:?}", done.without_window);
    for line in std::fs::read_to_string(file)?.lines() {
        println!("   archive: {line}");
    }

    println!("\n5. What is redelivered now");
    for days in [6, 8] {
        let outcome = bill(pool, &message(days)).await?;
        println!("   billing, {days} days old: {outcome:?}");
        let outcome = book(pool, &message(days)).await?;
        println!("   ledger,  {days} days old: {outcome:?}");
    }

    let effects = "SELECT count(*) FROM effects WHERE message = $1 AND effect = 'billed'";
    for (days, expected) in [(6, 1), (8, 2)] {
        let effects = sqlx::query_scalar(effects).bind(message(days).id);
        let effects: i64 = effects.fetch_one(pool).await?;
        ensure!(
            effects == expected,
            "{} was billed {effects} times",
            message(days).id
        );
    }
    println!(
        "\nOK: within the window once; past it a second time, which is why a window exceeds what the broker redelivers."
    );
    Ok(())
}

async fn claims(pool: &SqlitePool) -> sqlx::Result<i64> {
    let claims = sqlx::query_scalar("SELECT count(*) FROM processed_messages");
    claims.fetch_one(pool).await
}

async fn run() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [rows, due] = match arguments.as_slice() {
        [] => {
            let pool = SqlitePoolOptions::new().max_connections(1);
            let pool = pool.connect("sqlite::memory:").await?;
            idem::migrate(&pool).await?;
            let table = "CREATE TABLE effects (effect, message)";
            sqlx::raw_sql(table).execute(&pool).await?;
            let file = archive_file();
            let result = tour(&pool, &file).await;
            std::fs::remove_file(&file).ok();
            return result;
        }
        ["measure"] => [10_000_000, 1_000_000],
        ["measure", rows, due] => {
            let number = |text: &str| {
                let number = text.parse().ok().filter(|number: &i64| *number > 0);
                number.with_context(|| format!("`{text}` is no number of claims"))
            };
            [number(rows)?, number(due)?]
        }
        _ => bail!("usage: retention [measure [CLAIMS PAST_THEIR_WINDOW]]"),
    };
    ensure!(
        2 * due <= rows,
        "{due} of {rows} claims past their window are more than half of them"
    );
    measure::measure(rows, due).await
}

fn archive_file() -> PathBuf {
    let name = format!("idem-retention-{}.jsonl", std::process::id());
    std::env::temp_dir().join(name)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Err(error) = run().await else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}
