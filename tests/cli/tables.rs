//! `migrate` and `status`.

use serde_json::json;

use crate::db::{Db, Kind, on_each_database};

on_each_database! {
    migrate_creates_upgrades_and_leaves_alone
    without_a_table_it_says_to_migrate
    with_an_older_table_it_says_to_migrate
    status_tells_each_consumer
    status_of_an_empty_table
    status_estimates_when_asked
}

async fn migrate_creates_upgrades_and_leaves_alone(db: Db) {
    let created = db.idem(&["migrate"]).done();
    assert!(
        created.starts_with("table `processed_messages` in "),
        "{created}"
    );
    assert!(created.ends_with(": created\n"), "{created}");
    let again = db.idem(&["migrate"]).done();
    assert!(again.ends_with(": up to date\n"), "{again}");
    db.insert("billing", &["evt-1"], 0).await;
    db.sql("ALTER TABLE processed_messages DROP COLUMN version")
        .await;
    db.sql(match db.kind {
        Kind::MySql => "DROP INDEX processed_messages_processed_at ON processed_messages",
        _ => "DROP INDEX processed_messages_processed_at",
    })
    .await;
    let upgraded = db.idem(&["migrate"]).done();
    assert!(
        upgraded.ends_with(": upgraded by `version`, the pruner's index\n"),
        "{upgraded}"
    );
    assert_eq!(db.claims().await, 1);
    let json = db.idem(&["migrate", "--json"]).json();
    assert_eq!(
        json,
        json!({"table": "unchanged", "columns_added": [], "index_added": false})
    );
}

/// The message, whose place differs.
fn place(db: &Db) -> String {
    match db.kind {
        Kind::Postgres => format!("in the schemas of `search_path` ({})", db.name()),
        Kind::MySql => format!("in the database `{}`", db.name()),
        Kind::Sqlite => "test.db`".to_owned(),
    }
}

const COMMANDS: [&[&str]; 5] = [
    &["status"],
    &["show", "billing", "evt-1"],
    &["forget", "billing", "evt-1", "--yes"],
    &["prune", "--retain", "7d", "--redelivery", "4d"],
    &[
        "prune",
        "--retain",
        "7d",
        "--redelivery",
        "4d",
        "--dry-run",
        "--json",
    ],
];

async fn without_a_table_it_says_to_migrate(db: Db) {
    for command in COMMANDS {
        let answer = db.idem(command);
        answer.fails(
            4,
            &[
                "error: there is no table `processed_messages`",
                &place(&db),
                "run `idem migrate`",
            ],
        );
    }
    // What is wrong is a finding there.
    let doctor = db.idem(&["doctor"]);
    assert_eq!(doctor.code, 1, "{doctor:?}");
    assert!(doctor.stdout.contains("migrate"), "{doctor:?}");
}

async fn with_an_older_table_it_says_to_migrate(db: Db) {
    let db = db.migrated();
    db.insert("billing", &["evt-1"], 30).await;
    db.sql("ALTER TABLE processed_messages DROP COLUMN fingerprint")
        .await;
    for command in COMMANDS {
        let answer = db.idem(command);
        answer.fails(
            4,
            &[
                "older version and lacks `fingerprint`",
                &place(&db),
                "run `idem migrate`",
            ],
        );
    }
    assert_eq!(db.claims().await, 1);
    let doctor = db.idem(&["doctor"]);
    assert_eq!(doctor.code, 1, "{doctor:?}");
    db.idem(&["migrate"]).done();
    db.idem(&["show", "billing", "evt-1"]).done();
}

async fn status_tells_each_consumer(db: Db) {
    let db = db.migrated();
    db.insert("billing", &["a", "b"], 0).await;
    db.insert("billing", &["c", "|order"], 3).await;
    db.insert("mail", &["a"], 10).await;
    db.sql("UPDATE processed_messages SET version = 5 WHERE consumer = 'mail'")
        .await;
    let status = db.idem(&["status"]).done();
    let line = |start: &str| {
        let line = status.lines().find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("{start}: {status}"))
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(line("billing")[..6], ["billing", "4", "1", "0", "2", "2"]);
    assert!(line("billing").contains(&"3d".to_owned()), "{status}");
    assert_eq!(line("mail")[..7], ["mail", "1", "0", "1", "0", "0", "10d"]);
    assert_eq!(line("processed_messages")[1..3], ["5", "rows,"]);
    assert!(!status.contains('~'), "{status}");
    let json = db.idem(&["status", "--json"]).json();
    let table = &json["tables"][0];
    assert_eq!(table["table"], "processed_messages");
    assert_eq!(table["rows"], 5);
    assert_eq!(table["is_estimate"], false);
    assert!(table["bytes"].as_u64().unwrap() > 0);
    let mail = &table["consumers"][1];
    assert_eq!(mail["consumer"], "mail");
    assert_eq!(
        (&mail["rows"], &mail["business_keys"], &mail["versions"]),
        (&json!(1), &json!(0), &json!(1))
    );
    assert_eq!(
        (&mail["last_hour"], &mail["last_day"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(mail["oldest"], mail["newest"]);
    let age = mail["oldest_age_seconds"].as_i64().unwrap();
    assert!((864_000..864_100).contains(&age), "{json}");
    for time in [&json["now"], &mail["oldest"]] {
        let time = time.as_str().unwrap();
        assert!(
            time.len() >= 24 && time.ends_with('Z') && &time[10..11] == "T",
            "{time}"
        );
    }
}

async fn status_of_an_empty_table(db: Db) {
    let db = db.migrated();
    for option in ["--exact", "--estimate"] {
        let status = db.idem(&["status", option]).done();
        assert!(
            status.contains("\nprocessed_messages  0 rows, "),
            "{status}"
        );
        assert!(status.contains("no claims yet"), "{status}");
    }
}

/// On SQLite, whose tables are counted in any case, the numbers are exact.
async fn status_estimates_when_asked(db: Db) {
    let db = db.migrated();
    let keys: Vec<String> = (0..2000).map(|key| format!("evt-{key}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    db.insert("billing", &keys, 2).await;
    db.insert("mail", &["a", "|order"], 0).await;
    let is_sqlite = db.kind == Kind::Sqlite;
    if !is_sqlite {
        db.sql(match db.kind {
            Kind::Postgres => "ANALYZE processed_messages",
            _ => "ANALYZE TABLE processed_messages",
        })
        .await;
    }
    let json = db.idem(&["status", "--estimate", "--json"]).json();
    let table = &json["tables"][0];
    assert_eq!(table["is_estimate"], !is_sqlite);
    let rows = |at: usize| table["consumers"][at]["rows"].as_u64().unwrap();
    assert!((1000..=4000).contains(&rows(0)), "{json}");
    assert!((1..=10).contains(&rows(1)), "{json}");
    let age = &table["consumers"][0]["oldest_age_seconds"];
    assert!(
        (172_800..172_900).contains(&age.as_i64().unwrap()),
        "{json}"
    );
    let status = db.idem(&["status", "--estimate"]).done();
    assert_eq!(status.contains("~ estimated;"), !is_sqlite, "{status}");
    assert!(status.contains("billing"), "{status}");
}

#[tokio::test]
async fn a_migration_by_day_is_for_postgres() {
    let db = Db::postgres().await;
    let json = db.idem(&["migrate", "--by-day", "--json"]).json();
    assert_eq!(json["table"], "created");
    assert!(json["partitions_created"].as_u64().unwrap() > 7, "{json}");
    let again = db.idem(&["migrate", "--by-day"]).done();
    assert!(again.ends_with("every partition was there\n"), "{again}");
    for db in [Db::mysql().await, Db::sqlite().await] {
        let answer = db.idem(&["migrate", "--by-day"]);
        answer.fails(2, &["for PostgreSQL only"]);
        db.idem(&["status"]).fails(4, &["no table"]);
    }
}

/// Names that were made to play with a terminal are shown, and do not.
#[tokio::test]
async fn control_characters_are_shown_as_such() {
    let db = Db::sqlite().await.migrated();
    db.sql(
        "INSERT INTO processed_messages (consumer, message_id) VALUES ('evil', char(27) || '[2J')",
    )
    .await;
    let shown = db.idem(&["show", "evil", "\u{1b}[2J"]).done();
    assert!(shown.contains("\\u{1b}[2J"), "{shown:?}");
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
}
