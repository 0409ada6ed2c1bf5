mod names;
mod progress;

use std::sync::{Arc, Mutex};

use idem::{Archive, Due, PruneError, Pruned, Pruner};
use serde::Serialize;
use sqlx::Pool;
use tokio::sync::Notify;

use crate::args::PruneArgs;
use crate::database::Database;
use crate::failure::{Code, Failure};
use crate::report::Report;
use crate::store::{self, Store};
use crate::terminal::{self, Style};
use crate::text::{self, Align};

use progress::Progress;

/// What the command line alone tells to be wrong.
pub(super) fn check(args: &PruneArgs) -> Result<(), Failure> {
    if args.windows.is_empty() {
        let what = "nothing says how long claims are kept, so that nothing can be removed: `idem` does not know the windows that the handlers of your \
            program give";
        return Err(Failure::usage(what).remedy(
            "write, for example, `idem prune --retain 7d --redelivery 4d`; or run `idem::Pruner` in the program, which knows its handlers' windows",
        ));
    }
    if let Some(file) = &args.archive {
        let extension = file.extension().and_then(|extension| extension.to_str());
        if !matches!(extension, Some("jsonl" | "ndjson" | "gz")) {
            let what = format!(
                "--archive {}: the archive is a file of JSON Lines, whose name ends in .jsonl or .jsonl.gz",
                file.display()
            );
            return Err(Failure::usage(what).remedy("`--archive claims.jsonl.gz`; for the table `processed_messages_archive` there is `--archive-table`"));
        }
    }
    args.windows.windows().map(drop)
}

const RIGHTS: &str = "SELECT and DELETE on processed_messages; with --archive-table also INSERT on processed_messages_archive (or the right to create \
    it), and with a table by days to own it";

pub(super) async fn run<DB: Store>(
    pool: &Pool<DB>,
    database: &Database,
    args: &PruneArgs,
) -> Result<Report, Failure> {
    let shape = store::require(pool, database).await?;
    names::check(pool, &shape, database, args).await?;
    let pruner = pruner(pool, args)?;
    let explain = |error| explain(error, database, args);
    if args.dry_run {
        let due = pruner.preview().await.map_err(explain)?;
        return previewed(&due);
    }
    let progress = Progress::start(&pruner).await;
    let seen = Arc::new(Mutex::new(Pruned::default()));
    let stop = Arc::new(Stop::default());
    let pruner = pruner.on_progress({
        let (seen, stop, progress) = (Arc::clone(&seen), Arc::clone(&stop), progress.clone());
        move |pruned| {
            progress.show(pruned);
            if let Ok(mut seen) = seen.lock() {
                seen.clone_from(pruned);
            }
            stop.after_chunk();
        }
    });
    let ended = tokio::select! {
        ended = pruner.run_once() => Some(ended),
        () = stop.asked_for(&progress) => None,
    };
    progress.finish();
    let so_far = seen.lock().map(|seen| seen.clone()).unwrap_or_default();
    match ended {
        Some(Ok(totals)) => {
            let code = if totals.is_busy {
                Code::Busy
            } else {
                Code::Done
            };
            Ok(report(&totals, false)?.code(code))
        }
        Some(Err(error)) => {
            if so_far.claims > 0 {
                terminal::note(totals(&so_far));
            }
            Err(explain(error))
        }
        None => Ok(report(&so_far, true)?.code(Code::Interrupted)),
    }
}

fn pruner<DB: Store>(pool: &Pool<DB>, args: &PruneArgs) -> Result<Pruner<DB>, Failure> {
    let mut pruner = Pruner::new(pool).windows(args.windows.windows()?);
    if let Some(rows) = args.chunk {
        pruner = pruner.chunk(rows);
    }
    if let Some(pause) = args.pause {
        pruner = pruner.pause(pause);
    }
    if args.archive_table {
        pruner = pruner.archive(Archive::table());
    }
    if let Some(file) = &args.archive {
        let is_compressed = file.extension().is_some_and(|extension| extension == "gz");
        pruner = pruner.archive(if is_compressed {
            Archive::json_lines_gz(file)
        } else {
            Archive::json_lines(file)
        });
    }
    Ok(pruner)
}

fn explain(error: PruneError, database: &Database, args: &PruneArgs) -> Failure {
    match (&error, &args.archive) {
        (PruneError::Window(invalid), _) => Failure::usage(invalid.to_string()),
        (PruneError::Archive(why), Some(file)) => Failure::new(
            Code::Failed,
            format!(
                "the archive {} cannot be written: {why}; what should have gone into it is still in the table",
                file.display()
            ),
        )
        .remedy("make room, or name a file that you may write"),
        _ => database.explain(RIGHTS)(error.into()),
    }
}

/// Ctrl-C lets the chunk that is under way end, and a second one does not.
#[derive(Default)]
struct Stop {
    is_asked_for: std::sync::atomic::AtomicBool,
    chunk_has_ended: Notify,
}

impl Stop {
    fn after_chunk(&self) {
        if self.is_asked_for.load(std::sync::atomic::Ordering::Relaxed) {
            self.chunk_has_ended.notify_one();
        }
    }

    async fn asked_for(&self, progress: &Progress) {
        if tokio::signal::ctrl_c().await.is_err() {
            return std::future::pending().await;
        }
        self.is_asked_for
            .store(true, std::sync::atomic::Ordering::Relaxed);
        progress.note("stopping after this chunk; Ctrl-C again rolls it back");
        tokio::select! {
            () = self.chunk_has_ended.notified() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
}

#[derive(Serialize)]
struct Preview<'d> {
    dry_run: bool,
    claims: u64,
    business_keys: u64,
    consumers: Vec<DueDocument<'d>>,
}

#[derive(Serialize)]
struct DueDocument<'d> {
    consumer: &'d str,
    claims: u64,
    business_keys: u64,
    oldest: Option<&'d str>,
}

fn previewed(due: &[Due]) -> Result<Report, Failure> {
    let document = Preview {
        dry_run: true,
        claims: due.iter().map(|due| due.claims).sum(),
        business_keys: due.iter().map(|due| due.business_keys).sum(),
        consumers: due
            .iter()
            .map(|due| DueDocument {
                consumer: &due.consumer,
                claims: due.claims,
                business_keys: due.business_keys,
                oldest: due.oldest.as_deref(),
            })
            .collect(),
    };
    if document.claims == 0 {
        return Report::new(
            "nothing is past its window; nothing would be removed",
            &document,
        );
    }
    let mut table = text::Table::new(&[
        ("consumer", Align::Left),
        ("claims past their window", Align::Right),
        ("business keys of them", Align::Right),
        ("oldest", Align::Left),
    ]);
    for due in due {
        table.row([
            text::shown(&due.consumer),
            text::number(due.claims),
            text::number(due.business_keys),
            due.oldest.as_deref().map_or_else(String::new, text::time),
        ]);
    }
    let text = format!(
        "{table}{} would be removed; nothing was changed (--dry-run)",
        text::count(document.claims, "claim", "claims")
    );
    Report::new(text, &document)
}

#[derive(Serialize)]
struct Totals<'p> {
    claims: u64,
    business_keys: u64,
    chunks: u64,
    archived: u64,
    days_created: u32,
    days_dropped: u32,
    is_busy: bool,
    is_interrupted: bool,
    without_window: &'p [String],
}

fn report(pruned: &Pruned, is_interrupted: bool) -> Result<Report, Failure> {
    let document = Totals {
        claims: pruned.claims,
        business_keys: pruned.business_keys,
        chunks: pruned.chunks,
        archived: pruned.archived,
        days_created: pruned.days_created,
        days_dropped: pruned.days_dropped,
        is_busy: pruned.is_busy,
        is_interrupted,
        without_window: &pruned.without_window,
    };
    let mut text = totals(pruned);
    if is_interrupted {
        text = format!("interrupted; {text}; run it again to go on");
    }
    if pruned.is_busy {
        let removed = match pruned.claims {
            0 => "this one has removed nothing",
            _ => &text,
        };
        text = format!("another pruner is at work on this table; {removed}");
    }
    if let Some(first) = pruned.without_window.first() {
        text = format!(
            "{text}\n{} no window, so that their claims stay: {}; add `--window {}=7d`, or --retain for all of them",
            Style::Yellow.paint("note:"),
            text::list(&pruned.without_window),
            text::shown(first)
        );
    }
    Report::new(text, &document)
}

fn totals(pruned: &Pruned) -> String {
    let days = pruned.days_created + pruned.days_dropped;
    if pruned.claims == 0 && days == 0 {
        return "removed nothing: no claim is past its window".to_owned();
    }
    let mut text = format!("removed {}", text::count(pruned.claims, "claim", "claims"));
    if pruned.business_keys > 0 {
        let keys = text::count(pruned.business_keys, "business key", "business keys");
        text = format!("{text} ({keys} among them)");
    }
    text = format!(
        "{text} in {}",
        text::count(pruned.chunks, "chunk", "chunks")
    );
    for (number, what) in [
        (pruned.archived, "archived"),
        (u64::from(pruned.days_dropped), "days dropped"),
        (u64::from(pruned.days_created), "days created"),
    ] {
        if number > 0 {
            text = format!("{text}, {} {what}", text::number(number));
        }
    }
    text
}
