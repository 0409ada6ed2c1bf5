use std::fmt::Write as _;

use serde::Serialize;
use sqlx::Pool;

use super::claim::{self, Found};
use crate::args::ClaimArgs;
use crate::database::Database;
use crate::failure::{Code, Failure};
use crate::report::Report;
use crate::store::{Store, Table};
use crate::terminal;
use crate::text;

#[derive(Serialize)]
struct Document<'f> {
    /// Rows that are gone.
    removed: u64,
    #[serde(flatten)]
    found: &'f Found,
}

pub(super) async fn run<DB: Store>(
    pool: &Pool<DB>,
    database: &Database,
    args: &ClaimArgs,
    yes: bool,
) -> Result<Report, Failure> {
    let found = claim::find(pool, database, args).await?;
    if found.claims.is_empty() {
        terminal::note(claim::not_found(&found));
        let document = Document {
            removed: 0,
            found: &found,
        };
        return Ok(Report::new("", &document)?.code(Code::No));
    }
    if !yes && !terminal::can_ask() {
        let what = "forget asks before it removes a claim, and there is no terminal to ask at";
        return Err(Failure::usage(what).remedy("add `--yes`; nothing was removed"));
    }
    let explain = database.explain("SELECT and DELETE on processed_messages");
    let mut has_business_keys = false;
    for table in found.claims.iter().map(|claim| claim.table) {
        let answer = DB::has_business_keys(pool, table, &found.consumer).await;
        has_business_keys |= answer.map_err(|error| explain(error.into()))?;
    }
    if !yes {
        terminal::note(format_args!(
            "{}\n\n{}",
            claim::text(&found),
            consequences(&found, has_business_keys)
        ));
        if !terminal::ask(&format!("Remove this claim from {}?", database.target)).await {
            return Err(Failure::new(
                Code::Declined,
                "declined; nothing was removed",
            ));
        }
    }
    let mut removed = 0;
    for claim in &found.claims {
        let rows = DB::remove(pool, claim).await;
        removed += rows.map_err(|error| explain(error.into()))?;
    }
    let document = Document {
        removed,
        found: &found,
    };
    let text = if removed == 0 {
        "somebody else has removed this claim meanwhile".to_owned()
    } else if yes {
        // Said here, as it was not said before.
        format!(
            "{}\n{}",
            gone(&found),
            consequences(&found, has_business_keys)
        )
    } else {
        gone(&found)
    };
    Report::new(text, &document)
}

fn gone(found: &Found) -> String {
    let mut out = String::new();
    for claim in &found.claims {
        let what = match claim.key.strip_prefix('|') {
            Some(key) => format!("business key `{}`", text::shown(key)),
            None => format!("key `{}`", text::shown(&claim.key)),
        };
        write!(
            out,
            "{}removed the claim of `{}` to the {what}, processed at {}",
            if out.is_empty() { "" } else { "\n" },
            text::shown(&claim.consumer),
            text::time(&claim.processed_at)
        )
        .ok();
        if let Some(day) = &claim.day {
            write!(out, ", of the day {day} in {}", Table::ByDay.name()).ok();
        }
    }
    out
}

/// What follows, which differs by what the row was there for.
fn consequences(found: &Found, has_business_keys: bool) -> String {
    let consumer = text::shown(&found.consumer);
    let mut out = format!(
        "The next delivery of this message to `{consumer}` runs again. What it has done is not undone, and nobody delivers it again by this."
    );
    if found.claims.iter().any(|claim| claim.version.is_some()) {
        out.push_str(
            "\nThe row holds the version of an aggregate: without it, any version is taken for new, also an older one.",
        );
    }
    if found.claims.iter().any(|claim| claim.result.is_some()) {
        out.push_str(
            "\nThe stored result is gone with it; its duplicates get what the next run returns.",
        );
    }
    match (found.key.strip_prefix('|'), has_business_keys) {
        (Some(_), _) => out.push_str(
            "\nA message's own key stays: while that claim is there too, its redelivery is a duplicate all the same.",
        ),
        (None, true) => write!(
            out,
            "\n`{consumer}` has business keys: while the business key of this message is there, it stays a duplicate; \
             `idem forget {consumer} KEY --business` removes that one."
        )
        .unwrap_or_default(),
        (None, false) => {}
    }
    out
}
