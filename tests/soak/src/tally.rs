//! What was counted.

use std::collections::BTreeMap;

/// Counts by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts(BTreeMap<String, u64>);

impl Counts {
    pub(crate) fn add(&mut self, name: impl Into<String>, count: u64) {
        *self.0.entry(name.into()).or_default() += count;
    }

    pub(crate) fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, count)| (name.as_str(), *count))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// What happened in a run, as those say who did it or saw it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    /// Messages that the workers handed to a handler, whatever came of it.
    pub(crate) deliveries: u64,
    /// Of those that were acknowledged, which the broker called redelivered.
    pub(crate) redelivered: u64,
    /// Processed, duplicate, replayed, stale.
    pub(crate) outcomes: Counts,
    /// Harm of the schedule.
    pub(crate) harm: Counts,
    /// Harm within deliveries: dropped, failed, panicked.
    pub(crate) mishaps: Counts,
    /// Errors of deliveries by class.
    pub(crate) errors: Counts,
    /// Errors that the database answered with, as the proxies saw them.
    pub(crate) answers: Counts,
    /// What must not have happened.
    pub(crate) unexpected: Vec<String>,
    /// How often a connection of the pool was looked at after a delivery was dropped.
    pub(crate) leaks_looked_for: u64,
    /// Deadlocks among the claims of batches.
    pub(crate) claims_deadlocked: u64,
}

impl Tally {
    /// A worker's line.
    pub(crate) fn note(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "done" => {
                let (outcome, redelivered) = rest.split_once(' ').unwrap_or((rest, ""));
                self.deliveries += 1;
                self.outcomes.add(outcome, 1);
                self.redelivered += u64::from(redelivered == "1");
            }
            "failed" => {
                self.deliveries += 1;
                self.errors.add(rest, 1);
            }
            "dropped" => {
                self.deliveries += rest.parse::<u64>().unwrap_or(1);
                self.mishaps.add("delivery dropped half-way", 1);
            }
            "panicked" => {
                self.deliveries += rest.parse::<u64>().unwrap_or(1);
                self.mishaps.add("body panicked", 1);
            }
            "conduct" => self.mishaps.add(rest, 1),
            "unexpected" => self.unexpected.push(rest.to_owned()),
            "kill" => self.harm.add(format!("worker killed {rest}"), 1),
            "stop" => self.harm.add("worker stopped", 1),
            "no-leak" => self.leaks_looked_for += 1,
            "pruned" => self.mishaps.add("chunk of old claims pruned", 1),
            "not-acknowledged"
            | "not-given-back"
            | "broker-lost"
            | "no-broker"
            | "not-pruned"
            | "leak-not-looked-for" => self.mishaps.add(word.replace('-', " "), 1),
            _ => {}
        }
    }
}
