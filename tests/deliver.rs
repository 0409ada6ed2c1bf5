//! Delivers messages `0..count` in a process of its own, each until it is acknowledged: `deliver URL COUNT [TIME [from-plain]]`, with the
//! messages' time in Unix seconds. Prints how many it processed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test's process that cannot go on fails"
)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idem::{Delivery, Outcome};
use sqlx::{MySqlConnection, PgConnection, Pool, SqliteConnection};

struct Arguments<'a> {
    url: &'a str,
    count: u32,
    time: Option<SystemTime>,
    is_from_plain: bool,
}

impl Arguments<'_> {
    fn delivery(&self, message: &str) -> Delivery<'static> {
        let mut delivery = Delivery::of("billing", message);
        if let Some(time) = self.time {
            delivery = delivery.time(time);
        }
        if self.is_from_plain {
            delivery = delivery.from_plain();
        }
        delivery
    }
}

/// The loop is the same on each database; only the types and the placeholder differ.
macro_rules! deliver_all {
    ($connection:ty, $placeholder:literal, $arguments:expr) => {{
        let pool = Pool::<<$connection as sqlx::Connection>::Database>::connect($arguments.url)
            .await
            .expect("a database");
        let mut processed = 0;
        for number in 0..$arguments.count {
            let message = format!("message {number}");
            let outcome = loop {
                let outcome: Result<_, sqlx::Error> = $arguments
                    .delivery(&message)
                    .once(&pool, async |tx: &mut $connection| {
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
    let given: Vec<String> = std::env::args().collect();
    let time = |seconds: &String| {
        let seconds = seconds.parse().expect("a number");
        UNIX_EPOCH + Duration::from_secs(seconds)
    };
    let arguments = Arguments {
        url: &given[1],
        count: given[2].parse().expect("a number"),
        time: given.get(3).map(time),
        is_from_plain: given.get(4).is_some_and(|word| word == "from-plain"),
    };
    match arguments.url.split(':').next() {
        Some("postgres") => deliver_all!(PgConnection, "$1", arguments),
        Some("mysql") => deliver_all!(MySqlConnection, "?", arguments),
        _ => deliver_all!(SqliteConnection, "?", arguments),
    }
}
