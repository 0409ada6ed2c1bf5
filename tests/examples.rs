//! `quickstart`, `existing_code` and `by_hand` as their readers run them: what they print, and how they end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use idem_tests::Fixture;
use idem_tests::examples::{build, failed, succeeded, text};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Column as _, Executor as _, Postgres, SqlSafeStr as _, Statement as _};
use tempfile::TempDir;

const SHIPPED: &str = include_str!("../examples/deliveries.jsonl");

static QUICKSTART: LazyLock<PathBuf> = LazyLock::new(|| build(&["quickstart"]));
static EXISTING_CODE: LazyLock<PathBuf> =
    LazyLock::new(|| build(&["existing_code", "--features", "existing_code"]));

static BY_HAND: LazyLock<PathBuf> = LazyLock::new(|| build(&["by_hand", "--features", "by_hand"]));

/// Runs the quickstart in a directory of its own, which has to be as it was afterwards.
fn quickstart(argument: Option<&str>, stdin: &str) -> Output {
    let directory = TempDir::new().unwrap();
    let mut process = Command::new(&*QUICKSTART)
        .args(argument)
        .current_dir(directory.path())
        .env("TMPDIR", directory.path())
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A process that does not read its input closes it.
    process
        .stdin
        .take()
        .unwrap()
        .write_all(stdin.as_bytes())
        .ok();
    let output = process.wait_with_output().unwrap();
    let left: Vec<_> = directory.path().read_dir().unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    output
}

/// One line of the quickstart's table.
#[derive(Debug)]
struct Row {
    together: bool,
    event: (String, String),
    outcome: String,
}

/// The table, whose lines must be numbered from 1.
fn table(stdout: &str) -> Vec<Row> {
    let lines = stdout
        .lines()
        .skip_while(|line| !line.starts_with(" no "))
        .skip(1);
    let mut rows = Vec::new();
    for (line, number) in lines.take_while(|line| !line.is_empty()).zip(1..) {
        let mut words = line.split_whitespace().peekable();
        assert_eq!(words.next().unwrap(), format!("{number}"), "{line}");
        let together = words.next_if_eq(&"│").is_some();
        let [source, id] = [(); 2].map(|()| words.next().unwrap().to_owned());
        let outcome = words.skip(2).collect::<Vec<_>>().join(" ");
        rows.push(Row {
            together,
            event: (source, id),
            outcome,
        });
    }
    rows
}

fn balances(stdout: &str) -> BTreeMap<String, i64> {
    let lines = stdout
        .lines()
        .skip_while(|line| *line != "Balances")
        .skip(1);
    lines
        .take_while(|line| !line.is_empty())
        .map(|line| {
            let (account, credits) = line.trim().split_once(' ').unwrap();
            (account.to_owned(), credits.trim().parse().unwrap())
        })
        .collect()
}

#[test]
fn quickstart_processes_the_shipped_deliveries_once() {
    let output = quickstart(None, "");
    let stdout = succeeded(&output);
    // Of the three that arrive together, any one may be the first.
    let (together, rest): (Vec<_>, Vec<_>) = stdout.lines().partition(|line| line.contains(" │  "));
    assert_eq!(
        rest.join("\n"),
        "\
12 deliveries of 7 events; those beside a │ arrive together.

 no    source     id      account    amount   outcome
  1    /shop/eu   1001    alice         100   processed, balance 100
  2    /shop/eu   1002    bob            40   processed, balance 40
  3    /shop/eu   1001    alice         100   duplicate
  4    /shop/us   1001    carol          25   processed, balance 25
  5    /shop/eu   1003    bob            60   failed and rolled back: no answer from the mail server
  9    /shop/eu   1004    carol           5   processed, balance 30
 10    /shop/us   1001    carol          25   duplicate
 11    /shop/eu   1001    alice         100   duplicate
 12    /shop/eu   1005    alice          30   processed, balance 180
 13    /shop/eu   1003    bob            60   processed, balance 100

Balances
                         alice         180
                         bob           100
                         carol          30

OK: the balances are the sums over the 7 distinct events."
    );
    let mut together: Vec<_> = together
        .iter()
        .map(|line| line.split_once(" │  ").unwrap().1)
        .collect();
    together.sort_unstable();
    let start = "/shop/us   1002    alice          50   ";
    assert_eq!(
        together,
        ["duplicate", "duplicate", "processed, balance 150"].map(|end| format!("{start}{end}"))
    );
}

#[test]
fn quickstart_reads_standard_input_and_files() {
    let input = TempDir::new().unwrap();
    let path = input.path().join("deliveries.jsonl");
    // Blank lines and Windows' line ends are not deliveries.
    std::fs::write(&path, SHIPPED.replace('\n', "\r\n\r\n")).unwrap();
    let shipped = quickstart(None, "");
    let file = quickstart(Some(path.to_str().unwrap()), "");
    let stdin = quickstart(Some("-"), SHIPPED);
    for output in [&file, &stdin] {
        let stdout = succeeded(output);
        assert_eq!(balances(stdout), balances(succeeded(&shipped)));
        assert_eq!(table(stdout).len(), 13);
    }
}

#[test]
fn quickstart_counts_random_redeliveries_once() {
    let seed = uuid::Uuid::new_v4().as_u64_pair().0;
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut deliveries = Vec::new();
    let mut expected = BTreeMap::new();
    let mut failing = BTreeSet::new();
    for n in 0..60_usize {
        let (source, id) = match n {
            // A key that joins its parts takes these for one event.
            0 => ("a".to_owned(), "bc".to_owned()),
            1 => ("ab".to_owned(), "c".to_owned()),
            // Every id comes from two sources.
            _ => (format!("source-{}", n % 2), format!("id-{}", n / 2)),
        };
        let account = format!("account-{}", random.below(4));
        let amount = i64::try_from(random.below(2000)).unwrap() - 1000;
        *expected.entry(account.clone()).or_default() += amount;
        let fails_at_first = random.below(5) == 0;
        if fails_at_first {
            failing.insert((source.clone(), id.clone()));
        }
        let event = json!({
            "specversion": "1.0", "source": source, "id": id, "type": "test", "time": "2026-03-02T09:00:00Z",
            "data": { "account": account, "amount": amount, "fails_at_first": fails_at_first },
        });
        // Runs of equal lines arrive together.
        for _ in 0..=random.below(3) {
            deliveries.push(vec![event.to_string(); 1 + random.below(6)]);
        }
    }
    for last in (1..deliveries.len()).rev() {
        deliveries.swap(last, random.below(last + 1));
    }
    let deliveries = deliveries.concat();

    let output = quickstart(Some("-"), &deliveries.join("\n"));
    let stdout = succeeded(&output);
    assert_eq!(
        stdout.lines().next(),
        Some(&*format!(
            "{} deliveries of 60 events; those beside a │ arrive together.",
            deliveries.len()
        ))
    );
    assert!(
        stdout.ends_with("\nOK: the balances are the sums over the 60 distinct events.\n"),
        "{stdout}"
    );
    assert_eq!(balances(stdout), expected);
    let rows = table(stdout);
    let outcome = |start: &str| {
        let rows = rows.iter().filter(|row| row.outcome.starts_with(start));
        rows.map(|row| row.event.clone()).collect::<Vec<_>>()
    };
    let processed = outcome("processed, balance ");
    assert_eq!(processed.len(), 60);
    assert_eq!(processed.into_iter().collect::<BTreeSet<_>>().len(), 60);
    assert_eq!(outcome("duplicate").len(), deliveries.len() - 60);
    // The redeliveries come last, so that each copy of a failing event has failed before one is processed.
    let failures = outcome("failed and rolled back: no answer from the mail server");
    assert_eq!(failures.iter().cloned().collect::<BTreeSet<_>>(), failing);
    assert_eq!(rows.len(), deliveries.len() + failures.len());
    assert!(rows.iter().any(|row| row.together));
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(high).unwrap() % bound
    }
}

#[test]
fn quickstart_names_the_line_of_bad_input() {
    let event = SHIPPED.lines().next().unwrap();
    let mut cases = vec![
        (
            format!("{event}\n\n{{ oops\n"),
            "line 3 is not an event: key must be a string at column 3",
        ),
        (
            format!("{event}\n{}\n{event}", &event[..40]),
            "line 2 is not an event: EOF while parsing a string at column 40",
        ),
        (
            event.replace(r#""amount":100"#, r#""amount":"100""#),
            r#"line 1 is not an event: invalid type: string "100", expected i32 at column 1"#,
        ),
        (String::new(), "the input holds no event"),
        (
            event.replace(r#""1001""#, r#""""#),
            "delivery 1: the delivery failed: part 2 of the message's key is empty",
        ),
    ];
    let missing = ["specversion", "source", "id", "type", "data"].map(|attribute| {
        let mut event: Value = serde_json::from_str(event).unwrap();
        event.as_object_mut().unwrap().remove(attribute).unwrap();
        let message = format!("line 2 is not an event: missing field `{attribute}` at column 1");
        (
            format!("{}\n{event}", SHIPPED.lines().next().unwrap()),
            message,
        )
    });
    cases.extend(
        missing
            .iter()
            .map(|(input, message)| (input.clone(), &**message)),
    );
    for (input, message) in cases {
        let output = quickstart(Some("-"), &input);
        let error = failed(&output);
        assert!(error.starts_with(message), "{error}");
    }

    let output = quickstart(Some("missing.jsonl"), "");
    assert!(failed(&output).starts_with("missing.jsonl: "));
    assert_eq!(text(&output.stdout), "");
}

/// Two events under one key are a producer's fault that no consumer can mend, and here a way to make the sums differ.
#[test]
fn quickstart_exits_with_1_if_the_balances_are_not_the_sums() {
    let event = |amount: i64, fails_at_first: bool| {
        json!({
            "specversion": "1.0", "source": "s", "id": "1", "type": "test",
            "data": { "account": "alice", "amount": amount, "fails_at_first": fails_at_first },
        })
    };
    let output = quickstart(
        Some("-"),
        &format!("{}\n{}", event(1, true), event(2, false)),
    );
    assert_eq!(
        failed(&output),
        "the balances are not the sums over the 1 distinct events, {\"alice\": 1}"
    );
    assert!(!text(&output.stdout).contains("OK"));
}

#[tokio::test]
async fn existing_code_shows_what_it_says() {
    // Says so if there is no server.
    let fixture = Fixture::<Postgres>::new().await;
    let start = || {
        Command::new(&*EXISTING_CODE)
            .env("DATABASE_URL", &fixture.url)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let pool = fixture.pool(1).await;
    for process in [start(), start()] {
        let schema = format!("idem_existing_code_{}", process.id());
        let output = process.wait_with_output().unwrap();
        assert_eq!(
            succeeded(&output),
            "\
1. A method over a repository that is as it was
   order-1     Processed(100)
   order-1     Duplicate

2. An old function that wants a Transaction; another consumer, to which the order is new
   order-1     Processed(())
   order-1     Duplicate

3. An import in one transaction of the team's, which each delivery joins
   order-1     Duplicate
   order-2     failed and rolled back: no rows returned by a query that expected to return at least one row
   order-3     Processed(40)

4. The attribute, idem::once and idem::claim are three forms of the same
   attribute   Processed(101)
   once        Duplicate
   claim       Duplicate
   claim       Processed(41)
   once        Duplicate
   attribute   Duplicate

Balances
   alice       101
   bob         41

OK: every order counts once for each consumer.
"
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

#[test]
fn existing_code_says_that_no_server_answers() {
    let run = |url: &str| {
        let mut command = Command::new(&*EXISTING_CODE);
        command.env("DATABASE_URL", url).output().unwrap()
    };
    let output = run("postgres://postgres:secret@127.0.0.1:1/postgres");
    let error = failed(&output);
    assert!(
        error.starts_with("no PostgreSQL at 127.0.0.1:1 ("),
        "{error}"
    );
    assert!(error.ends_with("); set DATABASE_URL"), "{error}");
    assert!(!error.contains("secret"), "{error}");
    let output = run("not a URL");
    let error = failed(&output);
    assert!(
        error.starts_with("DATABASE_URL is no URL of PostgreSQL: "),
        "{error}"
    );
}

/// The build believes `.sqlx`, so that a table that has changed would show at run time only.
#[tokio::test]
async fn existing_code_has_query_data_that_are_true() {
    let fixture = Fixture::<Postgres>::new().await;
    let pool = fixture.pool(1).await;
    let mut conn = pool.acquire().await.unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let read = |name: &str| std::fs::read_to_string(examples.join(name)).unwrap();
    let tables = AssertSqlSafe(read("existing_code.sql"));
    sqlx::raw_sql(tables).execute(&mut *conn).await.unwrap();

    let code = read("existing_code.rs");
    let files: Vec<_> = examples.join(".sqlx").read_dir().unwrap().collect();
    assert_eq!(
        files.len(),
        code.matches("sqlx::query").count() - code.matches("sqlx::query(").count()
    );
    for file in files {
        let data = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let data: Value = serde_json::from_str(&data).unwrap();
        let query = data["query"].as_str().unwrap().to_owned();
        assert!(code.contains(&query), "nobody asks any more: {query}");
        let statement = (&mut *conn)
            .prepare(AssertSqlSafe(query.clone()).into_sql_str())
            .await
            .unwrap();
        let name = |kind: &dyn ToString| kind.to_string();
        let columns = statement.columns().iter();
        let columns: Vec<_> = columns
            .map(|column| (column.name().to_owned(), name(column.type_info())))
            .collect();
        let parameters = statement.parameters().unwrap().left().unwrap();
        let parameters: Vec<_> = parameters.iter().map(|kind| name(kind)).collect();

        // "Int8" there, INT8 here.
        let kind = |value: &Value| value.as_str().unwrap().to_uppercase();
        let described = data["describe"]["columns"].as_array().unwrap().iter();
        let described: Vec<_> = described
            .map(|column| {
                let name = column["name"].as_str().unwrap().to_owned();
                (name, kind(&column["type_info"]))
            })
            .collect();
        assert_eq!(columns, described, "{query}");
        let described = data["describe"]["parameters"]["Left"].as_array().unwrap();
        let described: Vec<_> = described.iter().map(kind).collect();
        assert_eq!(parameters, described, "{query}");
    }
    drop(conn);
    pool.close().await;
}

/// By hand the message is lost and acknowledged; with idem it is an error.
#[tokio::test]
async fn by_hand_loses_what_idem_does_not() {
    let fixture = Fixture::<Postgres>::new().await;
    let output = Command::new(&*BY_HAND)
        .env("DATABASE_URL", &fixture.url)
        .output()
        .unwrap();
    let printed = succeeded(&output);
    let (by_hand, with_idem) = printed.split_once("with idem:").unwrap();
    assert!(by_hand.contains("the handler says Ok(())"), "{printed}");
    assert!(
        by_hand.contains("credits: 0, of 100: the message is lost"),
        "{printed}"
    );
    assert!(
        with_idem.contains("has aborted the transaction and nothing was applied"),
        "{printed}"
    );
    assert!(
        with_idem.contains("credits: 0, and the message is not acknowledged"),
        "{printed}"
    );
}
