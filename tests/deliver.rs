//! Delivers messages `0..count` in a process of its own, each until it is acknowledged: `deliver URL COUNT`. Prints how many it processed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test's process that cannot go on fails"
)]

use idem::Outcome;
use sqlx::{MySqlConnection, PgConnection, Pool, SqliteConnection};

/// The loop is the same on each database; only the types and the placeholder differ.
macro_rules! deliver_all {
    ($connection:ty, $placeholder:literal, $url:expr, $count:expr) => {{
        let pool = Pool::<<$connection as sqlx::Connection>::Database>::connect($url)
            .await
            .expect("a database");
        let mut processed = 0;
        for number in 0..$count {
            let message = format!("message {number}");
            let outcome = loop {
                let outcome: Result<_, sqlx::Error> =
                    idem::once(&pool, "billing", &message, async |tx: &mut $connection| {
                        sqlx::query(concat!(
                            "INSERT INTO effects (message) VALUES (",
                            $placeholder,
                            ")"
                        ))
                        .bind(&message)
                        .execute(tx)
                        .await
                    })
                    .await;
                match outcome {
                    Ok(outcome) => break outcome,
                    Err(error) => assert!(idem::is_transient(&error), "{error:?}"),
                }
            };
            processed += i32::from(matches!(outcome, Outcome::Processed(_)));
        }
        println!("{processed}");
    }};
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let url = arguments[1].as_str();
    let count: u32 = arguments[2].parse().expect("a number");
    match url.split(':').next() {
        Some("postgres") => deliver_all!(PgConnection, "$1", url, count),
        Some("mysql") => deliver_all!(MySqlConnection, "?", url, count),
        _ => deliver_all!(SqliteConnection, "?", url, count),
    }
}
