use sqlx::{Row as _, Sqlite, SqliteConnection};

use crate::backend::{BoxFuture, Dialect as _};
use crate::doctor::Examine;
use crate::{Finding, Windows};

const MIGRATE: &str = "run `idem::migrate(&pool).await?` or `idem migrate`";

impl Examine for Sqlite {
    fn examine<'a>(
        conn: &'a mut SqliteConnection,
        _: &'a Windows,
        findings: &'a mut Vec<Finding>,
    ) -> BoxFuture<'a, Result<bool, sqlx::Error>> {
        Box::pin(async move {
            durability(conn, findings).await?;
            // Columns are named in quotes nowhere, so that a missing one is no text here.
            let columns =
                sqlx::query("SELECT name, type, pk FROM pragma_table_info('processed_messages')")
                    .fetch_all(&mut *conn)
                    .await?;
            if columns.is_empty() {
                findings.push(Finding::error(
                    "table",
                    "there is no table `processed_messages`",
                    MIGRATE,
                ));
                return Ok(false);
            }
            let mut key = Vec::new();
            for column in &columns {
                let (name, kind): (String, String) = (column.try_get(0)?, column.try_get(1)?);
                if column.try_get::<i64, _>(2)? > 0 {
                    key.push(name.clone());
                }
                if ["consumer", "message_id"].contains(&name.as_str()) && !keeps_text(&kind) {
                    findings.push(Finding::error(
                        "columns",
                        format!("the column `{name}` is of the type {kind}, which makes numbers of texts: the keys `7` and `007` are one"),
                        "create the table anew from `idem schema`, where it is `text`, and copy the claims",
                    ));
                }
            }
            let processed_at = columns.iter().find_map(|column| {
                let name: String = column.try_get(0).ok()?;
                (name == "processed_at")
                    .then(|| column.try_get::<String, _>(1).ok())
                    .flatten()
            });
            if let Some(kind) = processed_at.filter(|kind| !keeps_text(kind)) {
                findings.push(Finding::processed_at(&kind, "text"));
            }
            key.sort();
            if key != ["consumer", "message_id"] {
                findings.push(Finding::error(
                    "primary-key",
                    format!("the primary key is ({}), and not (consumer, message_id): messages are merged, or redeliveries are not recognised", key.join(", ")),
                    "create the table anew from `idem schema`, and copy the claims",
                ));
            }
            let unique: Option<String> = sqlx::query_scalar(
                "SELECT group_concat(name, ', ') FROM pragma_index_list('processed_messages') WHERE \"unique\" = 1 AND origin <> 'pk'",
            )
            .fetch_one(&mut *conn)
            .await?;
            if let Some(indexes) = unique {
                findings.push(Finding::unique(&indexes));
            }
            collations(conn, findings).await?;
            if !has_index(conn).await? {
                findings.push(Finding::warning(
                    "index",
                    "there is no index on (consumer, processed_at), so that each run of the pruner reads the whole table",
                    MIGRATE,
                ));
            } else if Self::probe(conn).await.is_err() {
                findings.push(Finding::error(
                    "table",
                    "the table `processed_messages` lacks columns",
                    MIGRATE,
                ));
            }
            let triggers: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'processed_messages'").fetch_one(conn).await?;
            if triggers > 0 {
                findings.push(Finding::warning(
                    "triggers",
                    "there are triggers on `processed_messages`; one that changes or skips a row makes a message new or a duplicate that is not",
                    "put them on tables of yours",
                ));
            }
            Ok(true)
        })
    }
}

/// By the rules of <https://www.sqlite.org/datatype3.html#determination_of_column_affinity>
fn keeps_text(kind: &str) -> bool {
    let kind = kind.to_uppercase();
    let is_number = kind.contains("INT");
    let is_text = ["CHAR", "CLOB", "TEXT"]
        .iter()
        .any(|text| kind.contains(text));
    !is_number && (is_text || kind.is_empty() || kind.contains("BLOB"))
}

async fn durability(
    conn: &mut SqliteConnection,
    findings: &mut Vec<Finding>,
) -> Result<(), sqlx::Error> {
    let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous")
        .fetch_one(&mut *conn)
        .await?;
    let journal: String = sqlx::query_scalar("PRAGMA journal_mode")
        .fetch_one(&mut *conn)
        .await?;
    let is_unsafe = synchronous == 0 || journal == "off" || synchronous == 1 && journal == "wal";
    if is_unsafe {
        findings.push(Finding::warning(
            "durability",
            format!("with `synchronous` at {synchronous} and the journal mode `{journal}`, a delivery that was acknowledged may be gone after a loss of power, and its message is lost"),
            "connect with `.synchronous(SqliteSynchronous::Full)`",
        ));
    }
    let is_read_only: i64 = sqlx::query_scalar("PRAGMA query_only")
        .fetch_one(conn)
        .await?;
    if is_read_only != 0 {
        findings.push(Finding::error(
            "rights",
            "the connection takes no writes",
            "connect without `query_only`",
        ));
    }
    Ok(())
}

async fn collations(
    conn: &mut SqliteConnection,
    findings: &mut Vec<Finding>,
) -> Result<(), sqlx::Error> {
    let folded: Vec<String> = sqlx::query_scalar(
        "SELECT part.name || ' ' || part.coll FROM pragma_index_list('processed_messages') AS list, pragma_index_xinfo(list.name) AS part \
         WHERE list.origin = 'pk' AND part.key = 1 AND upper(part.coll) <> 'BINARY'",
    )
    .fetch_all(conn)
    .await?;
    if !folded.is_empty() {
        findings.push(Finding::error(
            "columns",
            format!(
                "keys do not compare byte by byte: {}; different messages may count as one",
                folded.join(", ")
            ),
            "create the table anew from `idem schema`, and copy the claims",
        ));
    }
    Ok(())
}

async fn has_index(conn: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "SELECT count(*) > 0 FROM pragma_index_list('processed_messages') AS list, pragma_index_info(list.name) AS part \
         WHERE list.origin = 'c' AND part.name = 'processed_at' AND part.seqno <= 1",
    )
    .fetch_one(conn)
    .await
}
