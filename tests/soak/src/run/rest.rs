//! After the harm: everything has to come to rest.

use std::time::Duration;

use tokio::time::Instant;

use super::Run;
use crate::broker::{Depth, Producer};
use crate::crew::Place;

impl Run {
    /// No more harm: what is stopped goes on, what is held is let go.
    pub(super) async fn make_peace(&mut self) {
        self.stage.clear_traps();
        for place in &mut self.stage.places {
            place.be_calm().await;
        }
        while !self.acts.is_empty() {
            self.step().await;
        }
    }

    /// Until nothing is left in the queue and nobody has anything in work.
    pub(super) async fn drain(&mut self, queue: &Producer) {
        let end = Instant::now() + Duration::from_secs(self.options.patience);
        let mut at_rest = 0;
        let mut last = None;
        while at_rest < 2 {
            if Instant::now() > end {
                let in_work: Vec<_> = self
                    .stage
                    .places
                    .iter()
                    .map(|place| place.in_work)
                    .collect();
                self.wedged.push(format!(
                    "after {} seconds the queue has {last:?} and the workers have {in_work:?} in work",
                    self.options.patience
                ));
                return;
            }
            for place in &mut self.stage.places {
                place.in_work = None;
                place.tell("status").await;
            }
            let until = Instant::now() + Duration::from_millis(300);
            while Instant::now() < until {
                self.step().await;
            }
            last = queue.depth().await.ok();
            let is_empty = last.is_some_and(is_empty);
            let are_idle = self
                .stage
                .places
                .iter()
                .all(|place| place.in_work == Some(0));
            at_rest = if is_empty && are_idle { at_rest + 1 } else { 0 };
        }
    }

    pub(super) async fn wait(&mut self, what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(self.options.patience);
        while !is_so() {
            if Instant::now() > end {
                self.wedged.push(format!(
                    "not within {} seconds: {what}",
                    self.options.patience
                ));
                return;
            }
            self.step().await;
        }
    }

    /// The workers are idle, so that no transaction may be open, and no lock be held.
    pub(super) async fn look_for_open_transactions(&mut self) {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let open = self.stage.open_transactions().await;
            match open {
                Ok(0) => return,
                open if Instant::now() > end => {
                    self.wedged.push(format!(
                        "open transactions or held locks of idle workers: {open:?}"
                    ));
                    return;
                }
                _ => self.step().await,
            }
        }
    }

    pub(super) async fn finish_workers(&mut self) {
        for place in &mut self.stage.places {
            place.tell("finish").await;
        }
        let end = Instant::now() + Duration::from_secs(20);
        while !self.stage.places.iter().all(Place::has_finished) {
            if Instant::now() > end {
                self.wedged
                    .push("a worker that was told to finish does not".to_owned());
                return;
            }
            self.step().await;
        }
    }

    /// What a worker held without working on it, it has given back by now.
    pub(super) async fn look_at_the_queue(&mut self, queue: &Producer) {
        match queue.depth().await {
            Ok(depth) if is_empty(depth) => {}
            depth => self
                .wedged
                .push(format!("the queue has {depth:?} when everybody is gone")),
        }
    }
}

fn is_empty(depth: Depth) -> bool {
    depth.ready == 0 && depth.unacknowledged.unwrap_or_default() == 0
}
