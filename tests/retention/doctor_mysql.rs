//! What `doctor` finds on MariaDB.

use idem::{Severity, Windows, doctor_with};
use sqlx::AssertSqlSafe;

use super::pruner::{WEEK, claim, table};

const DAY: f64 = 24.0 * 60.0 * 60.0;

#[tokio::test]
async fn each_fault_of_the_table_is_found() {
    use Severity::{Error, Warning};
    for (sql, severity, check, what) in [
        ("DROP TABLE processed_messages", Error, "table", "no table"),
        (
            "ALTER TABLE processed_messages DROP COLUMN repeats",
            Error,
            "table",
            "lacks columns",
        ),
        (
            "ALTER TABLE processed_messages DROP PRIMARY KEY, ADD PRIMARY KEY (consumer, message_id, processed_at)",
            Error,
            "primary-key",
            "time of arrival",
        ),
        (
            "ALTER TABLE processed_messages DROP PRIMARY KEY",
            Error,
            "primary-key",
            "()",
        ),
        (
            "ALTER TABLE processed_messages MODIFY message_id varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL",
            Error,
            "columns",
            "utf8mb4_general_ci",
        ),
        (
            "ALTER TABLE processed_messages MODIFY message_id varchar(700) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL",
            Error,
            "columns",
            "utf8mb4_bin",
        ),
        (
            "ALTER TABLE processed_messages MODIFY message_id varbinary(64) NOT NULL",
            Error,
            "columns",
            "takes 64 bytes",
        ),
        (
            "ALTER TABLE processed_messages DROP INDEX processed_messages_processed_at",
            Warning,
            "index",
            "reads the whole table",
        ),
        (
            "ALTER TABLE processed_messages DROP INDEX processed_messages_processed_at, MODIFY message_id varbinary(700), ROW_FORMAT = DEFAULT, ENGINE = Aria",
            Error,
            "table",
            "Aria",
        ),
        (
            "CREATE TRIGGER t BEFORE INSERT ON processed_messages FOR EACH ROW SET NEW.version = NULL",
            Warning,
            "triggers",
            "triggers",
        ),
        (
            "ALTER TABLE processed_messages DROP PRIMARY KEY, ADD PRIMARY KEY (consumer, message_id(20))",
            Error,
            "primary-key",
            "message_id(20)",
        ),
        (
            "ALTER TABLE processed_messages ADD UNIQUE other (message_id)",
            Error,
            "primary-key",
            "(other)",
        ),
        (
            "ALTER TABLE processed_messages MODIFY processed_at datetime(6)",
            Error,
            "columns",
            "type datetime,",
        ),
    ] {
        let (_fixture, pool) = table(1).await;
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
            .execute(&pool)
            .await
            .unwrap();
        let mut report = doctor_with(&pool, &Windows::new().default_window(WEEK))
            .await
            .unwrap();
        report
            .findings
            .retain(|finding| finding.check != "shared-consumer");
        let expected = report
            .findings
            .iter()
            .find(|finding| finding.check == check && finding.what.contains(what));
        let finding = expected.unwrap_or_else(|| panic!("{sql}: {report}"));
        assert_eq!(finding.severity, severity, "{sql}: {finding}");
        assert!(
            report.findings.len() == 1 || ["Aria", "type datetime,"].contains(&what),
            "{sql}: {report}"
        );
    }
}

#[tokio::test]
async fn rights_that_are_missing_are_named() {
    for (granted, severity, missing) in [
        ("SELECT", Severity::Error, "INSERT, UPDATE, DELETE"),
        ("SELECT, INSERT, UPDATE", Severity::Note, "DELETE"),
    ] {
        let (fixture, pool) = table(1).await;
        // A user's name has 80 characters on MariaDB, and 32 on MySQL.
        let user = fixture.name()[..28].to_owned();
        let grant = format!(
            "CREATE USER '{user}'@'127.0.0.1'; GRANT {granted} ON processed_messages TO '{user}'@'127.0.0.1'"
        );
        sqlx::raw_sql(AssertSqlSafe(grant))
            .execute(&pool)
            .await
            .unwrap();
        let theirs: sqlx::mysql::MySqlConnectOptions = fixture.url.parse().unwrap();
        let theirs = sqlx::MySqlPool::connect_with(theirs.username(&user))
            .await
            .unwrap();
        let report = doctor_with(&theirs, &Windows::new().default_window(WEEK)).await;
        theirs.close().await;
        sqlx::raw_sql(AssertSqlSafe(format!("DROP USER '{user}'@'127.0.0.1'")))
            .execute(&pool)
            .await
            .unwrap();
        let mut report = report.unwrap();
        report
            .findings
            .retain(|finding| finding.check != "shared-consumer");
        assert_eq!(report.findings.len(), 1, "{report}");
        assert_eq!(report.findings[0].severity, severity);
        assert!(report.findings[0].what.contains(missing), "{report}");
    }
}

#[tokio::test]
async fn a_right_table_is_healthy_and_lag_is_found() {
    let (_fixture, pool) = table(1).await;
    let examine = async |windows: Windows| {
        let mut report = doctor_with(&pool, &windows).await.unwrap();
        report
            .findings
            .retain(|finding| finding.check != "shared-consumer");
        report
    };
    assert_eq!(
        examine(Windows::new().default_window(WEEK)).await.findings,
        []
    );
    claim(&pool, "billing", "late", 20.0 * DAY).await;
    let report = examine(Windows::new().default_window(WEEK)).await;
    assert_eq!(report.findings[0].check, "prune-lag", "{report}");
    let report = examine(Windows::new()).await;
    assert_eq!(report.findings[0].check, "growth", "{report}");
    sqlx::raw_sql("SET autocommit = 0")
        .execute(&pool)
        .await
        .unwrap();
    let report = examine(Windows::new().default_window(WEEK)).await;
    assert_eq!(report.findings[0].check, "isolation", "{report}");
}
