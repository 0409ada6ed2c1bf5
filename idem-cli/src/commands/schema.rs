use idem::sql;
use serde::Serialize;

use crate::args::Kind;
use crate::failure::Failure;
use crate::report::Report;
use crate::url;

/// Which of the statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Table,
    ByDay,
    Upgrade,
    Archive,
}

impl Part {
    /// The options exclude each other.
    pub(super) fn of(by_day: bool, upgrade: bool, archive: bool) -> Self {
        match (by_day, upgrade, archive) {
            (true, _, _) => Self::ByDay,
            (_, true, _) => Self::Upgrade,
            (_, _, true) => Self::Archive,
            _ => Self::Table,
        }
    }
}

#[derive(Serialize)]
struct Document {
    database: &'static str,
    sql: &'static str,
}

pub(super) fn run(kind: Option<Kind>, part: Part, url: Option<&str>) -> Result<Report, Failure> {
    let kind = match kind {
        Some(kind) => kind,
        None if url.is_none_or(|url| url.trim().is_empty()) => {
            return Err(Failure::usage(
                "nothing says for which database the SQL is to be",
            )
            .remedy(
                "pass `--database postgres`, `mysql` (also for MariaDB) or `sqlite`, or set DATABASE_URL",
            ));
        }
        None => url::kind(url)?,
    };
    let sql = match (kind, part) {
        (Kind::Postgres, Part::Table) => sql::POSTGRES,
        (Kind::Postgres, Part::ByDay) => sql::POSTGRES_BY_DAY,
        (Kind::Postgres, Part::Upgrade) => sql::POSTGRES_UPGRADE,
        (Kind::Postgres, Part::Archive) => sql::POSTGRES_ARCHIVE,
        (Kind::Mysql, Part::Table) => sql::MYSQL,
        (Kind::Mysql, Part::Upgrade) => sql::MYSQL_UPGRADE,
        (Kind::Mysql, Part::Archive) => sql::MYSQL_ARCHIVE,
        (Kind::Sqlite, Part::Table) => sql::SQLITE,
        (Kind::Sqlite, Part::Upgrade) => sql::SQLITE_UPGRADE,
        (Kind::Sqlite, Part::Archive) => sql::SQLITE_ARCHIVE,
        (Kind::Mysql | Kind::Sqlite, Part::ByDay) => {
            return Err(super::partitions::only_postgres(kind));
        }
    };
    Report::new(
        sql,
        &Document {
            database: kind.id(),
            sql,
        },
    )
}
