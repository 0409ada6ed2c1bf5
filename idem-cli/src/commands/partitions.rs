use std::time::Duration;

use idem::{Days, Retain, Windows};
use serde::Serialize;
use sqlx::PgPool;

use crate::args::{Kind, PartitionAction};
use crate::database::{Database, Pool};
use crate::failure::{Code, Failure};
use crate::report::Report;
use crate::store;
use crate::terminal;
use crate::text::{self, Align};

const RIGHTS: &str = "to own the table `processed_messages_by_day`, and CREATE on its schema";

pub(super) fn only_postgres(kind: Kind) -> Failure {
    Failure::usage(format!(
        "the table by days is there for PostgreSQL only, and this is {}",
        kind.name()
    ))
    .remedy("`idem prune` removes claims from the table that all databases have")
}

pub(super) fn require_postgres(database: &Database) -> Result<&PgPool, Failure> {
    match &database.pool {
        Pool::Postgres(pool) => Ok(pool),
        Pool::MySql(_) | Pool::Sqlite(_) => Err(only_postgres(database.target.kind)),
    }
}

pub(super) async fn run(
    database: &Database,
    action: Option<PartitionAction>,
    retain: Option<Retain>,
    ahead: Option<u16>,
) -> Result<Report, Failure> {
    let pool = require_postgres(database)?;
    match action.unwrap_or(PartitionAction::List) {
        PartitionAction::List => {
            let document = Document {
                partitions: list(database, pool).await?,
                created: None,
                dropped: None,
            };
            Report::new(text(&document.partitions), &document)
        }
        PartitionAction::Create => {
            let number = create(database, retain, ahead).await?;
            let document = Document {
                partitions: list(database, pool).await?,
                created: Some(number),
                dropped: None,
            };
            let text = format!("{}\n{}", created(number), text(&document.partitions));
            Report::new(text, &document)
        }
        PartitionAction::DropExpired {
            redelivery,
            dry_run,
            yes,
        } => {
            let days = Days::new(pool).retain(window(retain, redelivery)?);
            drop_expired(database, pool, &days, dry_run, yes).await
        }
    }
}

/// How many partitions were created.
pub(super) async fn create(
    database: &Database,
    retain: Option<Retain>,
    ahead: Option<u16>,
) -> Result<u32, Failure> {
    let mut days = Days::new(require_postgres(database)?);
    if let Some(retain) = retain {
        days = days.retain(retain);
    }
    if let Some(ahead) = ahead {
        days = days.ahead(ahead);
    }
    let created = days.create().await;
    created.map_err(|error| database.explain(RIGHTS)(error.into()))
}

pub(super) fn created(number: u32) -> String {
    match number {
        0 => "every partition was there".to_owned(),
        number => format!(
            "created {}",
            text::count(number.into(), "partition", "partitions")
        ),
    }
}

/// How long days are kept, if that is longer than the broker may redeliver.
fn window(retain: Option<Retain>, redelivery: Option<Duration>) -> Result<Retain, Failure> {
    let Some(retain) = retain else {
        let what = "nothing says how long days are kept, so that none is expired";
        return Err(Failure::usage(what).remedy(
            "add, for example, `--retain 7d --redelivery 4d`; the first must exceed the second",
        ));
    };
    if redelivery.is_none() && retain != Retain::Forever {
        let what = "nothing says how long the broker may redeliver, so that nobody can tell whether the days are kept long enough; a message of a day that \
            is gone is refused";
        return Err(Failure::usage(what).remedy("add `--redelivery 4d`, with the longest time after which a message may still come again"));
    }
    let windows = Windows::new()
        .default_window(retain)
        .default_redelivery(redelivery.unwrap_or_default());
    windows
        .check()
        .map_err(|invalid| Failure::usage(invalid.to_string()))?;
    Ok(retain)
}

async fn drop_expired(
    database: &Database,
    pool: &PgPool,
    days: &Days,
    dry_run: bool,
    yes: bool,
) -> Result<Report, Failure> {
    let before = list(database, pool).await?;
    let expired = days.expired().await;
    let expired: Vec<String> = expired
        .map_err(|error| database.explain(RIGHTS)(error.into()))?
        .iter()
        .map(|partition| partition.day.to_string())
        .collect();
    let what = format!(
        "{}: {}",
        text::count(expired.len().try_into().unwrap_or(0), "day", "days"),
        expired.join(", ")
    );
    let report = |partitions, dropped: Vec<String>, text: String| {
        let document = Document {
            partitions,
            created: None,
            dropped: Some(dropped),
        };
        Report::new(text, &document)
    };
    if expired.is_empty() {
        return report(
            before,
            expired,
            "dropped nothing: no day is past its window".to_owned(),
        );
    }
    if dry_run {
        return report(
            before,
            Vec::new(),
            format!("would drop {what}; nothing was changed (--dry-run)"),
        );
    }
    if !yes {
        if !terminal::can_ask() {
            let what = "drop-expired asks before it drops days, and there is no terminal to ask at";
            return Err(Failure::usage(what).remedy("add `--yes`; nothing was dropped"));
        }
        terminal::note(format_args!(
            "{what}\nTheir claims go with them, of all consumers. Later deliveries of their messages are refused."
        ));
        if !terminal::ask(&format!("Drop these days from {}?", database.target)).await {
            return Err(Failure::new(
                Code::Declined,
                "declined; nothing was dropped",
            ));
        }
    }
    let dropped = days.drop_expired().await;
    dropped.map_err(|error| database.explain(RIGHTS)(error.into()))?;
    let partitions = list(database, pool).await?;
    let is_gone =
        |partition: &&Partition| partitions.iter().all(|kept| kept.table != partition.table);
    let dropped: Vec<String> = before
        .iter()
        .filter(is_gone)
        .map(|partition| partition.day.clone())
        .collect();
    let text = format!(
        "dropped {}: {}",
        text::count(dropped.len().try_into().unwrap_or(0), "day", "days"),
        dropped.join(", ")
    );
    report(partitions, dropped, text)
}

#[derive(Serialize)]
struct Document {
    partitions: Vec<Partition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<u32>,
    /// The days.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Partition {
    day: String,
    table: String,
    /// As PostgreSQL believes; null if it has never counted.
    rows_estimate: Option<u64>,
    bytes: u64,
    is_attached: bool,
}

async fn list(database: &Database, pool: &PgPool) -> Result<Vec<Partition>, Failure> {
    let shape = store::require(pool, database).await?;
    if !shape.has_days {
        let what = format!(
            "there is no table `processed_messages_by_day` in {}",
            shape.place
        );
        return Err(Failure::new(Code::NoTable, what).remedy(
            "handlers with `time` need it, and others do not; `idem partitions create --retain 7d` creates it",
        ));
    }
    let list = Days::new(pool).list().await;
    let list = list.map_err(|error| database.explain(RIGHTS)(error.into()))?;
    Ok(list
        .into_iter()
        .map(|partition| Partition {
            day: partition.day.to_string(),
            table: partition.table,
            rows_estimate: partition.rows,
            bytes: partition.bytes,
            is_attached: partition.is_attached,
        })
        .collect())
}

fn text(partitions: &[Partition]) -> String {
    if partitions.is_empty() {
        return "the table by days has no partition: `idem partitions create --retain 7d` creates them".to_owned();
    }
    let mut table = text::Table::new(&[
        ("day", Align::Left),
        ("rows", Align::Right),
        ("size", Align::Right),
        ("table", Align::Left),
    ]);
    for partition in partitions {
        let note = if partition.is_attached {
            ""
        } else {
            " (detached, to be dropped)"
        };
        table.row([
            partition.day.clone(),
            match partition.rows_estimate {
                Some(0) => "0".to_owned(),
                Some(rows) => format!("~{}", text::number(rows)),
                None => "?".to_owned(),
            },
            text::bytes(partition.bytes),
            format!("{}{note}", partition.table),
        ]);
    }
    table.to_string()
}
