//! What `doctor` finds on PostgreSQL.

use std::time::Duration;

use idem::{Finding, Report, Severity, Windows, doctor_with};
use idem_tests::Fixture;
use sqlx::{AssertSqlSafe, PgPool};

use super::pruner::{WEEK, claim, many, table};

const DAY: f64 = 24.0 * 60.0 * 60.0;

fn windows() -> Windows {
    Windows::new().default_window(WEEK)
}

/// The report without what is of the test program itself: its handlers share the names of their consumers.
pub(crate) async fn examine(pool: &PgPool, windows: &Windows) -> Report {
    let mut report = doctor_with(pool, windows).await.unwrap();
    report
        .findings
        .retain(|finding| finding.check != "shared-consumer");
    report
}

/// The one finding, after these statements.
async fn finding_after(sql: &[&str]) -> Finding {
    let (_fixture, pool) = table(1).await;
    for sql in sql {
        sqlx::raw_sql(AssertSqlSafe((*sql).to_owned()))
            .execute(&pool)
            .await
            .unwrap();
    }
    let report = examine(&pool, &windows()).await;
    assert_eq!(report.findings.len(), 1, "{sql:?}: {report}");
    report.findings[0].clone()
}

#[tokio::test]
async fn a_right_table_is_healthy() {
    let (_fixture, pool) = table(2).await;
    many(&pool, "billing", "young ", 6.0 * DAY, 10).await;
    idem::Days::new(&pool).retain(WEEK).create().await.unwrap();
    let report = examine(&pool, &windows()).await;
    assert_eq!(report.findings, []);
    assert!(report.is_healthy());
    assert_eq!(report.to_string(), "nothing is wrong");
}

#[tokio::test]
async fn each_fault_of_the_table_is_found() {
    use Severity::{Error, Note, Warning};
    for (sql, severity, check, what) in [
        ("DROP TABLE processed_messages", Error, "table", "no table"),
        (
            "ALTER TABLE processed_messages DROP COLUMN result",
            Error,
            "table",
            "lacks columns",
        ),
        (
            "ALTER TABLE processed_messages DROP CONSTRAINT processed_messages_pkey, ADD PRIMARY KEY (consumer, message_id, processed_at)",
            Error,
            "primary-key",
            "time of arrival",
        ),
        (
            "ALTER TABLE processed_messages DROP CONSTRAINT processed_messages_pkey, ADD PRIMARY KEY (message_id)",
            Error,
            "primary-key",
            "(message_id)",
        ),
        (
            "ALTER TABLE processed_messages DROP CONSTRAINT processed_messages_pkey",
            Error,
            "primary-key",
            "()",
        ),
        (
            "ALTER TABLE processed_messages ALTER message_id TYPE character(1024)",
            Error,
            "columns",
            "message_id bpchar",
        ),
        (
            "DROP INDEX processed_messages_processed_at",
            Warning,
            "index",
            "reads the whole table",
        ),
        (
            "ALTER TABLE processed_messages SET UNLOGGED",
            Error,
            "durability",
            "unlogged",
        ),
        (
            "ALTER TABLE processed_messages ENABLE ROW LEVEL SECURITY",
            Warning,
            "rights",
            "row level security",
        ),
        (
            "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
             CREATE TRIGGER t BEFORE INSERT ON processed_messages FOR EACH ROW EXECUTE FUNCTION f()",
            Warning,
            "triggers",
            "triggers",
        ),
        (
            "SET synchronous_commit = off",
            Warning,
            "durability",
            "acknowledged",
        ),
        (
            "SET default_transaction_isolation = 'repeatable read'",
            Note,
            "isolation",
            "repeatable read",
        ),
        (
            "SET default_transaction_read_only = on",
            Error,
            "rights",
            "takes no writes",
        ),
        (idem::sql::POSTGRES_BY_DAY, Error, "days", "has no days"),
        (
            "CREATE UNIQUE INDEX other ON processed_messages (message_id)",
            Error,
            "primary-key",
            "(other)",
        ),
        (
            "ALTER TABLE processed_messages ALTER processed_at TYPE timestamp",
            Error,
            "columns",
            "type timestamp,",
        ),
    ] {
        let finding = finding_after(&[sql]).await;
        assert_eq!(
            (finding.severity, finding.check),
            (severity, check),
            "{sql}: {finding}"
        );
        assert!(finding.what.contains(what), "{sql}: {finding}");
        assert!(!finding.remedy.is_empty());
    }
}

#[tokio::test]
async fn a_collation_that_folds_is_found() {
    let finding = finding_after(&[
        "CREATE COLLATION folding (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "ALTER TABLE processed_messages ALTER message_id TYPE text COLLATE folding",
    ])
    .await;
    assert_eq!(
        (finding.severity, finding.check),
        (Severity::Error, "columns"),
        "{finding}"
    );
    assert!(finding.what.contains("folding"), "{finding}");
}

#[tokio::test]
async fn rights_that_are_missing_are_named() {
    for (granted, severity, missing) in [
        ("SELECT", Severity::Error, "INSERT, UPDATE, DELETE"),
        ("SELECT, INSERT, UPDATE", Severity::Note, "DELETE"),
    ] {
        let (fixture, pool) = table(1).await;
        let (role, schema) = (format!("{}_role", fixture.name()), fixture.name());
        let grant = format!(
            "CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT {granted} ON processed_messages TO {role}; SET ROLE {role}"
        );
        sqlx::raw_sql(AssertSqlSafe(grant))
            .execute(&pool)
            .await
            .unwrap();
        let report = examine(&pool, &windows()).await;
        let drop = format!("RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}");
        sqlx::raw_sql(AssertSqlSafe(drop))
            .execute(&pool)
            .await
            .unwrap();
        assert_eq!(report.findings.len(), 1, "{report}");
        assert_eq!(report.findings[0].severity, severity);
        assert!(report.findings[0].what.contains(missing), "{report}");
        assert!(
            report.findings[0]
                .remedy
                .contains(&format!("GRANT {missing}")),
            "{report}"
        );
    }
}

#[tokio::test]
async fn windows_lag_and_growth_are_found() {
    let (_fixture, pool) = table(1).await;
    claim(&pool, "billing", "late", 20.0 * DAY).await;
    claim(&pool, "mail", "kept", 20.0 * DAY).await;
    let windows = Windows::new()
        .window("billing", WEEK)
        .redelivery("billing", WEEK);
    let report = examine(&pool, &windows).await;
    assert!(!report.is_healthy());
    let found: Vec<_> = report
        .findings
        .iter()
        .map(|finding| (finding.severity, finding.check))
        .collect();
    assert_eq!(
        found,
        [
            (Severity::Error, "windows"),
            (Severity::Warning, "growth"),
            (Severity::Warning, "prune-lag")
        ],
        "{report}"
    );
    assert!(report.findings[1].what.contains("`mail`"));
    assert!(
        report.findings[2]
            .what
            .contains("1 claims of the consumer `billing`")
    );
    // What is due since a moment is no lag.
    let (_fixture, pool) = table(1).await;
    claim(&pool, "billing", "due", 7.5 * DAY).await;
    assert_eq!(
        examine(&pool, &Windows::new().window("billing", WEEK))
            .await
            .findings,
        []
    );
}

#[tokio::test]
async fn days_that_run_out_are_found() {
    for (ahead, severity) in [
        (0, Some(Severity::Warning)),
        (1, Some(Severity::Warning)),
        (2, None),
    ] {
        let (_fixture, pool) = table(1).await;
        idem::Days::new(&pool)
            .retain(Duration::from_hours(24))
            .ahead(ahead)
            .create()
            .await
            .unwrap();
        let report = examine(&pool, &windows()).await;
        let found = report
            .findings
            .first()
            .map(|finding| (finding.severity, finding.check));
        assert_eq!(
            found,
            severity.map(|severity| (severity, "days")),
            "{report}"
        );
    }
}

#[tokio::test]
async fn a_database_that_cannot_be_asked_is_an_error() {
    let fixture: Fixture<sqlx::Postgres> = Fixture::new().await;
    let pool = fixture.pool(1).await;
    pool.close().await;
    assert!(doctor_with(&pool, &windows()).await.is_err());
}

/// What is wrong with the days after these statements, where `{}` is today's partition.
async fn days_after(sql: &str) -> Report {
    let (_fixture, pool) = table(1).await;
    idem::Days::new(&pool)
        .retain(WEEK)
        .ahead(5)
        .create()
        .await
        .unwrap();
    let today: String = sqlx::query_scalar(
        "SELECT 'processed_messages_' || to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM_DD')",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql.replace("{}", &today)))
        .execute(&pool)
        .await
        .unwrap();
    let report = examine(&pool, &windows()).await;
    assert!(
        report
            .findings
            .iter()
            .all(|finding| finding.check == "days"),
        "{report}"
    );
    report
}

#[tokio::test]
async fn days_that_are_not_in_order_are_found() {
    let gap = days_after("DROP TABLE {}").await;
    assert_eq!(gap.findings[0].severity, Severity::Error, "{gap}");
    assert!(gap.findings[0].what.contains("none for today"), "{gap}");
    assert!(gap.findings[1].what.contains("1 days are missing"), "{gap}");
    let only_later = "DO $$ DECLARE t text; BEGIN FOR t IN SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace \
        AND relname ~ '^processed_messages_[0-9_]{10}$' AND relname <= '{}' LOOP EXECUTE 'DROP TABLE ' || t; END LOOP; END $$";
    let later = days_after(only_later).await;
    assert_eq!(later.findings[0].severity, Severity::Error, "{later}");
    let default =
        days_after("CREATE TABLE everything_else PARTITION OF processed_messages_by_day DEFAULT")
            .await;
    assert_eq!(default.findings[0].severity, Severity::Error, "{default}");
    assert!(
        default.findings[0].what.contains("everything_else"),
        "{default}"
    );
}

#[tokio::test]
async fn a_count_that_fails_is_a_finding() {
    let (_fixture, pool) = table(1).await;
    sqlx::raw_sql("ALTER TABLE processed_messages RENAME processed_at TO at; ALTER TABLE processed_messages ADD processed_at text")
        .execute(&pool)
        .await
        .unwrap();
    let report = examine(&pool, &windows()).await;
    assert!(
        report
            .findings
            .iter()
            .any(|finding| finding.check == "prune-lag"
                && finding.what.contains("cannot be counted")),
        "{report}"
    );
}
