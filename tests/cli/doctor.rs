//! `doctor`.

use crate::db::{Db, Kind, on_each_database};

on_each_database! {
    a_table_in_order_is_healthy
    a_wrong_key_is_an_error
    claims_that_should_be_gone_are_told
}

async fn a_table_in_order_is_healthy(db: Db) {
    let db = db.migrated();
    db.insert("billing", &["evt-1"], 60).await;
    let doctor = db.idem(&["doctor"]);
    assert_eq!(doctor.code, 0, "{doctor:?}");
    let json = db.idem(&["doctor", "--json"]).json();
    assert_eq!(json["is_healthy"], true);
    for finding in json["findings"].as_array().unwrap() {
        assert_ne!(finding["severity"], "error");
        assert!(doctor.stdout.contains(finding["what"].as_str().unwrap()));
        assert!(doctor.stdout.contains(finding["remedy"].as_str().unwrap()));
    }
    assert!(
        doctor.stdout.ends_with("healthy: no error among these\n"),
        "{doctor:?}"
    );
    // The program may well have windows, of which nothing is known here.
    assert!(doctor.stdout.contains("note    windows: "), "{doctor:?}");
    assert!(!doctor.stdout.contains("growth"), "{doctor:?}");
    let windows = ["doctor", "--window", "mail=7d", "--redelivery", "4d"];
    let doctor = db.idem(&windows).done();
    assert!(doctor.contains("growth"), "{doctor}");
    assert!(!doctor.contains("note    windows: "), "{doctor}");
}

async fn a_wrong_key_is_an_error(db: Db) {
    let db = db.migrated();
    db.sql(match db.kind {
        Kind::Postgres => "ALTER TABLE processed_messages DROP CONSTRAINT processed_messages_pkey, ADD PRIMARY KEY (message_id)",
        Kind::MySql => "ALTER TABLE processed_messages DROP PRIMARY KEY, ADD PRIMARY KEY (message_id)",
        Kind::Sqlite => {
            "DROP TABLE processed_messages; CREATE TABLE processed_messages (consumer text NOT NULL, message_id text NOT NULL PRIMARY KEY, \
             processed_at text, version integer, fingerprint blob, result text)"
        }
    })
    .await;
    let doctor = db.idem(&["doctor"]);
    assert_eq!(doctor.code, 1, "{doctor:?}");
    assert_eq!(doctor.stderr, "");
    assert!(
        doctor.stdout.contains("error   primary-key: "),
        "{doctor:?}"
    );
    assert!(
        doctor.stdout.contains("\n        -> "),
        "each with its remedy: {doctor:?}"
    );
    assert!(!doctor.stdout.contains("healthy"), "{doctor:?}");
    let json = db.idem(&["doctor", "--json"]);
    assert_eq!(json.code, 1);
    let json = json.json();
    assert_eq!(json["is_healthy"], false);
    let findings = json["findings"].as_array().unwrap();
    let finding = findings
        .iter()
        .find(|finding| finding["check"] == "primary-key")
        .unwrap();
    assert_eq!(finding["severity"], "error");
    assert!(!finding["remedy"].as_str().unwrap().is_empty());
}

async fn claims_that_should_be_gone_are_told(db: Db) {
    let db = db.migrated();
    db.insert("billing", &["evt-1"], 60).await;
    let doctor = db.idem(&["doctor", "--retain", "7d", "--redelivery", "4d"]);
    assert!(doctor.stdout.contains("prune-lag"), "{doctor:?}");
    assert!(doctor.stdout.contains("billing"), "{doctor:?}");
    let doctor = db.idem(&["doctor", "--retain", "90d", "--redelivery", "4d"]);
    assert!(!doctor.stdout.contains("prune-lag"), "{doctor:?}");
    assert_eq!(doctor.code, 0, "{doctor:?}");
}
