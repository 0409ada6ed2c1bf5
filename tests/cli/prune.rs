//! `prune`.

use std::time::Duration;

use idem_tests::examples::{PATIENCE, text};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::db::{Db, on_each_database};
use crate::run::{Answer, command};

on_each_database! {
    what_is_past_its_window_goes
    a_dry_run_changes_nothing
    windows_of_consumers_and_business_keys
    what_goes_is_archived
    a_slip_in_a_name_removes_nothing
    an_archive_that_cannot_be_written_stops_it
    two_at_once
    ctrl_c_stops_between_chunks
}

const WEEK: [&str; 5] = ["prune", "--retain", "7d", "--redelivery", "4d"];

async fn filled(db: Db) -> Db {
    let db = db.migrated();
    db.insert("billing", &["old-1", "old-2", "old-3", "|order"], 30)
        .await;
    db.insert("billing", &["new-1"], 3).await;
    db.insert("mail", &["old-1"], 8).await;
    db
}

async fn what_is_past_its_window_goes(db: Db) {
    let db = filled(db).await;
    let pruned = db.idem(&WEEK).done();
    assert!(pruned.starts_with("removed 4 claims in "), "{pruned}");
    assert_eq!(db.claims().await, 2);
    db.idem(&["show", "billing", "new-1"]).done();
    db.idem(&["show", "billing", "order", "--business"]).done();
    let again = db.idem(&WEEK).done();
    assert_eq!(again, "removed nothing: no claim is past its window\n");
}

async fn a_dry_run_changes_nothing(db: Db) {
    let db = filled(db).await;
    let dry = [&WEEK[..], &["--dry-run"]].concat();
    let due = db.idem(&dry).done();
    assert!(
        due.ends_with("4 claims would be removed; nothing was changed (--dry-run)\n"),
        "{due}"
    );
    let mut json = db.idem(&[&dry[..], &["--json"]].concat()).json();
    for consumer in json["consumers"].as_array_mut().unwrap() {
        assert!(consumer["oldest"].take().as_str().unwrap().ends_with('Z'));
    }
    assert_eq!(
        json,
        json!({"dry_run": true, "claims": 4, "business_keys": 0, "consumers": [
            {"consumer": "billing", "claims": 3, "business_keys": 0, "oldest": null},
            {"consumer": "mail", "claims": 1, "business_keys": 0, "oldest": null},
        ]})
    );
    assert_eq!(db.claims().await, 6);
    let nothing = db
        .idem(&["prune", "--retain", "forever", "--dry-run"])
        .done();
    assert_eq!(
        nothing,
        "nothing is past its window; nothing would be removed\n"
    );
}

async fn windows_of_consumers_and_business_keys(db: Db) {
    let db = filled(db).await;
    let pruned = db.idem(&[
        "prune",
        "--window",
        "billing=7d",
        "--business-window",
        "billing=20d",
        "--redelivery",
        "billing=4d",
    ]);
    let pruned = pruned.done();
    assert!(
        pruned.starts_with("removed 4 claims (1 business key among them) in "),
        "{pruned}"
    );
    assert!(
        pruned
            .contains("note: no window, so that their claims stay: `mail`; add `--window mail=7d`"),
        "{pruned}"
    );
    assert_eq!(db.claims().await, 2);
    let json = db.idem(&["prune", "--window", "mail=forever", "--json"]);
    assert_eq!(
        json.json(),
        json!({"claims": 0, "business_keys": 0, "chunks": 0, "archived": 0, "days_created": 0, "days_dropped": 0,
            "is_busy": false, "is_interrupted": false, "without_window": ["billing"]})
    );
    assert_eq!(json.stderr, "");
}

/// A slip in a name is no reason to remove what the right name would have kept.
async fn a_slip_in_a_name_removes_nothing(db: Db) {
    let db = filled(db).await;
    let slip = ["--window", "mial=forever"];
    let answer = db.idem(&[&WEEK[..], &slip].concat());
    answer.fails(2, &["`mial` has no claims, and `mail`", "write `mail`"]);
    assert_eq!(db.claims().await, 6);
    let other = ["--window", "reporting=forever", "--dry-run"];
    let noted = db.idem(&[&WEEK[..], &other].concat());
    assert!(
        noted
            .stderr
            .contains("note: the consumer `reporting` has no claims"),
        "{}",
        noted.stderr
    );
}

async fn what_goes_is_archived(db: Db) {
    let db = filled(db).await;
    let directory = TempDir::new().unwrap();
    let lines = |path: &std::path::Path| -> Vec<Value> {
        let mut cat = std::process::Command::new("gzip");
        let output = cat.args(["-cdf"]).arg(path).output().unwrap();
        let lines = text(&output.stdout).lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let plain = directory.path().join("claims.jsonl");
    let archive = [
        &WEEK[..3],
        &["--redelivery", "4d", "--archive", plain.to_str().unwrap()],
    ]
    .concat();
    let pruned = db.idem(&archive).done();
    assert!(pruned.ends_with(", 4 archived\n"), "{pruned}");
    let archived = lines(&plain);
    assert_eq!(archived.len(), 4, "{archived:?}");
    assert!(
        archived
            .iter()
            .any(|claim| claim["consumer"] == "mail" && claim["message_id"] == "old-1")
    );

    let compressed = directory.path().join("claims.jsonl.gz");
    db.insert("billing", &["old-4"], 30).await;
    let archive = [&WEEK[..], &["--archive", compressed.to_str().unwrap()]].concat();
    db.idem(&archive).done();
    let bytes = std::fs::read(&compressed).unwrap();
    assert_eq!(bytes[..2], [0x1f, 0x8b], "it is compressed");
    assert_eq!(lines(&compressed)[0]["message_id"], "old-4");

    db.insert("billing", &["old-5"], 30).await;
    db.idem(&[&WEEK[..], &["--archive-table"]].concat()).done();
    let count = "SELECT count(*) FROM processed_messages_archive WHERE message_id = 'old-5'";
    assert_eq!(db.number(count).await, 1);
}

async fn an_archive_that_cannot_be_written_stops_it(db: Db) {
    let db = filled(db).await;
    let answer = db.idem(&[&WEEK[..], &["--archive", "/dev/null/claims.jsonl"]].concat());
    answer.fails(
        8,
        &[
            "the archive /dev/null/claims.jsonl cannot be written",
            "still in the table",
        ],
    );
    assert_eq!(db.claims().await, 6);
}

/// So slow that a test can look at it.
const SLOW: [&str; 4] = ["--chunk", "1", "--pause", "300ms"];

async fn wait_for_claims_below(db: &Db, number: i64) {
    let start = std::time::Instant::now();
    while db.claims().await >= number {
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Rows that are on pages of their own: PostgreSQL takes whole pages.
async fn many(db: &Db) {
    for page in 0..12 {
        let keys: Vec<String> = (0..12)
            .map(|key| format!("{page}-{key}-{}", "x".repeat(600)))
            .collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        db.insert("billing", &keys, 30).await;
    }
}

async fn two_at_once(db: Db) {
    let db = filled(db).await;
    let other = db.hold_as_a_pruner().await;
    let answer = db.idem(&WEEK);
    if db.kind == crate::db::Kind::Sqlite {
        // One writer at a time is all that there is: a pruner is not told from any other.
        answer.fails(6, &["somebody else holds what this needs", "try again"]);
    } else {
        assert_eq!(answer.code, 6, "{answer:?}");
        assert_eq!(
            answer.stdout,
            "another pruner is at work on this table; this one has removed nothing\n"
        );
        let json = db.idem(&[&WEEK[..], &["--json"]].concat());
        assert_eq!(json.code, 6, "{json:?}");
        assert_eq!(json.json()["is_busy"], true);
    }
    assert_eq!(db.claims().await, 6);
    other.release().await;
    db.idem(&WEEK).done();
    assert_eq!(db.claims().await, 2);
}

async fn ctrl_c_stops_between_chunks(db: Db) {
    let db = db.migrated();
    many(&db).await;
    let mut prune = command(&[&WEEK[..], &SLOW, &["--json"]].concat());
    prune.env("DATABASE_URL", &db.url);
    let piped = std::process::Stdio::piped;
    let child = prune.stdout(piped()).stderr(piped()).spawn().unwrap();
    wait_for_claims_below(&db, 144).await;
    let pid = child.id().to_string();
    let kill = std::process::Command::new("kill")
        .args(["-s", "INT", &pid])
        .status();
    assert!(kill.unwrap().success());
    let answer = Answer::from(child.wait_with_output().unwrap());
    assert_eq!(answer.code, 130, "{answer:?}");
    assert!(
        answer.stderr.contains("stopping after this chunk"),
        "{answer:?}"
    );
    let json = answer.json();
    assert_eq!(json["is_interrupted"], true);
    let removed = json["claims"].as_i64().unwrap();
    assert!(removed > 0 && db.claims().await == 144 - removed, "{json}");
}
