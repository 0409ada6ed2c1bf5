//! The steps in which the database refuses a write.

use std::fmt::Debug;

use super::advice;
use super::steps::{Once, Steps};
use super::watch::{Harm, Point};
use crate::backend::Backend;

/// More writes than this in one delivery are not refused one by one.
const MOST_WRITES: u32 = 100;

impl<DB: Backend, V: PartialEq + Debug> Steps<'_, DB, V> {
    /// Each write of the body, one at a time.
    pub(super) async fn refused(&mut self, once: &Once<V>) -> Option<()> {
        self.report
            .steps
            .push("each write refused by the database".to_owned());
        let conn = match self.bench.prepare().await {
            Ok(conn) => conn,
            Err(failure) => return self.stop(failure.to_string(), advice::CANNOT_REFUSE),
        };
        self.report.steps.pop();
        let done = self.each_refused(once).await;
        match self.bench.clean_up(conn).await {
            Ok(()) => done,
            Err(failure) => {
                let what = format!("triggers of the proof are left behind: {failure}");
                self.stop(what, advice::TRIGGERS)
            }
        }
    }

    async fn each_refused(&mut self, once: &Once<V>) -> Option<()> {
        let points = once.seen.points.iter().enumerate();
        let claims = points.filter(|(_, point)| **point == Point::Claimed);
        for (at, _) in claims {
            for number in 1..=MOST_WRITES {
                self.step(format!("write {number} refused by the database"))
                    .await?;
                let harm = Some((at, Harm::RefuseWrite(number)));
                let delivery = self.bench.deliver_with(harm, None).await;
                if let Some(why) = delivery.seen.cannot_refuse {
                    return self.stop(why, advice::CANNOT_REFUSE);
                }
                let is_made = delivery.seen.writes.is_none_or(|writes| writes >= number);
                if !is_made || !delivery.seen.is_harmed {
                    self.report.steps.pop();
                    break;
                }
                match &delivery.result {
                    Err(failure) if failure.is_aborted() => {
                        self.report.found(failure.to_string(), advice::DROPPED);
                    }
                    Err(_) => self.settled(once, delivery).await?,
                    Ok(()) => self.compare(once, advice::DROPPED).await?,
                }
            }
        }
        Some(())
    }
}
