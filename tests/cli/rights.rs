//! What a user may not do: exit code 5, and which right is missing.

use crate::db::{Db, Kind};
use crate::run::run;

/// A user who may read the table of claims only, and its URL.
async fn reader(db: &Db) -> (String, String) {
    let user = format!("ro_{}", &db.name()[5..21]);
    let name = db.name();
    db.sql(&match db.kind {
        Kind::Postgres => format!(
            "CREATE ROLE {user} LOGIN PASSWORD 'geheim'; GRANT USAGE ON SCHEMA {name} TO {user}; GRANT SELECT ON processed_messages TO {user}"
        ),
        _ => format!(
            "CREATE USER {user}@'%' IDENTIFIED BY 'geheim'; GRANT SELECT ON {name}.processed_messages TO {user}@'%'"
        ),
    })
    .await;
    let (scheme, rest) = db.url.split_once("://").unwrap();
    let (_, rest) = rest.split_once('@').unwrap();
    (format!("{scheme}://{user}:geheim@{rest}"), user)
}

async fn drop_user(db: &Db, user: &str) {
    db.sql(&match db.kind {
        Kind::Postgres => format!("DROP OWNED BY {user}; DROP ROLE {user}"),
        _ => format!("DROP USER {user}@'%'"),
    })
    .await;
}

#[tokio::test]
async fn a_user_who_may_only_read() {
    for db in [Db::postgres().await, Db::mysql().await] {
        let db = db.migrated();
        db.insert("billing", &["evt-1", "evt-2"], 30).await;
        let (url, user) = reader(&db).await;
        let idem = |arguments: &[&str]| run(&[arguments, &["--url", &url]].concat());
        let prune = ["prune", "--retain", "7d", "--redelivery", "4d"];
        // These need no more.
        let read = [
            idem(&["status"]),
            idem(&["show", "billing", "evt-1"]),
            idem(&["migrate"]),
            idem(&[&prune[..], &["--dry-run"]].concat()),
        ];
        let forget = idem(&["forget", "billing", "evt-1", "--yes"]);
        let pruned = idem(&prune);
        let doctor = idem(&["doctor"]);
        db.sql("DROP TABLE processed_messages").await;
        let migrate = idem(&["migrate"]);
        drop_user(&db, &user).await;

        for answer in read {
            answer.done();
        }
        let who = format!("the user `{user}` may not do this");
        forget.fails(
            5,
            &[
                &who,
                "needs SELECT and DELETE on processed_messages",
                "grant it",
            ],
        );
        pruned.fails(5, &[&who, "needs SELECT and DELETE on processed_messages"]);
        migrate.fails(5, &[&who, "the right to create tables"]);
        if db.kind == Kind::Postgres {
            assert!(doctor.stdout.contains("error   rights: "), "{doctor:?}");
            assert_eq!(doctor.code, 1, "{doctor:?}");
        }
    }
}

#[tokio::test]
async fn a_file_that_may_only_be_read() {
    let db = Db::sqlite().await.migrated();
    db.insert("billing", &["evt-1"], 30).await;
    let url = db.url.replace("mode=rwc", "mode=ro");
    let idem = |arguments: &[&str]| run(&[arguments, &["--url", &url]].concat());
    idem(&["status"]).done();
    idem(&["show", "billing", "evt-1"]).done();
    idem(&["forget", "billing", "evt-1", "--yes"])
        .fails(5, &["test.db` cannot be written", "mode=ro"]);
    idem(&["prune", "--retain", "7d", "--redelivery", "4d"])
        .fails(5, &["cannot be written", "mode=ro"]);
    assert_eq!(db.claims().await, 1);
}

/// As on a replica.
#[tokio::test]
async fn a_server_that_may_only_be_read() {
    let db = Db::postgres().await.migrated();
    db.insert("billing", &["evt-1"], 30).await;
    let url = format!("{}&options[default_transaction_read_only]=on", db.url);
    let idem = |arguments: &[&str]| run(&[arguments, &["--url", &url]].concat());
    idem(&["status"]).done();
    let forget = idem(&["forget", "billing", "evt-1", "--yes"]);
    forget.fails(5, &["is read-only", "connect to the primary"]);
    assert_eq!(db.claims().await, 1);
}
