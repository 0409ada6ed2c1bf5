//! `partitions`, and the table by days in the other commands.

use serde_json::Value;

use crate::db::Db;

fn days(json: &Value) -> Vec<&str> {
    let partitions = json["partitions"].as_array().unwrap().iter();
    partitions
        .map(|partition| partition["day"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn days_are_created_listed_and_dropped() {
    let db = Db::postgres().await.migrated();
    db.idem(&["partitions"]).fails(
        4,
        &[
            "no table `processed_messages_by_day`",
            "idem partitions create --retain 7d",
        ],
    );
    let created = db
        .idem(&[
            "partitions",
            "create",
            "--retain",
            "3d",
            "--ahead",
            "2",
            "--json",
        ])
        .json();
    let before = days(&created);
    // The first day may have ended three days ago to the hour.
    assert!((6..=7).contains(&before.len()), "{created}");
    assert_eq!(created["created"], before.len());
    let again = db
        .idem(&["partitions", "create", "--retain", "3d", "--ahead", "2"])
        .done();
    assert!(again.starts_with("every partition was there\n"), "{again}");
    let list = db.idem(&["partitions"]).done();
    assert_eq!(list, db.idem(&["partitions", "list"]).done());
    for day in &before {
        let table = format!("processed_messages_{}", day.replace('-', "_"));
        assert!(list.contains(day) && list.contains(&table), "{list}");
    }
    let json = db.idem(&["partitions", "--json"]).json();
    let partition = &json["partitions"][0];
    assert_eq!(partition["is_attached"], true);
    assert!(
        partition["bytes"].is_u64() && partition["table"].is_string(),
        "{json}"
    );

    db.idem(&["partitions", "drop-expired"])
        .fails(2, &["nothing says how long days are kept", "--retain 7d"]);
    let drop = ["partitions", "drop-expired", "--retain", "1d"];
    db.idem(&drop)
        .fails(2, &["how long the broker may redeliver", "--redelivery 4d"]);
    db.idem(&[&drop[..], &["--redelivery", "1d"]].concat())
        .fails(2, &["runs a second time"]);
    let drop = [&drop[..], &["--redelivery", "12h"]].concat();
    db.idem(&drop)
        .fails(2, &["there is no terminal to ask at", "--yes"]);
    let preview = db.idem(&[&drop[..], &["--dry-run"]].concat()).done();
    assert!(
        preview.contains(before[0]) && preview.contains("nothing was changed"),
        "{preview}"
    );
    assert_eq!(days(&db.idem(&["partitions", "--json"]).json()), before);
    let dropped = db.idem(&[&drop[..], &["--yes", "--json"]].concat()).json();
    let gone: Vec<&str> = dropped["dropped"]
        .as_array()
        .unwrap()
        .iter()
        .map(|day| day.as_str().unwrap())
        .collect();
    assert!(!gone.is_empty() && before.starts_with(&gone), "{dropped}");
    assert_eq!(days(&dropped), before[gone.len()..]);
    let nothing = db.idem(&drop).done();
    assert_eq!(nothing, "dropped nothing: no day is past its window\n");
}

#[tokio::test]
async fn other_databases_have_none() {
    for db in [Db::mysql().await.migrated(), Db::sqlite().await.migrated()] {
        for action in [
            &["partitions"][..],
            &["partitions", "create"],
            &[
                "partitions",
                "drop-expired",
                "--retain",
                "1d",
                "--redelivery",
                "1h",
            ],
        ] {
            db.idem(action)
                .fails(2, &["for PostgreSQL only", "`idem prune`"]);
        }
    }
}

#[tokio::test]
async fn claims_by_day_are_counted_shown_and_forgotten() {
    let db = Db::postgres().await.migrated();
    db.idem(&["partitions", "create", "--retain", "3d"]).done();
    db.sql(
        "INSERT INTO processed_messages_by_day (consumer, message_id, day, result) VALUES \
         ('billing', 'evt-1', (now() AT TIME ZONE 'UTC')::date - 1, '5'), ('billing', 'evt-2', (now() AT TIME ZONE 'UTC')::date, NULL)",
    )
    .await;
    // While a consumer moves from one table to the other, its claims are in both.
    db.insert("billing", &["evt-1"], 0).await;
    let json = db.idem(&["status", "--json"]).json();
    assert_eq!(json["tables"][1]["table"], "processed_messages_by_day");
    assert_eq!(json["tables"][1]["consumers"][0]["rows"], 2);
    for effort in ["--exact", "--estimate"] {
        let status = db.idem(&["status", effort]).done();
        assert!(status.contains("processed_messages_by_day"), "{status}");
    }
    let shown = db.idem(&["show", "billing", "evt-1"]).done();
    assert_eq!(
        shown.matches("consumer      billing\n").count(),
        2,
        "{shown}"
    );
    assert!(
        shown.contains("(table processed_messages_by_day)"),
        "{shown}"
    );
    let json = db.idem(&["show", "billing", "evt-1", "--json"]).json();
    let day = json["claims"][1]["day"].as_str().unwrap().to_owned();
    assert_eq!(json["claims"][1]["result"], "5");
    let forgotten = db.idem(&["forget", "billing", "evt-1", "--yes"]).done();
    assert!(
        forgotten.contains(&format!("of the day {day} in processed_messages_by_day")),
        "{forgotten}"
    );
    assert_eq!(db.claims().await, 0);
    assert_eq!(
        db.number("SELECT count(*) FROM processed_messages_by_day")
            .await,
        1
    );
    assert_eq!(db.idem(&["show", "billing", "evt-1"]).code, 1);
    db.idem(&["show", "billing", "evt-2"]).done();
    // The pruner drops days that are past the window.
    let pruned = db
        .idem(&["prune", "--retain", "1d", "--redelivery", "1h", "--json"])
        .json();
    assert!(pruned["days_dropped"].as_u64().unwrap() >= 2, "{pruned}");
    assert!(pruned["days_created"].as_u64().unwrap() <= 1, "{pruned}");
}
