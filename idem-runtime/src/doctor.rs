//! What may be wrong with the tables, the database's settings and the program's handlers.

mod finding;
mod program;

use sqlx::Pool;

use crate::backend::{Backend, BoxFuture, Closes};
use crate::error::{Error, Step};
use crate::prune::{self, chunks::Bounds};
use crate::source::{Guard, Lease, Source as _};
use crate::{Retain, Windows, handlers};

pub use finding::{Finding, Report, Severity};

/// Looks for what would lose or repeat messages, or fill the disk: at the tables, the session's settings, the claims that are due, and the
/// handlers of this program. Reads only. For a check at start-up:
///
/// ```no_run
/// # extern crate idem_runtime as idem;
/// # #[cfg(feature = "sqlite")]
/// # async fn example(pool: sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
/// let report = idem::doctor(&pool).await?;
/// if !report.is_healthy() {
///     return Err(report.to_string().into());
/// }
/// # Ok(())
/// # }
/// ```
///
/// | check | what is looked at |
/// |---|---|
/// | `table` | the tables and their columns are there |
/// | `primary-key` | it is exactly the consumer and the key (and the message's day), and nothing that differs between deliveries |
/// | `columns` | keys compare byte by byte, and none is cut off |
/// | `durability` | what is committed survives a crash, so that an acknowledged message is not lost |
/// | `index`, `pruner` | the pruner finds old claims without reading all, and the server knows its statements |
/// | `rights` | what the user may do, and that the server takes writes |
/// | `triggers` | none stand on the table of claims |
/// | `isolation`, `pooler` | how the session is set up, and what stands between |
/// | `windows`, `prune-lag`, `growth` | windows that are too short, claims that should be gone, claims that are kept for ever |
/// | `days` | partitions for today and the days ahead |
/// | `shared-consumer` | handlers that share a consumer's name |
///
/// # Errors
///
/// [`Error`] when the database cannot be asked. What is wrong with it is no error, but a [`Finding`].
pub async fn doctor<DB: Backend>(pool: &Pool<DB>) -> Result<Report, Error> {
    doctor_with(pool, &Windows::of_handlers()).await
}

/// As [`doctor`], with windows other than those that the handlers give.
///
/// # Errors
///
/// As there.
pub async fn doctor_with<DB: Backend>(pool: &Pool<DB>, windows: &Windows) -> Result<Report, Error> {
    let mut findings = Vec::new();
    program::examine(windows, &mut findings);
    if let Err(invalid) = windows.check() {
        findings.push(Finding::error(
            "windows",
            invalid.to_string(),
            "make `retain` longer, or correct `redelivery`",
        ));
    }
    let mut lease = pool.lease().await?;
    let (conn, guard) = lease.split();
    guard.close = DB::CLOSES == Closes::UntilItEnds;
    let has_table = DB::examine(conn, windows, &mut findings)
        .await
        .map_err(failed)?;
    *guard = Guard::default();
    if has_table {
        age::<DB>(&mut lease, windows, &mut findings).await;
    }
    drop(lease);
    let limit = std::time::Duration::from_secs(5);
    let pooler = sqlx_core::rt::timeout(limit, DB::find_pooler(pool)).await;
    findings.extend(pooler.ok().flatten());
    findings.sort_by_key(|finding| finding.severity);
    Ok(Report { findings })
}

/// What is asked of each database in its own way.
pub trait Examine: sqlx::Database {
    /// Adds what is wrong; whether the table of claims is there, so that more can be asked of it.
    fn examine<'a>(
        conn: &'a mut Self::Connection,
        windows: &'a Windows,
        findings: &'a mut Vec<Finding>,
    ) -> BoxFuture<'a, Result<bool, sqlx::Error>>;

    /// A pooler that gives each transaction another session.
    fn find_pooler(pool: &Pool<Self>) -> BoxFuture<'_, Option<Finding>> {
        let _ = pool;
        Box::pin(std::future::ready(None))
    }
}

/// Claims that a pruner should have removed, and those that none ever will.
async fn age<DB: Backend>(
    lease: &mut Lease<'_, DB>,
    windows: &Windows,
    findings: &mut Vec<Finding>,
) {
    let mut late = Bounds::new(windows);
    late.stretch(|window| window * 1.1 + 24.0 * 60.0 * 60.0);
    let (consumers, due) = match prune::run::due(lease, &late).await {
        Ok(found) => found,
        Err(error) => {
            return findings.push(Finding::warning(
                "prune-lag",
                format!("the claims that should be gone cannot be counted: {error}"),
                "look into the error, and at `idem status`",
            ));
        }
    };
    for consumer in windows.without_window(&consumers) {
        // Those of this program are named with their handlers.
        if handlers().any(|handler| handler.consumer == consumer) {
            continue;
        }
        findings.push(Finding::warning(
            "growth",
            format!("the claims of the consumer `{consumer}` have no window, so that they are kept for ever and the table grows"),
            "give its handler `retain` and `redelivery`, or the pruner a window for it; `retain = \"forever\"` says that it is meant",
        ));
    }
    for due in due {
        let retain = windows.retain_of(&due.consumer).unwrap_or(Retain::Forever);
        findings.push(Finding::warning(
            "prune-lag",
            format!(
                "{} claims of the consumer `{}` should be gone since more than a day (window {retain}, oldest {})",
                due.claims,
                due.consumer,
                due.oldest.as_deref().unwrap_or("unknown")
            ),
            "run an `idem::Pruner` in one of your programs, or `idem prune`; if one runs, look for its errors",
        ));
    }
}

fn failed(error: sqlx::Error) -> Error {
    Error::database(Step::Doctor)(error)
}
