//! `examples/batch.rs` as its readers run it. Its timings are printed and never judged; its counts are compared with the wire.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use idem_tests::examples::{build, failed, succeeded};
use idem_tests::{Fixture, Proxy, Wire};
use sqlx::Postgres;

static BATCH: LazyLock<PathBuf> = LazyLock::new(|| build(&["batch", "--features", "batch"]));

fn command(database: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(&*BATCH);
    command.env("DATABASE_URL", database).args(arguments);
    command
}

#[tokio::test]
async fn batch_settles_each_message_though_one_is_poison() {
    let fixture = Fixture::<Postgres>::new().await;
    let start = || {
        let mut command = command(&fixture.url, &[]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let pool = fixture.pool(1).await;
    for process in [start(), start()] {
        let schema = format!("idem_batch_{}", process.id());
        let output = process.wait_with_output().unwrap();
        let stdout = succeeded(&output);
        // The server's file and line are its own.
        let (poison, settled): (Vec<_>, Vec<_>) = stdout
            .lines()
            .partition(|line| line.starts_with("   event-"));
        let refused = "   event-000042: error returned from database: new row for relation \"ledger\" \
                       violates check constraint \"ledger_amount_check\"";
        assert_eq!(poison.len(), 2);
        assert!(
            poison.iter().all(|line| line.starts_with(refused)),
            "{poison:?}"
        );
        assert_eq!(
            settled.join("\n"),
            "
1. A batch with one poison message, which does not hold up the others
   acknowledge  99: 89 processed, 10 duplicates
   redeliver     0
   dead-letter   1

2. The same again, as after a crash before the acknowledgements
   acknowledge  99: 0 processed, 99 duplicates
   redeliver     0
   dead-letter   1

3. The same again, and the poison message is repaired
   acknowledge 100: 1 processed, 99 duplicates
   redeliver     0
   dead-letter   0

OK: each of the 90 events is in the ledger once."
        );
        let left: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_namespace WHERE nspname = $1")
            .bind(schema)
            .fetch_one(&pool)
            .await
            .unwrap();
        assert_eq!(left, 0, "the schema is left behind");
    }
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_measures_three_ways_and_counts_what_is_on_the_wire() {
    let fixture = Fixture::<Postgres>::new().await;
    let proxy = Proxy::start(Wire::Postgres, &fixture.url, Duration::ZERO).await;
    let url = proxy.url(&fixture.url);
    // Per message: BEGIN, claim, effect, COMMIT; or three of these once per batch, and then all four.
    let cases = [
        ("10", ["4.00", "1.30", "0.40"]),
        ("20", ["4.00", "1.15", "0.20"]),
        // Two batches, of which one is not full.
        ("150", ["4.00", "1.04", "0.05"]),
    ];
    let mut round_trips = Vec::new();
    for (number, expected) in cases {
        let output = command(&url, &["measure", number]).output().unwrap();
        round_trips.push(proxy.take().0);
        let stdout = succeeded(&output);
        println!("{stdout}");
        let events = number.parse::<usize>().unwrap() * 3 * 8;
        let end = format!("\nOK: each of the {events} events is in the ledger once.\n");
        assert!(stdout.ends_with(&end));
        assert!(stdout.contains(" fsync ") && stdout.contains("; debug build."));
        let names = [
            "single deliveries",
            "each, a statement per effect",
            "each, a statement per batch",
        ];
        for (name, expected) in names.into_iter().zip(expected) {
            assert_eq!(statements(stdout, name), expected, "{name}");
        }
    }
    // What ten messages more cost in each of eight rounds: ten single deliveries, with the pool's pings before and after, and with the
    // ROLLBACK of the empty transaction that COMMIT AND CHAIN has begun; and ten effects in the first of the batches.
    assert_eq!(round_trips[1] - round_trips[0], 8 * (10 * (4 + 3) + 10));
}

/// The last word of a line of the table. Before it stand two of "median (lowest to highest)".
fn statements<'o>(stdout: &'o str, name: &str) -> &'o str {
    let line = stdout.lines().find(|line| line.starts_with(name)).unwrap();
    let words: Vec<_> = line[name.len()..].split_whitespace().collect();
    assert_eq!(words.len(), 9, "{line}");
    words[8]
}

#[test]
fn batch_says_what_it_does_not_understand_and_that_no_server_answers() {
    let nowhere = "postgres://postgres:secret@127.0.0.1:1/postgres";
    let run =
        |url: &str, arguments: &[&str]| -> Output { command(url, arguments).output().unwrap() };
    for arguments in [&["measures"][..], &["measure", "1", "2"]] {
        let output = run(nowhere, arguments);
        assert_eq!(failed(&output), "usage: batch [measure [NUMBER]]");
    }
    for number in ["0", "-1", "many"] {
        let output = run(nowhere, &["measure", number]);
        let message = format!("`{number}` is no number of messages");
        assert_eq!(failed(&output), message);
    }
    let output = run(nowhere, &[]);
    let error = failed(&output);
    assert!(
        error.starts_with("no PostgreSQL at 127.0.0.1:1 (")
            && error.ends_with("); set DATABASE_URL"),
        "{error}"
    );
    assert!(!error.contains("secret"), "{error}");
    let output = run("not a URL", &["measure"]);
    assert!(failed(&output).starts_with("DATABASE_URL is no URL of PostgreSQL: "));
}
