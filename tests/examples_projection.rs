//! `examples/projection.rs` as its readers run it. What it prints for each delivery is compared with what has to come of it, which is
//! reckoned here from the order of the deliveries alone.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::LazyLock;

use idem_tests::examples::{build, failed, succeeded, text};

static PROJECTION: LazyLock<PathBuf> = LazyLock::new(|| build(&["projection"]));

/// Account, version, outcome.
type Row = (String, i64, String);

fn projection(arguments: &[&str]) -> Output {
    Command::new(&*PROJECTION).args(arguments).output().unwrap()
}

/// The lines of the table under the title that starts so. They must be numbered from 1.
fn table(stdout: &str, title: &str) -> Vec<Row> {
    let lines = stdout.lines().skip_while(|line| !line.starts_with(title));
    let lines = lines.skip(2).take_while(|line| !line.is_empty());
    let row = |(line, number): (&str, usize)| {
        let mut words = line.split_whitespace();
        assert_eq!(words.next().unwrap(), number.to_string(), "{line}");
        let account = words.next().unwrap().to_owned();
        let version = words.next().unwrap().parse().unwrap();
        (account, version, words.collect::<Vec<_>>().join(" "))
    };
    let rows: Vec<Row> = lines.zip(1..).map(row).collect();
    assert!(!rows.is_empty(), "no table {title} in {stdout}");
    rows
}

/// The balance of a line that says so.
fn balance(outcome: &str) -> Option<i64> {
    outcome
        .strip_prefix("processed, balance ")
        .map(|balance| balance.parse().unwrap())
}

fn balances(stdout: &str) -> BTreeMap<String, i64> {
    let lines = stdout
        .lines()
        .skip_while(|line| *line != "Balances")
        .skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    lines
        .map(|line| {
            let (account, balance) = line.trim().split_once(' ').unwrap();
            (account.to_owned(), balance.trim().parse().unwrap())
        })
        .collect()
}

#[test]
fn projection_applies_the_latest_and_every_change_in_turn() {
    for seed in 0..20 {
        let output = projection(&[&seed.to_string()]);
        let stdout = succeeded(&output);
        let end =
            "\nOK: the balances are the latest, and the statements hold all 15 changes in turn.\n";
        assert!(stdout.ends_with(end), "{stdout}");

        // Newer ones win, whatever lies between.
        let latest = table(stdout, "1. The latest balance");
        let mut applied: BTreeMap<&str, i64> = BTreeMap::new();
        let mut shown = BTreeMap::new();
        for (account, version, outcome) in &latest {
            let applied = applied.entry(account).or_default();
            match (*version).cmp(applied) {
                Ordering::Greater => {
                    *applied = *version;
                    shown.insert(account.clone(), balance(outcome).expect(outcome));
                }
                Ordering::Equal => assert_eq!(outcome, "duplicate"),
                Ordering::Less => assert_eq!(outcome, "stale, a newer one was applied"),
            }
        }
        assert_eq!(balances(stdout), shown, "seed {seed}");

        // Each in its turn; what comes too early comes again, at the end.
        let statement = table(stdout, "2. The statement");
        let mut applied: BTreeMap<&str, i64> = BTreeMap::new();
        let mut order: Vec<_> = latest
            .iter()
            .map(|(account, version, _)| (account, version))
            .collect();
        for (at, (account, version, outcome)) in statement.iter().enumerate() {
            assert_eq!(
                (account, version),
                order[at],
                "seed {seed}, delivery {}",
                at + 1
            );
            let applied = applied.entry(account).or_default();
            if *version == *applied + 1 {
                *applied += 1;
                assert!(balance(outcome).is_some(), "{outcome}");
            } else if *version > *applied {
                let next = *applied + 1;
                let said = format!("out of turn, to be redelivered after version {next}");
                assert_eq!(*outcome, said);
                order.push((account, version));
            } else {
                // Without gaps, an older one was applied itself.
                assert_eq!(outcome, "duplicate");
            }
        }
        assert_eq!(order.len(), statement.len());
        assert!(applied.values().eq([&5; 3]), "{applied:?}");
        let last = statement.iter().filter(|(_, version, _)| *version == 5);
        let totals: BTreeMap<_, _> = last
            .filter_map(|(account, _, outcome)| Some((account.clone(), balance(outcome)?)))
            .collect();
        assert_eq!(totals, shown, "the totals are the producer's balances");
    }
}

#[test]
fn projection_is_the_same_for_the_same_seed() {
    let first = projection(&[]);
    assert_eq!(succeeded(&first), succeeded(&projection(&["1"])));
    assert_ne!(succeeded(&first), succeeded(&projection(&["2"])));
}

#[test]
fn projection_exits_with_1_when_the_balances_are_not_the_latest() {
    let output = projection(&["7", "unversioned"]);
    let error = failed(&output);
    assert!(
        error.starts_with("the balances are not the latest, which are [(\"alice\", "),
        "{error}"
    );
    let stdout = text(&output.stdout);
    assert!(!stdout.contains("OK"), "{stdout}");
    // Each event counts once even so, which shows that this alone is not enough.
    let rows = table(stdout, "The balance without `version`");
    let processed = rows.iter().filter(|(_, _, said)| balance(said).is_some());
    assert_eq!(processed.count(), 15);
}

#[test]
fn projection_says_what_it_does_not_understand() {
    let usage = "usage: projection [SEED [unversioned]]";
    for arguments in [&["1", "2"][..], &["1", "unversioned", "3"]] {
        assert_eq!(failed(&projection(arguments)), usage);
    }
    let output = projection(&["-1"]);
    assert_eq!(
        failed(&output),
        "a seed is a number from 0 up, and `-1` is none"
    );
}
