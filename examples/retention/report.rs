//! What was measured, for people.

use std::time::Duration;

use crate::load::{Seen, float};

/// Consumers at work while something else happened.
pub(crate) struct Measured {
    pub(crate) seen: Seen,
    /// How long the other took.
    pub(crate) time: Duration,
    /// What the server wrote to its log (WAL, redo) for both, in bytes.
    pub(crate) log: i64,
}

pub(crate) struct Report {
    title: &'static str,
    idle: Vec<Measured>,
    jobs: Vec<(&'static str, i64, Measured)>,
}

impl Report {
    pub(crate) fn new(title: &'static str) -> Self {
        Self {
            title,
            idle: Vec::new(),
            jobs: Vec::new(),
        }
    }

    /// Nothing but the consumers.
    pub(crate) fn idle(&mut self, measured: Measured) {
        self.idle.push(measured);
    }

    pub(crate) fn job(&mut self, name: &'static str, removed: i64, measured: Measured) {
        self.jobs.push((name, removed, measured));
    }

    /// All that were made meanwhile.
    pub(crate) fn claims(&self) -> i64 {
        self.all().map(|measured| measured.seen.claims()).sum()
    }

    pub(crate) fn print(&self) {
        println!(
            "\n{:<34}{:>9}{:>12}{:>10}{:>12}{:>18}{:>18}{:>10}",
            self.title,
            "time",
            "claims/s",
            "log",
            "per claim",
            "p50 (ratio)",
            "p99 (ratio)",
            "longest"
        );
        let idle: Vec<Duration> = self
            .idle
            .iter()
            .flat_map(|measured| measured.seen.latencies.iter().copied())
            .collect();
        let usual = Percentiles::of(&idle);
        let log: i64 = self.idle.iter().map(|measured| measured.log).sum();
        let log_of_a_claim = real(log) / float(idle.len().max(1));
        line("nothing", "", &usual, &usual);
        for (name, removed, measured) in &self.jobs {
            let time = measured.time.as_secs_f64();
            let own = real(measured.log) - log_of_a_claim * real(measured.seen.claims());
            let rate = if *removed > 0 {
                [
                    format!("{:.0}", real(*removed) / time),
                    format!("{:.0} B", own.max(0.0) / real(*removed)),
                ]
            } else {
                [String::new(), String::new()]
            };
            let [rate, each] = rate;
            let numbers = format!(
                "{:>7.2} s{rate:>12}{:>7.1} MB{each:>12}",
                time,
                own.max(0.0) / 1e6
            );
            let felt = Percentiles::of(&measured.seen.latencies);
            line(name, &numbers, &felt, &usual);
        }
        let seen = self.all().map(|measured| &measured.seen);
        let redelivered: u32 = seen.map(|seen| seen.redelivered).sum();
        if redelivered > 0 {
            println!("   deliveries that failed and were repeated: {redelivered}");
        }
    }

    fn all(&self) -> impl Iterator<Item = &Measured> {
        let jobs = self.jobs.iter().map(|(_, _, measured)| measured);
        self.idle.iter().chain(jobs)
    }
}

fn line(name: &str, numbers: &str, felt: &Percentiles, usual: &Percentiles) {
    let ratio = |felt: f64, usual: f64| format!("{felt:.2} ms ({:.2})", felt / usual);
    println!(
        "   {name:<31}{numbers:<43}{:>18}{:>18}{:>7.0} ms",
        ratio(felt.p50, usual.p50),
        ratio(felt.p99, usual.p99),
        felt.longest
    );
}

/// In milliseconds.
struct Percentiles {
    p50: f64,
    p99: f64,
    longest: f64,
}

impl Percentiles {
    fn of(latencies: &[Duration]) -> Self {
        let mut sorted = latencies.to_vec();
        sorted.sort();
        let at = |hundredth: usize| {
            let last = sorted.len().saturating_sub(1);
            let found = sorted.get((sorted.len() * hundredth / 100).min(last));
            found.copied().unwrap_or_default().as_secs_f64() * 1000.0
        };
        Self {
            p50: at(50),
            p99: at(99),
            longest: at(100),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "nobody measures 2^52 of anything"
)]
pub(crate) fn real(number: i64) -> f64 {
    number as f64
}
