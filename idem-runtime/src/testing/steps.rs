//! The steps of a proof, in their order.

use std::fmt::Debug;
use std::time::Duration;

use super::advice;
use super::bench::{Bench, Delivery, Failure};
use super::report::{Report, difference};
use super::watch::{Harm, Point, Seen};
use crate::backend::Backend;

/// Up to here the delivery is cancelled at each point at which it waits, and beyond at ever fewer.
const EACH_WAIT: usize = 200;

/// How often the first delivery may fail by a transient error.
const AGAIN: u32 = 5;

/// How often a delivery that has come to its end too early to be cancelled is tried again.
const HASTE: u32 = 8;

pub(crate) struct Steps<'p, DB: Backend, V> {
    pub(super) bench: Bench<'p, DB, V>,
    pub(super) report: Report,
}

/// What one delivery does.
pub(super) struct Once<V> {
    state: V,
    pub(super) seen: Seen,
}

impl<'p, DB: Backend, V: PartialEq + Debug> Steps<'p, DB, V> {
    pub(crate) fn new(bench: Bench<'p, DB, V>) -> Self {
        Self {
            bench,
            report: Report::default(),
        }
    }

    pub(crate) async fn run(mut self, at_once: usize, refuses: bool) -> Report {
        // If it cannot be had, the first step fails and says why.
        let _kept = DB::keep(self.bench.pool).await;
        self.all(at_once, refuses).await;
        // For the next run of the test. A finding may stand behind a failure.
        self.bench.forget().await.ok();
        self.report
    }

    /// `None` where it makes no sense to go on.
    async fn all(&mut self, at_once: usize, refuses: bool) -> Option<()> {
        let once = self.once().await?;
        self.one_after_the_other(&once).await?;
        self.at_once(&once, at_once).await?;
        self.harmed(&once).await?;
        self.cancelled(&once).await?;
        // Of a handler that writes elsewhere this would prove nothing, and what it writes elsewhere would have to wait.
        if refuses && self.report.is_ok() {
            self.refused(&once).await?;
        }
        Some(())
    }

    /// Twice, since the first may have found the claims of a proof that was interrupted.
    async fn once(&mut self) -> Option<Once<V>> {
        let taken = self.bench.least_taken().await;
        self.step("delivered once").await?;
        let before = self.state().await?;
        let mut first = self.bench.deliver().await;
        for _ in 0..AGAIN {
            // Somebody else was in its way.
            let is_transient = |failure: &Failure| failure.is_transient();
            if !first.result.as_ref().is_err_and(is_transient) {
                break;
            }
            self.start_afresh().await?;
            first = self.bench.deliver().await;
        }
        self.succeeds(&first)?;
        let after = self.state().await?;

        self.step("delivered once more, from a fresh start").await?;
        let again = self.state().await?;
        if again != before {
            return self.stop(difference(&before, &again), advice::FRESH);
        }
        let second = self.bench.deliver().await;
        self.succeeds(&second)?;
        if second.seen.claims != first.seen.claims {
            let keys = |seen: &Seen| {
                let keys = seen.claims.iter().map(|(_, key)| format!("{key:?}"));
                keys.collect::<Vec<_>>().join(", ")
            };
            let what = format!(
                "the key was {}, and is {}",
                keys(&first.seen),
                keys(&second.seen)
            );
            return self.stop(what, advice::KEY);
        }
        if !second.seen.points.contains(&Point::Claimed) {
            return self.stop("no message was claimed", advice::NO_CLAIM);
        }
        let state = self.state().await?;
        if first.seen.points.contains(&Point::Claimed) && state != after {
            return self.stop(difference(&after, &state), advice::MEMORY);
        }
        if state == before {
            let what = format!("it returned Ok and has no effect: {state:?}");
            return self.stop(what, advice::NO_EFFECT);
        }
        if !self.bench.all_come_back(taken).await {
            return self.stop("a connection does not come back to the pool", advice::LEAK);
        }
        Some(Once {
            state,
            seen: second.seen,
        })
    }

    fn succeeds(&mut self, delivery: &Delivery) -> Option<()> {
        match &delivery.result {
            Err(Failure::TimedOut(limit)) => self.ends_not(*limit),
            Err(failure) if failure.is_aborted() => {
                self.stop(format!("it fails: {failure}"), advice::DROPPED)
            }
            Err(failure) => self.stop(format!("it fails: {failure}"), advice::FAILS),
            Ok(()) if delivery.seen.open > 0 => self.stop(
                "it returned Ok, and has neither committed nor rolled back what it claimed",
                advice::OPEN,
            ),
            Ok(()) => Some(()),
        }
    }

    async fn one_after_the_other(&mut self, once: &Once<V>) -> Option<()> {
        self.step("delivered three times, one after the other")
            .await?;
        for _ in 0..3 {
            self.redelivered().await?;
        }
        self.compare(once, advice::OUTSIDE).await
    }

    async fn at_once(&mut self, once: &Once<V>, number: usize) -> Option<()> {
        self.step(format!("delivered {number} times at once"))
            .await?;
        for result in self.bench.deliver_at_once(number).await {
            match result {
                Err(Failure::TimedOut(limit)) => return self.ends_not(limit),
                Err(failure) if !failure.is_transient() => {
                    self.report
                        .found(format!("one fails: {failure}"), advice::REDELIVERY);
                }
                Ok(()) | Err(_) => {}
            }
        }
        self.redelivered().await?;
        self.compare(once, advice::OUTSIDE).await
    }

    /// At each point that the delivery passes, each harm that fits it.
    async fn harmed(&mut self, once: &Once<V>) -> Option<()> {
        for (at, point) in once.seen.points.iter().enumerate() {
            let is_alike =
                |other: &&Point| std::mem::discriminant(*other) == std::mem::discriminant(point);
            let number = 1 + once.seen.points[..at].iter().filter(is_alike).count();
            let which = if number == 1 {
                String::new()
            } else {
                format!(" {number}")
            };
            let harms: &[(Harm, &str)] = match point {
                Point::Claimed => &[(Harm::Kill, "connection killed after claim")],
                Point::BeforeCommit { .. } => &[
                    (Harm::Fail, "failed before commit"),
                    (Harm::Panic, "panicked before commit"),
                    (Harm::Kill, "connection killed before commit"),
                ],
                Point::Committed => &[(Harm::Fail, "failed after commit")],
            };
            for (harm, name) in harms {
                if *harm == Harm::Kill && !DB::KILLS {
                    continue;
                }
                self.step(format!("{name}{which} and redelivered")).await?;
                let delivery = self.bench.deliver_with(Some((at, *harm)), None).await;
                match &delivery.result {
                    // A panic says nothing, and whoever catches it may judge it as they like.
                    Err(failure @ Failure::Panicked(_)) if *harm != Harm::Panic => {
                        self.report.found(failure.to_string(), advice::PANICS);
                    }
                    Err(failure) if *harm != Harm::Panic && !failure.is_transient() => {
                        let judged = format!("the error is not transient: {failure}");
                        self.report.found(judged, advice::JUDGED);
                    }
                    Ok(()) | Err(_) => {}
                }
                self.settled(once, delivery).await?;
            }
        }
        Some(())
    }

    async fn cancelled(&mut self, once: &Once<V>) -> Option<()> {
        // How often it waits depends on how fast the answers are.
        for _ in 0..HASTE {
            self.start_afresh().await?;
            self.bench.deliver().await;
        }
        let mut wait = 1;
        while wait <= self.bench.most_waits {
            self.step(format!("cancelled at await {wait} and redelivered"))
                .await?;
            let mut delivery = self.bench.deliver_with(None, Some(wait)).await;
            // An answer that is there at once is not waited for.
            for _ in 0..HASTE {
                if delivery.is_cancelled || delivery.result.is_err() {
                    break;
                }
                self.start_afresh().await?;
                delivery = self.bench.deliver_with(None, Some(wait)).await;
            }
            let (is_cancelled, findings) = (delivery.is_cancelled, self.report.findings.len());
            self.settled(once, delivery).await?;
            if !is_cancelled && self.report.findings.len() == findings {
                self.report.steps.pop();
            }
            wait += 1 + wait / EACH_WAIT;
        }
        Some(())
    }

    /// The broker redelivers what was not acknowledged.
    pub(super) async fn settled(&mut self, once: &Once<V>, delivery: Delivery) -> Option<()> {
        match delivery.result {
            Err(Failure::TimedOut(limit)) => return self.ends_not(limit),
            Ok(()) if !delivery.is_cancelled => return self.compare(once, advice::LOST).await,
            _ => {}
        }
        self.redelivered().await?;
        self.compare(once, advice::OUTSIDE).await
    }

    async fn redelivered(&mut self) -> Option<()> {
        match self.bench.redeliver().await {
            Ok(()) => Some(()),
            Err(Failure::TimedOut(limit)) => self.ends_not(limit),
            Err(failure) => {
                self.report.found(
                    format!("its redelivery fails: {failure}"),
                    advice::REDELIVERY,
                );
                Some(())
            }
        }
    }

    pub(super) async fn compare(&mut self, once: &Once<V>, advice: &'static str) -> Option<()> {
        let state = self.state().await?;
        if state != once.state {
            self.report.found(difference(&once.state, &state), advice);
        }
        Some(())
    }

    /// Begins a step, from a fresh start.
    pub(super) async fn step(&mut self, name: impl Into<String>) -> Option<()> {
        self.report.steps.push(name.into());
        self.start_afresh().await
    }

    pub(super) async fn start_afresh(&mut self) -> Option<()> {
        if let Err(failure) = self.bench.forget().await {
            let what = format!("the claims cannot be removed: {failure}");
            return self.stop(what, advice::CLAIMS);
        }
        match self.bench.start_afresh().await {
            Ok(()) => Some(()),
            Err(failure) => self.stop(format!("`fresh` fails: {failure}"), advice::FRESH),
        }
    }

    async fn state(&mut self) -> Option<V> {
        match self.bench.state().await {
            Ok(state) => Some(state),
            Err(failure) => self.stop(format!("`state` fails: {failure}"), advice::STATE),
        }
    }

    fn ends_not<T>(&mut self, limit: Duration) -> Option<T> {
        self.stop(Failure::TimedOut(limit).to_string(), advice::ENDLESS)
    }

    pub(super) fn stop<T>(&mut self, what: impl Into<String>, advice: &'static str) -> Option<T> {
        self.report.found(what, advice);
        None
    }
}
