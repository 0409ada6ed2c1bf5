use std::fmt::Write as _;

use serde::Serialize;
use sqlx::Pool;

use crate::database::Database;
use crate::failure::Failure;
use crate::report::Report;
use crate::store::{self, Consumer, Store, Table};
use crate::terminal::Style;
use crate::text::{self, Align};

/// From this size on a table is estimated. Counting takes about a second.
const LARGE: u64 = 512 * 1024 * 1024;

/// How hard to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    BySize,
    Exact,
    Estimate,
}

impl Effort {
    pub(super) fn of(exact: bool, estimate: bool) -> Self {
        match (exact, estimate) {
            (true, _) => Self::Exact,
            (_, true) => Self::Estimate,
            _ => Self::BySize,
        }
    }
}

#[derive(Serialize)]
struct Document {
    database: &'static str,
    /// The database's clock.
    now: String,
    tables: Vec<OfTable>,
}

#[derive(Serialize)]
struct OfTable {
    table: Table,
    /// With its indexes; on SQLite of the whole file.
    bytes: u64,
    is_estimate: bool,
    rows: Option<u64>,
    consumers: Vec<Consumer>,
}

pub(super) async fn run<DB: Store>(
    pool: &Pool<DB>,
    database: &Database,
    effort: Effort,
) -> Result<Report, Failure> {
    let shape = store::require(pool, database).await?;
    let explain = database.explain("SELECT on processed_messages");
    let mut tables = Vec::new();
    for table in shape.tables() {
        let of_table = of_table(pool, table, effort).await;
        tables.push(of_table.map_err(|error| explain(error.into()))?);
    }
    let now = DB::now(pool).await.map_err(|error| explain(error.into()))?;
    let document = Document {
        database: database.target.kind.id(),
        now,
        tables,
    };
    let head = format!(
        "{} {}, {}",
        database.target.kind.name(),
        database.target,
        text::time(&document.now)
    );
    Report::new(text(&head, &document), &document)
}

async fn of_table<DB: Store>(
    pool: &Pool<DB>,
    table: Table,
    effort: Effort,
) -> Result<OfTable, sqlx::Error> {
    let size = DB::size(pool, table).await?;
    let is_estimate = DB::ESTIMATES
        && match effort {
            Effort::Exact => false,
            Effort::Estimate => true,
            Effort::BySize => size.bytes > LARGE,
        };
    let consumers = if is_estimate {
        DB::estimate(pool, table).await?
    } else {
        DB::count(pool, table).await?
    };
    let known: Option<u64> = consumers.iter().map(|consumer| consumer.rows).sum();
    Ok(OfTable {
        table,
        bytes: size.bytes,
        is_estimate,
        rows: known.or(size.rows),
        consumers,
    })
}

fn text(head: &str, document: &Document) -> String {
    let mut out = format!("{head}\n");
    for of_table in &document.tables {
        out.push('\n');
        write_table(&mut out, of_table, document).ok();
    }
    let is_estimate = document.tables.iter().any(|table| table.is_estimate);
    if is_estimate {
        let note = "\n~ estimated; ? not known without reading the whole table, which --exact does";
        out.push_str(&Style::Faint.paint(note));
        out.push('\n');
    }
    out
}

fn write_table(out: &mut String, of_table: &OfTable, document: &Document) -> std::fmt::Result {
    let about = if of_table.is_estimate { "~" } else { "" };
    let number = |number: Option<u64>| match number {
        // None at all is no estimate.
        Some(0) => "0".to_owned(),
        Some(number) => format!("{about}{}", text::number(number)),
        None => "?".to_owned(),
    };
    let what = if document.database == "sqlite" {
        " (the whole file)"
    } else {
        ""
    };
    writeln!(
        out,
        "{}  {} rows, {}{what}",
        Style::Bold.paint(of_table.table.name()),
        number(of_table.rows),
        text::bytes(of_table.bytes),
    )?;
    if of_table.consumers.is_empty() {
        return writeln!(out, "no claims yet");
    }
    let mut table = text::Table::new(&[
        ("consumer", Align::Left),
        ("rows", Align::Right),
        ("business keys", Align::Right),
        ("versions", Align::Right),
        ("last hour", Align::Right),
        ("last day", Align::Right),
        ("newest", Align::Right),
        ("oldest", Align::Right),
        ("since", Align::Left),
    ]);
    // The oldest and the newest of those that were looked at.
    let age = |age: Option<i64>| {
        age.map_or_else(
            || "?".to_owned(),
            |age| format!("{about}{}", text::age(age)),
        )
    };
    for consumer in &of_table.consumers {
        table.row([
            text::shown(&consumer.name),
            number(consumer.rows),
            number(consumer.business_keys),
            number(consumer.versions),
            number(consumer.last_hour),
            number(consumer.last_day),
            age(consumer.newest_age_seconds),
            age(consumer.oldest_age_seconds),
            consumer
                .oldest
                .as_deref()
                .map_or_else(|| "?".to_owned(), text::time),
        ]);
    }
    write!(out, "{table}")
}
