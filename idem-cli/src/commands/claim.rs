//! What `show` and `forget` have in common: finding a claim, and saying what may have been meant.

use std::fmt::Write as _;

use serde::Serialize;
use sqlx::Pool;

use crate::args::ClaimArgs;
use crate::database::Database;
use crate::failure::Failure;
use crate::store::{self, Claim, Store};
use crate::text;

pub(super) const RIGHTS: &str = "SELECT on processed_messages";

#[derive(Serialize)]
pub(super) struct Found {
    pub(super) consumer: String,
    /// As it is stored.
    pub(super) key: String,
    /// In the plain table, and in the table by days.
    pub(super) claims: Vec<Claim>,
    /// What may have been meant, if there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) hints: Vec<String>,
}

/// What cannot be stored is not asked for: the table would say "no such claim", which is not what is wrong.
pub(super) fn check(args: &ClaimArgs) -> Result<(), Failure> {
    let stored = key(args);
    let fault = if args.consumer.is_empty() {
        "the consumer's name is empty".to_owned()
    } else if args.key.is_empty() {
        "the key is empty".to_owned()
    } else if args.consumer.len() > idem::MAX_CONSUMER_BYTES {
        format!(
            "the consumer's name has {} bytes and may have {}",
            args.consumer.len(),
            idem::MAX_CONSUMER_BYTES
        )
    } else if stored.len() > idem::MAX_KEY_BYTES {
        format!(
            "the key has {} bytes and may have {}",
            stored.len(),
            idem::MAX_KEY_BYTES
        )
    } else {
        return Ok(());
    };
    Err(Failure::usage(format!(
        "{fault}, so that there can be no such claim"
    )))
}

/// As it is stored. A business key that comes with its mark is not marked twice.
fn key(args: &ClaimArgs) -> String {
    if args.business && !args.key.starts_with('|') {
        format!("|{}", args.key)
    } else {
        args.key.clone()
    }
}

pub(super) async fn find<DB: Store>(
    pool: &Pool<DB>,
    database: &Database,
    args: &ClaimArgs,
) -> Result<Found, Failure> {
    let shape = store::require(pool, database).await?;
    let explain = database.explain(RIGHTS);
    let explain = |error: sqlx::Error| explain(error.into());
    let mut found = Found {
        consumer: args.consumer.clone(),
        key: key(args),
        claims: Vec::new(),
        hints: Vec::new(),
    };
    for table in shape.tables() {
        let claims = DB::find(pool, table, &found.consumer, &found.key).await;
        found.claims.extend(claims.map_err(explain)?);
    }
    if found.claims.is_empty() {
        found.hints = hints(pool, &shape, &found).await.map_err(explain)?;
    }
    Ok(found)
}

/// Looks for near misses by a few look-ups.
async fn hints<DB: Store>(
    pool: &Pool<DB>,
    shape: &store::Shape,
    wanted: &Found,
) -> Result<Vec<String>, sqlx::Error> {
    const CONSUMERS: usize = 50;
    let mut hints = Vec::new();
    let mut consumers = Vec::new();
    for table in shape.tables() {
        consumers.extend(DB::consumer_names(pool, table, CONSUMERS).await?);
    }
    consumers.sort_unstable();
    consumers.dedup();
    let is_known = consumers.contains(&wanted.consumer);
    if consumers.is_empty() {
        hints.push("the table has no claims at all: is it the right database?".to_owned());
    } else if !is_known && consumers.len() < CONSUMERS {
        let mut hint = format!(
            "the consumer `{}` has no claims; these have: {}",
            text::shown(&wanted.consumer),
            text::list(&consumers)
        );
        if let Some(nearest) = text::nearest(&wanted.consumer, &consumers) {
            write!(hint, "; did you mean `{}`?", text::shown(nearest)).ok();
        }
        hints.push(hint);
    }
    // This consumer first.
    consumers.sort_by_key(|consumer| *consumer != wanted.consumer);
    let variants = variants(&wanted.key);
    for consumer in &consumers {
        let own = *consumer == wanted.consumer;
        let others = (!own).then_some((wanted.key.as_str(), "this key"));
        for (key, what) in others
            .into_iter()
            .chain(variants.iter().map(|(key, what)| (key.as_str(), *what)))
        {
            for table in shape.tables() {
                if !DB::find(pool, table, consumer, key).await?.is_empty() {
                    hints.push(format!(
                        "the consumer `{}` has {what}: `{}`",
                        text::shown(consumer),
                        text::shown(key)
                    ));
                }
            }
        }
    }
    Ok(hints)
}

/// How the same key may be stored otherwise.
fn variants(key: &str) -> Vec<(String, &'static str)> {
    let mut variants = Vec::new();
    match key.strip_prefix('|') {
        Some(plain) => variants.push((
            plain.to_owned(),
            "it as a message's key, not as a business key",
        )),
        None => variants.push((format!("|{key}"), "it as a business key (--business)")),
    }
    let escaped = key.replace('\\', "\\\\").replace('|', "\\|");
    if escaped != key {
        variants.push((
            escaped,
            "it as one text, whose `|` and `\\` are stored with a `\\` before them",
        ));
    }
    let trimmed = key.trim();
    if trimmed != key && !trimmed.is_empty() {
        variants.push((trimmed.to_owned(), "it without the blanks around it"));
    }
    let lower = key.to_lowercase();
    if lower != key {
        variants.push((lower, "it in lower case"));
    }
    variants
}

/// The claims, one property a line.
pub(super) fn text(found: &Found) -> String {
    let mut out = String::new();
    for claim in &found.claims {
        let mut line = |name: &str, value: &str| {
            writeln!(out, "{name:<13} {value}").ok();
        };
        line("consumer", &text::shown(&claim.consumer));
        match claim.key.strip_prefix('|') {
            Some(key) => line("business key", &text::shown(key)),
            None => line("key", &text::shown(&claim.key)),
        }
        let processed = format!(
            "{} UTC ({} ago)",
            claim
                .processed_at
                .replacen('T', " ", 1)
                .trim_end_matches('Z'),
            text::age(claim.age_seconds)
        );
        line("processed at", &processed);
        if let Some(day) = &claim.day {
            line("day", &format!("{day} (table {})", claim.table.name()));
        }
        if let Some(version) = claim.version {
            line("version", &version.to_string());
        }
        if let Some(fingerprint) = &claim.fingerprint {
            line("fingerprint", fingerprint);
        }
        if let Some(result) = &claim.result {
            line("result", &text::shown(result));
        }
        out.push('\n');
    }
    let kept = out.trim_end().len();
    out.truncate(kept);
    out
}

pub(super) fn not_found(found: &Found) -> String {
    let what = match found.key.strip_prefix('|') {
        Some(key) => format!("business key `{}`", text::shown(key)),
        None => format!("key `{}`", text::shown(&found.key)),
    };
    let mut out = format!(
        "no claim: the consumer `{}` has not processed the {what}, or its claim was pruned",
        text::shown(&found.consumer)
    );
    for hint in &found.hints {
        write!(out, "\n  hint: {hint}").ok();
    }
    out
}
