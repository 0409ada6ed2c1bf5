//! `examples/retention.rs` as its readers run it. Its timings are printed and never judged.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use idem_tests::Fixture;
use idem_tests::examples::{build, failed, succeeded};
use sqlx::{MySql, Postgres};

static RETENTION: LazyLock<PathBuf> =
    LazyLock::new(|| build(&["retention", "--features", "retention"]));

fn run(database: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(&*RETENTION);
    command.env("DATABASE_URL", database).args(arguments);
    command.output().unwrap()
}

#[test]
fn retention_prunes_what_is_past_its_window_and_shows_the_hole_of_a_short_one() {
    let output = run("postgres://nobody@127.0.0.1:1/nowhere", &[]);
    let stdout = succeeded(&output);
    // The time of the claim is the only thing that differs from run to run.
    let (before, rest) = stdout.split_once("\"processed_at\":\"").unwrap();
    let (time, after) = rest.split_once('"').unwrap();
    assert!(time.len() == 24 && time.ends_with('Z'), "{time}");
    let expected = r#"1. What the handlers say
   billing  fn bill  kept: 7d
   ledger   fn book  kept: forever
   mail     fn greet nothing about windows

2. Messages of 0, 6 and 8 days ago are processed by each
   claims: 9

3. A window that leaves a hole
   refused: the claims of the consumer `billing` would be kept for 2d, and the broker may redeliver for 4d: a message redelivered after its claim is gone runs a second time; keep them for longer than 4d

4. One run of the pruner
   due: 1 of billing
   removed 1, archived 1, in 1 transaction
   kept for want of a window: ["mail"]
   archive: {"consumer":"billing","message_id":"message-of-8-days-ago",TIME}

5. What is redelivered now
   billing, 6 days old: Duplicate
   ledger,  6 days old: Duplicate
   billing, 8 days old: Processed(())
   ledger,  8 days old: Duplicate

OK: within the window once; past it a second time, which is why a window exceeds what the broker redelivers.
"#;
    assert_eq!(format!("{before}TIME{after}"), expected);
}

#[tokio::test]
async fn retention_measures_and_counts_what_is_gone_and_what_is_there() {
    let fixture = Fixture::<Postgres>::new().await;
    let mut command = Command::new(&*RETENTION);
    let command = command
        .env("DATABASE_URL", &fixture.url)
        .args(["measure", "20000", "2000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let process = command.spawn().unwrap();
    let schema = format!("idem_bench_retention_{}", process.id());
    let output = process.wait_with_output().unwrap();
    let stdout = succeeded(&output);
    println!("{stdout}");
    assert!(stdout.contains(" fsync ") && stdout.contains("; debug build."));

    // Its sections, in their order: what was removed in each, and what the checks said.
    let mut lines = stdout.lines();
    let mut find = |start: &str| {
        let line = lines.find(|line| line.trim_start().starts_with(start));
        line.unwrap_or_else(|| panic!("{start}"))
    };
    for (title, remover, how) in [
        ("The plain table, by the pruner", "the pruner", "chunks: 1;"),
        ("The plain table, by one DELETE", "DELETE", ""),
        (
            "The table by days, by the pruner",
            "the pruner",
            "days dropped: 1;",
        ),
    ] {
        find(title);
        let nothing = find("nothing");
        assert_eq!(nothing.matches("(1.00)").count(), 2, "{nothing}");
        find(remover);
        if !how.is_empty() {
            find(how);
        }
        let checked = find("OK: 2000 are gone, 18000 are there, and each of ");
        assert!(checked.ends_with(" made meanwhile."), "{checked}");
    }
    find("Indexes on processed_at: ");
    for index in ["no index", "BRIN", "B-tree"] {
        find(index);
    }
    find("OK: each of them is there.");

    let pool = fixture.pool(1).await;
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_namespace WHERE nspname = $1")
        .bind(schema)
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(left, 0, "the schema is left behind");
    pool.close().await;
}

#[tokio::test]
async fn retention_measures_mysql_too() {
    let fixture = Fixture::<MySql>::new().await;
    let output = run(&fixture.url, &["measure", "20000", "2000"]);
    let stdout = succeeded(&output);
    println!("{stdout}");
    let checks = stdout.lines().filter(|line| {
        line.starts_with("   OK: 2000 are gone, 18000 are there, and each of ")
            && line.ends_with(" made meanwhile.")
    });
    assert_eq!(checks.count(), 2);
    assert!(stdout.contains("   the index that idem::migrate makes "));
}

#[test]
fn retention_says_what_it_does_not_understand_and_that_no_server_answers() {
    let nowhere = "postgres://postgres:secret@127.0.0.1:1/postgres";
    for arguments in [
        &["measures"][..],
        &["measure", "1"],
        &["measure", "1", "2", "3"],
    ] {
        let output = run(nowhere, arguments);
        let usage = "usage: retention [measure [CLAIMS PAST_THEIR_WINDOW]]";
        assert_eq!(failed(&output), usage);
    }
    for number in ["0", "-1", "many"] {
        let output = run(nowhere, &["measure", number, "1"]);
        let message = format!("`{number}` is no number of claims");
        assert_eq!(failed(&output), message);
    }
    let output = run(nowhere, &["measure", "100", "51"]);
    let message = "51 of 100 claims past their window are more than half of them";
    assert_eq!(failed(&output), message);
    let output = run(nowhere, &["measure"]);
    let error = failed(&output);
    assert!(
        error.starts_with("no PostgreSQL at 127.0.0.1:1 (")
            && error.ends_with("); set DATABASE_URL"),
        "{error}"
    );
    assert!(!error.contains("secret"), "{error}");
    let output = run("not a URL", &["measure"]);
    assert!(failed(&output).starts_with("DATABASE_URL is no URL of PostgreSQL: "));
    let output = run("mysql://root:secret@127.0.0.1:1/", &["measure"]);
    let error = failed(&output);
    assert!(
        error.starts_with("no MySQL at 127.0.0.1:1 (") && !error.contains("secret"),
        "{error}"
    );
}
