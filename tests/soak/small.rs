//! A short soak of each database and broker, with fixed seeds: the machine that the large soak runs, in three minutes. And soaks that have to
//! fail.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// Each has the machine to itself.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// `IDEM_SOAK_ARGS` holds further arguments, such as `--without-full-disk` where no tmpfs can be mounted.
fn soak(arguments: &str) -> Output {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let more = std::env::var("IDEM_SOAK_ARGS").unwrap_or_default();
    let output = Command::new(env!("CARGO_BIN_EXE_idem-soak"))
        .args(arguments.split_whitespace().chain(more.split_whitespace()))
        .output()
        .unwrap();
    println!("idem-soak {arguments} {more}\n{}", text(&output.stdout));
    println!("{}", text(&output.stderr));
    output
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn is_good(arguments: &str) {
    assert!(soak(arguments).status.success(), "see the report above");
}

#[test]
fn postgres_and_rabbitmq() {
    is_good("--database postgres --broker rabbitmq --seconds 40 --every 40 --seed 101");
}

#[test]
fn postgres_and_nats() {
    is_good("--database postgres --broker nats --seconds 20 --every 25 --seed 102");
}

#[test]
fn mariadb_and_rabbitmq() {
    is_good("--database mysql --broker rabbitmq --seconds 25 --every 25 --seed 103");
}

#[test]
fn sqlite_and_rabbitmq() {
    is_good("--database sqlite --broker rabbitmq --seconds 12 --every 20 --seed 104");
}

/// Nobody takes the messages: they are lost, the queue is not empty in the end, and the report says so.
#[test]
fn without_consumers_it_fails() {
    let arguments = "--database sqlite --broker rabbitmq --consumers 0 --seconds 1 --patience 3 --messages 200 --seed 105";
    let output = soak(arguments);
    assert_eq!(output.status.code(), Some(1));
    let report = text(&output.stdout);
    assert!(
        report.contains("after 3 seconds the queue has Some(Depth { ready: "),
        "{report}"
    );
    assert!(report.contains("- message "), "{report}");
    assert!(report.contains("was not applied"), "{report}");
    assert!(
        report.contains("`cargo run -p idem-soak -- --database sqlite"),
        "{report}"
    );
}
