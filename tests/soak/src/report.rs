//! What a run came to, as text that is also Markdown, and as JSON.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::check::Verdict;
use crate::tally::{Counts, Tally};

/// One run.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    pub(crate) database: &'static str,
    pub(crate) broker: &'static str,
    pub(crate) seed: u64,
    pub(crate) consumers: usize,
    /// Of harm.
    pub(crate) time: Duration,
    /// From the end of the harm until the queue was empty and everything at rest.
    pub(crate) drain: Duration,
    pub(crate) messages: i64,
    /// Messages published a second time on purpose, and since the broker's answer was lost.
    pub(crate) duplicates: u64,
    pub(crate) again: u64,
    pub(crate) old_claims_left: i64,
    pub(crate) tally: Tally,
    pub(crate) verdict: Verdict,
    /// What did not come to its end, a sentence each.
    pub(crate) wedged: Vec<String>,
    /// Kinds of harm that the schedule has, and that did not happen.
    pub(crate) missing: Vec<String>,
    /// The command that does the same.
    pub(crate) command: String,
}

impl Report {
    /// Nothing lost, doubled, wedged or unexpected, and every kind of harm has happened.
    pub(crate) fn is_good(&self) -> bool {
        self.verdict == Verdict::default()
            && self.wedged.is_empty()
            && self.tally.unexpected.is_empty()
            && self.missing.is_empty()
    }

    fn rate(&self) -> u64 {
        self.tally.deliveries / self.time.as_secs().max(1)
    }

    pub(crate) fn json(&self) -> Value {
        let counts = |counts: &Counts| {
            let pairs = counts
                .iter()
                .map(|(name, count)| (name.to_owned(), count.into()));
            Value::Object(pairs.collect::<Map<String, Value>>())
        };
        json!({
            "good": self.is_good(),
            "database": self.database,
            "broker": self.broker,
            "seed": self.seed,
            "consumers": self.consumers,
            "seconds": self.time.as_secs(),
            "drain_seconds": self.drain.as_secs_f32(),
            "messages": self.messages,
            "duplicates": self.duplicates,
            "published_again": self.again,
            "deliveries": self.tally.deliveries,
            "deliveries_per_second": self.rate(),
            "redelivered": self.tally.redelivered,
            "outcomes": counts(&self.tally.outcomes),
            "faults": self.tally.harm.total(),
            "harm": counts(&self.tally.harm),
            "mishaps": counts(&self.tally.mishaps),
            "errors": counts(&self.tally.errors),
            "answers": counts(&self.tally.answers),
            "leaks_looked_for": self.tally.leaks_looked_for,
            "claims_deadlocked": self.tally.claims_deadlocked,
            "old_claims_left": self.old_claims_left,
            "lost": self.verdict.lost,
            "doubled": self.verdict.doubled,
            "wrong": self.verdict.wrong,
            "wedged": self.wedged,
            "unexpected": self.tally.unexpected,
            "harm_missing": self.missing,
            "command": self.command,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tally = &self.tally;
        writeln!(
            f,
            "\n## {} and {}, seed {}\n",
            self.database, self.broker, self.seed
        )?;
        writeln!(f, "| | |\n|---|---:|")?;
        let rows = [
            ("seconds of harm", self.time.as_secs().to_string()),
            (
                "seconds until all was at rest",
                format!("{:.1}", self.drain.as_secs_f32()),
            ),
            ("consumers", self.consumers.to_string()),
            ("messages", self.messages.to_string()),
            ("published twice on purpose", self.duplicates.to_string()),
            ("published again, the answer lost", self.again.to_string()),
            ("deliveries", tally.deliveries.to_string()),
            ("deliveries per second", self.rate().to_string()),
            (
                "redelivered, of the acknowledged",
                tally.redelivered.to_string(),
            ),
            ("faults of the schedule", tally.harm.total().to_string()),
            ("kinds of them", tally.harm.len().to_string()),
            (
                "mishaps within deliveries",
                tally.mishaps.total().to_string(),
            ),
            (
                "connections searched for a leaked transaction",
                tally.leaks_looked_for.to_string(),
            ),
            (
                "deadlocks among claims",
                tally.claims_deadlocked.to_string(),
            ),
            (
                "old claims not yet pruned",
                self.old_claims_left.to_string(),
            ),
            ("**lost**", self.verdict.lost.len().to_string()),
            ("**doubled**", self.verdict.doubled.len().to_string()),
            ("**wedged**", self.wedged.len().to_string()),
            (
                "**otherwise wrong**",
                (self.verdict.wrong.len() + tally.unexpected.len()).to_string(),
            ),
        ];
        for (name, value) in rows {
            writeln!(f, "| {name} | {value} |")?;
        }
        table(f, "Outcome", &tally.outcomes)?;
        table(f, "Fault of the schedule", &tally.harm)?;
        table(f, "Mishap", &tally.mishaps)?;
        table(f, "Error of a delivery", &tally.errors)?;
        table(f, "Error of the database, as it answered", &tally.answers)?;
        let lists = [
            ("Lost", &self.verdict.lost),
            ("Doubled", &self.verdict.doubled),
            ("Wedged", &self.wedged),
            ("Wrong", &self.verdict.wrong),
            ("Unexpected", &tally.unexpected),
            ("Harm that did not happen", &self.missing),
        ];
        for (name, list) in lists {
            if !list.is_empty() {
                writeln!(f, "\n{name}, {}:\n", list.len())?;
                for line in list.iter().take(20) {
                    writeln!(f, "- {line}")?;
                }
            }
        }
        if self.is_good() {
            writeln!(f, "\nGood: nothing lost, doubled or wedged.")
        } else {
            writeln!(
                f,
                "\n**Bad.** The same schedule and messages again: `{}`",
                self.command
            )
        }
    }
}

fn table(f: &mut fmt::Formatter<'_>, title: &str, counts: &Counts) -> fmt::Result {
    if counts.len() == 0 {
        return Ok(());
    }
    writeln!(f, "\n| {title} | |\n|---|---:|")?;
    for (name, count) in counts.iter() {
        writeln!(f, "| {name} | {count} |")?;
    }
    Ok(())
}
