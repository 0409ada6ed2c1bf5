//! What `doctor` finds on SQLite.

use idem::{Severity, Windows, doctor_with};
use sqlx::AssertSqlSafe;

use super::pruner::{WEEK, claim, table};

const DAY: f64 = 24.0 * 60.0 * 60.0;

/// A table like ours with other columns.
fn created(columns: &str) -> String {
    format!(
        "DROP TABLE processed_messages; CREATE TABLE processed_messages (processed_at text NOT NULL DEFAULT '', \
         version integer, fingerprint blob, result text, {columns}); \
         CREATE INDEX processed_messages_processed_at ON processed_messages (consumer, processed_at)"
    )
}

#[tokio::test]
async fn each_fault_of_the_table_is_found() {
    use Severity::{Error, Warning};
    for (sql, severity, check, what) in [
        (
            "DROP TABLE processed_messages".to_owned(),
            Error,
            "table",
            "no table",
        ),
        (
            "ALTER TABLE processed_messages DROP COLUMN result".to_owned(),
            Error,
            "table",
            "lacks columns",
        ),
        (
            created(
                "consumer text, message_id text, at text, PRIMARY KEY (consumer, message_id, at)",
            ),
            Error,
            "primary-key",
            "(at, consumer, message_id)",
        ),
        (
            created("consumer text, message_id integer, PRIMARY KEY (consumer, message_id)"),
            Error,
            "columns",
            "makes numbers of texts",
        ),
        (
            created("consumer text, message_id string, PRIMARY KEY (consumer, message_id)"),
            Error,
            "columns",
            "makes numbers of texts",
        ),
        (
            created(
                "consumer text, message_id text COLLATE NOCASE, PRIMARY KEY (consumer, message_id)",
            ),
            Error,
            "columns",
            "message_id NOCASE",
        ),
        (
            "DROP INDEX processed_messages_processed_at".to_owned(),
            Warning,
            "index",
            "reads the whole table",
        ),
        (
            "CREATE TRIGGER t BEFORE INSERT ON processed_messages BEGIN SELECT 1; END".to_owned(),
            Warning,
            "triggers",
            "triggers",
        ),
        (
            "PRAGMA synchronous = OFF".to_owned(),
            Warning,
            "durability",
            "loss of power",
        ),
        (
            "PRAGMA query_only = 1".to_owned(),
            Error,
            "rights",
            "takes no writes",
        ),
        (
            "CREATE UNIQUE INDEX other ON processed_messages (message_id)".to_owned(),
            Error,
            "primary-key",
            "(other)",
        ),
        (
            created("consumer text, message_id text, PRIMARY KEY (consumer, message_id)")
                .replace("processed_at text", "processed_at integer"),
            Error,
            "columns",
            "type INTEGER,",
        ),
    ] {
        let (_fixture, pool) = table(1).await;
        sqlx::raw_sql(AssertSqlSafe(sql.clone()))
            .execute(&pool)
            .await
            .unwrap();
        let mut report = doctor_with(&pool, &Windows::new().default_window(WEEK))
            .await
            .unwrap();
        report
            .findings
            .retain(|finding| finding.check != "shared-consumer");
        assert_eq!(report.findings.len(), 1, "{sql}: {report}");
        let finding = &report.findings[0];
        assert_eq!(
            (finding.severity, finding.check),
            (severity, check),
            "{sql}: {finding}"
        );
        assert!(finding.what.contains(what), "{sql}: {finding}");
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
}
