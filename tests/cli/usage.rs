//! What needs no database: help, SQL, and what is wrong with a command line.

use std::process::Stdio;

use idem_tests::examples::text;

use crate::run::{Answer, command, run};

#[test]
fn help_tells_the_exit_codes_and_no_password() {
    let mut help = command(&["--help"]);
    help.env("DATABASE_URL", "postgres://u:geheim@h/db");
    let help = Answer::from(help.output().unwrap()).done();
    for part in [
        "schema",
        "migrate",
        "status",
        "show",
        "forget",
        "prune",
        "partitions",
        "doctor",
        "completions",
        "man",
        "Exit codes:",
        "0  done",
        "4  the table of claims is missing",
        "130  stopped by Ctrl-C",
        "DATABASE_URL",
        "Examples:",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
    assert!(!help.contains("geheim"), "{help}");
    assert!(!help.contains('\x1b'), "no colours: {help}");
    assert!(run(&["--version"]).done().starts_with("idem "));
}

#[test]
fn every_command_explains_itself() {
    for command in [
        "schema",
        "migrate",
        "status",
        "show",
        "forget",
        "prune",
        "partitions",
        "doctor",
        "completions",
        "man",
    ] {
        let help = run(&[command, "--help"]).done();
        let short = run(&[command, "-h"]).done();
        assert!(help.contains(&format!("Usage: idem {command}")), "{help}");
        assert!(help.len() > short.len(), "{command}");
    }
}

#[allow(clippy::too_many_lines, reason = "a table")]
#[test]
fn a_wrong_command_line_is_told() {
    for (arguments, parts) in [
        (&["statu"][..], &["exists: 'status'", "--help"][..]),
        (
            &["prune", "--retain", "7"],
            &["`7` has no unit", "write `7d`"],
        ),
        (&["prune", "--retain", "0s"], &["keeps no claim at all"]),
        (
            &["prune"],
            &[
                "nothing says how long claims are kept",
                "--retain 7d --redelivery 4d",
            ],
        ),
        (
            &["prune", "--retain", "7d"],
            &[
                "nothing says how long the broker may redeliver",
                "runs a second time",
                "add `--redelivery 4d`",
            ],
        ),
        (
            &["prune", "--window", "billing=7d"],
            &["--window billing=7d: nothing says", "--redelivery"],
        ),
        (
            &["prune", "--window", "billing=7d", "--redelivery", "mail=1d"],
            &["--window billing=7d: nothing says"],
        ),
        (
            &["prune", "--business-window", "billing=7d"],
            &["--business-window billing=7d: nothing says"],
        ),
        (
            &["prune", "--retain", "4d", "--redelivery", "4d"],
            &["runs a second time", "longer than 4d"],
        ),
        (
            &["prune", "--window", "billing:7d"],
            &["`CONSUMER=WINDOW`", "billing=30d"],
        ),
        (
            &["prune", "--retain", "7d", "--redelivery", "4 days"],
            &["there is no unit `days`", "write `4d`"],
        ),
        (
            &[
                "prune",
                "--retain",
                "7d",
                "--redelivery",
                "4d",
                "--chunk",
                "0",
            ],
            &["--chunk"],
        ),
        (
            &[
                "prune",
                "--retain",
                "7d",
                "--redelivery",
                "4d",
                "--archive",
                "table",
            ],
            &["ends in .jsonl or .jsonl.gz", "--archive-table"],
        ),
        (
            &["prune", "--archive", "a", "--archive-table"],
            &["cannot be used with"],
        ),
        (
            &["doctor", "--retain", "7d"],
            &["nothing says how long the broker may redeliver"],
        ),
        (&["show", "billing", ""], &["the key is empty"]),
        (&["forget", "", "evt-1"], &["the consumer's name is empty"]),
        (
            &["show", "billing", &"x".repeat(1025)],
            &["1025 bytes and may have 1024"],
        ),
        (&["schema"], &["for which database", "--database postgres"]),
        (
            &["schema", "--database", "oracle"],
            &["postgres, mysql, sqlite"],
        ),
        (
            &["schema", "--database", "sqlite", "--by-day"],
            &["PostgreSQL only"],
        ),
        (
            &["status", "--connect-timeout", "5"],
            &["has no unit", "write `5s`"],
        ),
    ] {
        let answer = run(arguments);
        answer.fails(2, parts);
        assert!(answer.stderr.starts_with("error: "), "{answer:?}");
    }
}

#[test]
fn a_wrong_url_is_told() {
    for (arguments, parts) in [
        (
            &["status"][..],
            &["no database is given", "DATABASE_URL", "sqlite:PATH"][..],
        ),
        (&["status", "--url", "app.db"], &["no scheme", "`sqlite:`"]),
        (
            &["status", "--url", "mongodb://u:geheim@h/db"],
            &["`mongodb:`", "postgres://"],
        ),
        (
            &["status", "--url", "mysql2://u:geheim@h/db"],
            &["`mysql2:`", "`mysql://`"],
        ),
        (
            &["status", "--url", "jdbc:mysql://h/db?password=geheim"],
            &["JDBC"],
        ),
        (
            &["status", "--url", "postgresql+asyncpg://u:geheim@h/db"],
            &["`postgresql://`"],
        ),
        (
            &["status", "--url", "mysql://u:geheim@h"],
            &["no database on it"],
        ),
        (
            &["status", "--url", "postgres://u:1/geheim@h/db"],
            &["cannot be told apart", "%2F"],
        ),
        (
            &["status", "--url", "postgres://u:geheim@h:x/db"],
            &["cannot be read"],
        ),
        (
            &["status", "postgres://u:geheim@h/db"],
            &["postgres://u:***@h/db"],
        ),
        (&["show", "postgres://u:geheim@h/db"], &["<KEY>"]),
    ] {
        let answer = run(arguments);
        answer.fails(2, parts);
        assert!(answer.stderr.starts_with("error: "), "{answer:?}");
    }
}

/// What is wrong with the windows is told before a database is asked for.
#[test]
fn windows_are_checked_first() {
    let unreachable = "--url=postgres://u:geheim@127.0.0.1:1/db";
    let prune = run(&["prune", unreachable, "--retain", "1d", "--redelivery", "2d"]);
    prune.fails(2, &["keep them for longer than 2d"]);
    let prune = run(&["prune", unreachable, "--retain", "forever"]);
    prune.fails(3, &["no PostgreSQL answers at 127.0.0.1:1"]);
}

#[test]
fn schema_prints_what_the_library_has() {
    for (database, sql, upgrade, archive) in [
        (
            "postgres",
            idem::sql::POSTGRES,
            idem::sql::POSTGRES_UPGRADE,
            idem::sql::POSTGRES_ARCHIVE,
        ),
        (
            "mysql",
            idem::sql::MYSQL,
            idem::sql::MYSQL_UPGRADE,
            idem::sql::MYSQL_ARCHIVE,
        ),
        (
            "mariadb",
            idem::sql::MYSQL,
            idem::sql::MYSQL_UPGRADE,
            idem::sql::MYSQL_ARCHIVE,
        ),
        (
            "sqlite",
            idem::sql::SQLITE,
            idem::sql::SQLITE_UPGRADE,
            idem::sql::SQLITE_ARCHIVE,
        ),
    ] {
        let schema =
            |option: &[&str]| run(&[&["schema", "--database", database], option].concat()).done();
        assert_eq!(schema(&[]), sql);
        assert_eq!(schema(&["--upgrade"]), upgrade);
        assert_eq!(schema(&["--archive"]), archive);
    }
    let by_day = run(&["schema", "--by-day", "--url", "postgres://h/db"]);
    assert_eq!(by_day.done(), idem::sql::POSTGRES_BY_DAY);
    let json = run(&["schema", "--database", "sqlite", "--json"]);
    assert_eq!(
        json.json(),
        serde_json::json!({"database": "sqlite", "sql": idem::sql::SQLITE})
    );
}

/// As in `idem completions bash | head -1`.
#[test]
fn a_reader_that_goes_away_is_no_fault() {
    for arguments in [&["completions", "bash"][..], &["--help"], &["man"]] {
        let mut child = command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(text(&output.stderr), "");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
    // A full disk is one.
    let mut full = command(&["completions", "bash"]);
    let device = std::fs::File::options().write(true).open("/dev/full");
    full.stdout(device.unwrap());
    Answer::from(full.output().unwrap()).fails(8, &["could not be written"]);
}
