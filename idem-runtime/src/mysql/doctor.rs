use sqlx::{MySql, MySqlConnection, Row as _};

use crate::backend::{BoxFuture, Dialect as _};
use crate::doctor::Examine;
use crate::{Finding, MAX_CONSUMER_BYTES, MAX_KEY_BYTES, Windows};

const MIGRATE: &str = "run `idem::migrate(&pool).await?` or `idem migrate`";

const SESSION: &str = "SELECT CAST(@@autocommit AS SIGNED), CAST(@@innodb_flush_log_at_trx_commit AS SIGNED), \
    CAST(@@global.read_only AS SIGNED), CAST(VERSION() AS CHAR), CAST(@@global.binlog_format AS CHAR), CAST(@@global.log_bin AS SIGNED)";

const COLUMNS: &str = "SELECT CAST(column_name AS CHAR), CAST(data_type AS CHAR), CAST(character_octet_length AS SIGNED), \
    CAST(COALESCE(collation_name, '') AS CHAR) \
    FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'processed_messages'";

impl Examine for MySql {
    fn examine<'a>(
        conn: &'a mut MySqlConnection,
        _: &'a Windows,
        findings: &'a mut Vec<Finding>,
    ) -> BoxFuture<'a, Result<bool, sqlx::Error>> {
        Box::pin(async move {
            session(conn, findings).await?;
            let columns = sqlx::query(COLUMNS)
                .persistent(false)
                .fetch_all(&mut *conn)
                .await?;
            if columns.is_empty() {
                findings.push(Finding::error("table", "there is no table `processed_messages` in the database, or the user may not see it", MIGRATE));
                return Ok(false);
            }
            for column in &columns {
                let (name, kind): (String, String) = (column.try_get(0)?, column.try_get(1)?);
                let (bytes, collation): (Option<i64>, String) =
                    (column.try_get(2)?, column.try_get(3)?);
                if name == "processed_at" && kind != "timestamp" {
                    findings.push(Finding::processed_at(&kind, "timestamp"));
                }
                let limit = match name.as_str() {
                    "consumer" => MAX_CONSUMER_BYTES,
                    "message_id" => MAX_KEY_BYTES,
                    _ => continue,
                };
                key_column(
                    &name,
                    &kind,
                    &collation,
                    bytes.unwrap_or_default(),
                    limit,
                    findings,
                );
            }
            indexes(conn, findings).await?;
            table(conn, findings).await?;
            rights(conn, findings).await;
            Ok(true)
        })
    }
}

async fn session(
    conn: &mut MySqlConnection,
    findings: &mut Vec<Finding>,
) -> Result<(), sqlx::Error> {
    let row = sqlx::query(SESSION)
        .persistent(false)
        .fetch_one(conn)
        .await?;
    let (autocommit, flush, read_only): (i64, i64, i64) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    if autocommit != 1 {
        findings.push(Finding::error(
            "isolation",
            "`autocommit` is 0: there is always a transaction, and one with deliveries that has ended goes unnoticed",
            "leave `autocommit` on",
        ));
    }
    if flush != 1 {
        findings.push(Finding::warning(
            "durability",
            format!("`innodb_flush_log_at_trx_commit` is {flush}: after a crash of the server a delivery that was acknowledged may be gone with its claim, and its message is lost"),
            "set it to 1",
        ));
    }
    if read_only != 0 {
        findings.push(Finding::error(
            "rights",
            "the server takes no writes: it is a replica, or `read_only` is on",
            "connect to the primary",
        ));
    }
    let version: String = row.try_get(3)?;
    if !knows_skip_locked(&version) {
        findings.push(Finding::warning(
            "pruner",
            format!("the server ({version}) does not know SKIP LOCKED, which the pruner needs"),
            "upgrade to MySQL 8.0 or MariaDB 10.6, or remove old claims by other means, while no consumer runs",
        ));
    }
    let (format, logs): (String, i64) = (row.try_get(4)?, row.try_get(5)?);
    if logs != 0 && format.eq_ignore_ascii_case("STATEMENT") {
        findings.push(Finding::warning(
            "pruner",
            "`binlog_format` is STATEMENT, with which the pruner's transactions (READ COMMITTED) are refused",
            "set it to MIXED or ROW",
        ));
    }
    Ok(())
}

/// `8.0.36`, `10.11.6-MariaDB-0+deb12u1`.
fn knows_skip_locked(version: &str) -> bool {
    let mut numbers = version
        .split(['.', '-'])
        .map(|part| part.parse::<u32>().unwrap_or_default());
    let version_number = (
        numbers.next().unwrap_or_default(),
        numbers.next().unwrap_or_default(),
    );
    version_number
        >= if version.contains("MariaDB") {
            (10, 6)
        } else {
            (8, 0)
        }
}

fn key_column(
    name: &str,
    kind: &str,
    collation: &str,
    bytes: i64,
    limit: usize,
    findings: &mut Vec<Finding>,
) {
    // A `_bin` collation compares bytes, and still ignores trailing blanks unless it says otherwise.
    let is_exact = kind == "varbinary"
        || kind == "varchar"
            && collation.ends_with("_bin")
            && (collation.contains("nopad") || collation.contains("0900"));
    if !is_exact {
        findings.push(Finding::error(
            "columns",
            format!("the column `{name}` is {kind} {collation}, whose values do not compare byte by byte: case, accents or trailing blanks are ignored, and different messages count as one"),
            format!("`ALTER TABLE processed_messages MODIFY {name} varbinary({limit}) NOT NULL`"),
        ));
    } else if usize::try_from(bytes).unwrap_or_default() < limit {
        findings.push(Finding::error(
            "columns",
            format!("the column `{name}` takes {bytes} bytes, and keys may have {limit}: a longer one fails, or is cut off where the session is not strict"),
            format!("`ALTER TABLE processed_messages MODIFY {name} varbinary({limit}) NOT NULL`"),
        ));
    }
}

/// The primary key, whole; no other index may be unique; and the pruner's.
async fn indexes(
    conn: &mut MySqlConnection,
    findings: &mut Vec<Finding>,
) -> Result<(), sqlx::Error> {
    let parts = sqlx::query(
        "SELECT CAST(index_name AS CHAR), CAST(column_name AS CHAR), CAST(sub_part AS SIGNED), CAST(non_unique AS SIGNED), CAST(seq_in_index AS SIGNED) \
         FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'processed_messages' ORDER BY index_name, seq_in_index",
    )
    .persistent(false)
    .fetch_all(conn)
    .await?;
    let (mut key, mut unique, mut has_index) = (Vec::new(), Vec::new(), false);
    for part in parts {
        let (index, column): (String, String) = (part.try_get(0)?, part.try_get(1)?);
        let (prefix, non_unique): (Option<i64>, i64) = (part.try_get(2)?, part.try_get(3)?);
        has_index |= column == "processed_at" && part.try_get::<i64, _>(4)? <= 2;
        if index == "PRIMARY" {
            key.push(prefix.map_or_else(|| column.clone(), |bytes| format!("{column}({bytes})")));
        } else if non_unique == 0 && !unique.contains(&index) {
            unique.push(index);
        }
    }
    key.sort();
    if key != ["consumer", "message_id"] {
        findings.push(Finding::error(
            "primary-key",
            format!("the primary key is ({}), and not (consumer, message_id): with less in it, or a part of a column, messages are merged, and with more, above all a time of arrival, redeliveries are not recognised", key.join(", ")),
            "`ALTER TABLE processed_messages DROP PRIMARY KEY, ADD PRIMARY KEY (consumer, message_id)`",
        ));
    }
    if !unique.is_empty() {
        findings.push(Finding::unique(&unique.join(", ")));
    }
    if !has_index {
        findings.push(Finding::warning(
            "index",
            "there is no index on (consumer, processed_at), so that each run of the pruner reads the whole table",
            MIGRATE,
        ));
    }
    Ok(())
}

/// To explain a statement takes the rights to run it, wherever they come from.
async fn rights(conn: &mut MySqlConnection, findings: &mut Vec<Finding>) {
    let mut missing = Vec::new();
    for (right, sql) in [
        ("SELECT", "SELECT 1 FROM processed_messages WHERE 1 = 0"),
        (
            "INSERT",
            "EXPLAIN INSERT INTO processed_messages (consumer, message_id) VALUES ('', '')",
        ),
        (
            "UPDATE",
            "EXPLAIN UPDATE processed_messages SET version = 1 WHERE consumer = '' AND message_id = ''",
        ),
        (
            "DELETE",
            "EXPLAIN DELETE FROM processed_messages WHERE consumer = '' AND message_id = ''",
        ),
    ] {
        let explained = sqlx::raw_sql(sql).execute(&mut *conn).await;
        // TABLEACCESS_DENIED, COLUMNACCESS_DENIED
        if explained.is_err_and(|error| matches!(number(&error), Some(1142 | 1143))) {
            missing.push(right);
        }
    }
    if missing.is_empty() {
        return;
    }
    let missing = missing.join(", ");
    let what = format!("the user lacks {missing} on `processed_messages`");
    let remedy = format!("`GRANT {missing} ON processed_messages TO …`");
    findings.push(if missing == "DELETE" {
        Finding::note("rights", format!("{what}, which the pruner needs"), remedy)
    } else {
        Finding::error("rights", what, remedy)
    });
}

fn number(error: &sqlx::Error) -> Option<u16> {
    let error = error.as_database_error()?;
    let error = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>()?;
    Some(error.number())
}

async fn table(conn: &mut MySqlConnection, findings: &mut Vec<Finding>) -> Result<(), sqlx::Error> {
    let engine: Option<String> = sqlx::query_scalar(
        "SELECT CAST(engine AS CHAR) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'processed_messages'",
    )
    .persistent(false)
    .fetch_one(&mut *conn)
    .await?;
    if engine.as_deref() != Some("InnoDB") {
        findings.push(Finding::error(
            "table",
            format!("the table's engine is {}, which has no transactions: a claim stays when its delivery is rolled back, and the message is lost", engine.unwrap_or_default()),
            "`ALTER TABLE processed_messages ENGINE = InnoDB`",
        ));
    }
    if MySql::probe(conn).await.is_err() && findings.iter().all(|finding| finding.check != "index")
    {
        findings.push(Finding::error(
            "table",
            "the table `processed_messages` lacks columns, or may not be read",
            MIGRATE,
        ));
    }
    let triggers: i64 = sqlx::query_scalar(
        "SELECT COUNT(*) FROM information_schema.triggers WHERE event_object_schema = DATABASE() AND event_object_table = 'processed_messages'",
    )
    .persistent(false)
    .fetch_one(conn)
    .await?;
    if triggers > 0 {
        findings.push(Finding::warning(
            "triggers",
            "there are triggers on `processed_messages`; one that changes or skips a row makes a message new or a duplicate that is not",
            "put them on tables of yours",
        ));
    }
    Ok(())
}
