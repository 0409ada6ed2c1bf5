use serde::Serialize;
use sqlx::Pool;

use crate::database::Database;
use crate::failure::Failure;
use crate::report::Report;
use crate::store::Store;

#[derive(Serialize)]
struct Document {
    /// `created`, `upgraded` or `unchanged`.
    table: &'static str,
    /// What an older table has got.
    columns_added: Vec<String>,
    index_added: bool,
    /// With --by-day.
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions_created: Option<u32>,
}

const RIGHTS: &str = "the right to create tables and indexes (PostgreSQL: CREATE on the schema, and to own a table that is to be upgraded)";

pub(super) async fn run<DB: Store>(
    pool: &Pool<DB>,
    database: &Database,
    by_day: bool,
) -> Result<Report, Failure> {
    if by_day {
        super::partitions::require_postgres(database)?;
    }
    let explain = database.explain(RIGHTS);
    let before = DB::shape(pool)
        .await
        .map_err(|error| explain(error.into()))?;
    idem::migrate(pool)
        .await
        .map_err(|error| explain(error.into()))?;
    let after = DB::shape(pool)
        .await
        .map_err(|error| explain(error.into()))?;
    let columns_added: Vec<String> = if before.is_missing() {
        Vec::new()
    } else {
        let is_new = |column: &&String| !before.columns.contains(column);
        after.columns.iter().filter(is_new).cloned().collect()
    };
    let index_added = !before.is_missing() && !before.has_index && after.has_index;
    let mut added: Vec<String> = columns_added
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    if index_added {
        added.push("the pruner's index".to_owned());
    }
    let (table, done) = if before.is_missing() {
        ("created", "created".to_owned())
    } else if added.is_empty() {
        ("unchanged", "up to date".to_owned())
    } else {
        ("upgraded", format!("upgraded by {}", added.join(", ")))
    };
    let mut text = format!("table `processed_messages` in {}: {done}", after.place);
    let mut partitions_created = None;
    if by_day {
        let created = super::partitions::create(database, None, None).await?;
        text = format!("{text}\n{}", super::partitions::created(created));
        partitions_created = Some(created);
    }
    let document = Document {
        table,
        columns_added,
        index_added,
        partitions_created,
    };
    Report::new(text, &document)
}
