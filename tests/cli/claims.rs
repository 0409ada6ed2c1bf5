//! `show` and `forget`.

use serde_json::json;

use crate::db::{Db, Kind, on_each_database};

on_each_database! {
    show_tells_what_is_stored
    forget_lets_the_next_delivery_run
    a_claim_that_is_not_there_is_told_with_what_may_be_meant
    forget_needs_a_terminal_or_yes
    keys_are_byte_exact
    forget_gives_up_when_somebody_holds_the_claim
}

async fn full(db: &Db) {
    db.insert("billing", &["evt-1", "|order-1", "shop|4711"], 1)
        .await;
    let fingerprint = match db.kind {
        Kind::Postgres => "'\\xdeadbeef'",
        _ => "x'deadbeef'",
    };
    let sql = format!(
        "UPDATE processed_messages SET version = 7, fingerprint = {fingerprint}, result = '{{\"credits\":5}}' WHERE message_id = 'evt-1'"
    );
    db.sql(&sql).await;
}

async fn show_tells_what_is_stored(db: Db) {
    let db = db.migrated();
    full(&db).await;
    let shown = db.idem(&["show", "billing", "evt-1"]).done();
    for part in [
        "consumer      billing\n",
        "key           evt-1\n",
        "UTC (1d",
        "version       7\n",
        "fingerprint   deadbeef\n",
        "result        {\"credits\":5}\n",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let json = db.idem(&["show", "billing", "evt-1", "--json"]).json();
    assert_eq!(
        (&json["consumer"], &json["key"]),
        (&json!("billing"), &json!("evt-1"))
    );
    let claim = &json["claims"][0];
    assert_eq!(claim["table"], "processed_messages");
    assert_eq!(claim["version"], 7);
    assert_eq!(claim["fingerprint"], "deadbeef");
    assert_eq!(claim["result"], "{\"credits\":5}");
    assert!(
        (86_400..86_500).contains(&claim["age_seconds"].as_i64().unwrap()),
        "{json}"
    );
    assert!(claim["processed_at"].as_str().unwrap().ends_with('Z'));
    // A composite key as it is stored, and a business key in both ways.
    db.idem(&["show", "billing", "shop|4711"]).done();
    for arguments in [
        &["show", "billing", "|order-1"][..],
        &["show", "billing", "order-1", "--business"],
    ] {
        let shown = db.idem(arguments).done();
        assert!(shown.contains("business key  order-1\n"), "{shown}");
        assert!(!shown.contains("version"), "{shown}");
    }
}

async fn forget_lets_the_next_delivery_run(db: Db) {
    let db = db.migrated();
    full(&db).await;
    let forgotten = db.idem(&["forget", "billing", "evt-1", "--yes"]).done();
    for part in [
        "removed the claim of `billing` to the key `evt-1`, processed at ",
        "The next delivery of this message to `billing` runs again.",
        "not undone",
        "version of an aggregate",
        "stored result is gone",
        "has business keys",
        "--business",
    ] {
        assert!(forgotten.contains(part), "{part}: {forgotten}");
    }
    assert_eq!(db.claims().await, 2);
    let json = db
        .idem(&[
            "forget",
            "billing",
            "order-1",
            "--business",
            "--yes",
            "--json",
        ])
        .json();
    assert_eq!(
        (&json["removed"], &json["key"]),
        (&json!(1), &json!("|order-1"))
    );
    assert_eq!(json["claims"][0]["key"], "|order-1");
    let forgotten = db.idem(&["forget", "billing", "shop|4711", "-y"]).done();
    assert!(
        !forgotten.contains("business keys"),
        "there is none any more: {forgotten}"
    );
    assert_eq!(db.claims().await, 0);
}

async fn a_claim_that_is_not_there_is_told_with_what_may_be_meant(db: Db) {
    let db = db.migrated();
    let empty = db.idem(&["show", "billing", "evt-1"]);
    empty.fails(1, &["no claim: ", "is it the right database?"]);
    full(&db).await;
    db.insert("mail", &["a\\|b", "evt-9"], 0).await;
    for (consumer, key, hint) in [
        ("biling", "x", "did you mean `billing`?"),
        (
            "biling",
            "evt-1",
            "the consumer `billing` has this key: `evt-1`",
        ),
        (
            "billing",
            "order-1",
            "as a business key (--business): `|order-1`",
        ),
        ("billing", "|evt-1", "not as a business key: `evt-1`"),
        ("mail", "a|b", "`a\\|b`"),
        ("billing", " evt-1 ", "without the blanks"),
        ("billing", "EVT-1", "in lower case: `evt-1`"),
        ("billing", "evt-9", "the consumer `mail` has this key"),
    ] {
        for command in [
            &["show", consumer, key][..],
            &["forget", consumer, key, "--yes"],
        ] {
            let answer = db.idem(command);
            answer.fails(
                1,
                &["no claim: the consumer", "or its claim was pruned", hint],
            );
        }
    }
    // A URL that stands where the consumer should is not repeated with its password.
    let answer = db.idem(&["show", "postgres://u:geheim@h/db", "evt-1"]);
    answer.fails(1, &["`postgres://u:***@h/db` has no claims"]);
    let json = db.idem(&["show", "billing", "nothing-like-it", "--json"]);
    assert_eq!(json.code, 1);
    assert_eq!(
        json.json(),
        json!({"consumer": "billing", "key": "nothing-like-it", "claims": []})
    );
    let json = db.idem(&["forget", "billing", "nothing-like-it", "--json", "--yes"]);
    assert_eq!(json.code, 1);
    assert_eq!(json.json()["removed"], 0);
    assert_eq!(db.claims().await, 5);
}

async fn forget_needs_a_terminal_or_yes(db: Db) {
    let db = db.migrated();
    full(&db).await;
    let answer = db.idem(&["forget", "billing", "evt-1"]);
    answer.fails(
        2,
        &[
            "there is no terminal to ask at",
            "add `--yes`; nothing was removed",
        ],
    );
    assert_eq!(db.claims().await, 3);
}

async fn keys_are_byte_exact(db: Db) {
    let db = db.migrated();
    db.insert("billing", &["a", "A", "a ", "á", "a%"], 0).await;
    for key in ["a", "A", "a ", "á", "a%"] {
        db.idem(&["show", "billing", key]).done();
    }
    for key in ["Á", "%", "a_"] {
        assert_eq!(db.idem(&["show", "billing", key]).code, 1, "{key}");
    }
    db.idem(&["forget", "billing", "a", "--yes"]).done();
    assert_eq!(db.claims().await, 4);
    for key in ["A", "a ", "á", "a%"] {
        db.idem(&["show", "billing", key]).done();
    }
}

async fn forget_gives_up_when_somebody_holds_the_claim(db: Db) {
    let db = db.migrated();
    full(&db).await;
    let held = db.hold("billing", "evt-1").await;
    // Looking does not wait.
    db.idem(&["show", "billing", "evt-1"]).done();
    db.idem(&["status"]).done();
    let start = std::time::Instant::now();
    let answer = db.idem(&["forget", "billing", "evt-1", "--yes"]);
    answer.fails(
        6,
        &["somebody else holds", "nothing was changed; try again"],
    );
    assert!(start.elapsed() < std::time::Duration::from_secs(20));
    held.release().await;
    db.idem(&["forget", "billing", "evt-1", "--yes"]).done();
}
