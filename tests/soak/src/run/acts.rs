use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::Duration;

use super::Run;
use super::stage::News;
use crate::disk;
use crate::harm::Deed;
use crate::message::{Kind, Message};
use crate::plan::Harm;
use crate::proxy::Trick;
use crate::store::Store;
use crate::wire::Moment;

/// By its length the supervisor knows it again, and then tells the worker to hurry.
pub(super) const DROP_AT_BEGIN: Trick = Trick::Delay(Duration::from_millis(1501));

impl Run {
    /// Does harm, or arranges for it. It is counted when it has happened.
    pub(super) async fn act(&mut self, harm: Harm, victim: usize) {
        let count = self.stage.places.len();
        if count == 0 {
            return;
        }
        let near = victim % count;
        // Somebody who can take it.
        let place = (0..count)
            .map(|step| (near + step) % count)
            .find(|place| self.stage.places[*place].is_at_work())
            .unwrap_or(near);
        let time = Duration::from_millis(300 + victim as u64);
        match harm {
            Harm::At(deed, point) => {
                let word = if deed == Deed::Kill { "kill" } else { "stop" };
                self.stage.places[place]
                    .tell(&format!("{word} {}", point.name()))
                    .await;
            }
            Harm::Kill => {
                if self.stage.places[place].is_at_work() {
                    self.stage.places[place].kill();
                    self.tally.harm.add(harm.name(), 1);
                }
            }
            Harm::Trick(trick, moment) => self.stage.databases[place].set_trap(trick, moment),
            Harm::CutDatabase => self.stage.databases[place].cut(),
            Harm::CutBroker => self.stage.brokers[place].cut(),
            Harm::CutProducer => self.stage.producers.cut(),
            Harm::DropAtBegin => {
                // The first worker's one connection goes from hand to hand, so that the next one finds what is left on it.
                let place = if victim.is_multiple_of(2) { 0 } else { place };
                self.stage.databases[place].set_trap(DROP_AT_BEGIN, Moment::Begin);
            }
            Harm::Terminate | Harm::Cancel => {
                let (store, tell) = (self.stage.store.clone(), self.stage.tell.clone());
                self.acts.spawn(async move {
                    // Fails while the server is down, when there is nothing to end.
                    if let Ok(true) = end_a_backend(&store, harm == Harm::Terminate).await {
                        tell.send(News::Harm(harm.name(), 1)).ok();
                    }
                });
            }
            Harm::Hold => {
                let (store, tell) = (self.stage.store.clone(), self.stage.tell.clone());
                self.acts.spawn(async move {
                    if store.hold(time).await.is_ok() {
                        tell.send(News::Harm(harm.name(), 1)).ok();
                    }
                });
            }
            Harm::HoldClaims => {
                let (store, tell) = (self.stage.store.clone(), self.stage.tell.clone());
                let published = self.stage.shared.published.load(Ordering::SeqCst);
                let seed = self.options.seed;
                self.acts.spawn(async move {
                    let coming =
                        (published..published + 400).map(|number| Message::of(seed, number));
                    let batch = coming
                        .filter(|message| message.kind == Kind::Batch)
                        .step_by(10);
                    let keys: Vec<String> = batch.map(|message| message.key()).collect();
                    if let Ok(true) = store.hold_claims("batch", &keys, time * 2).await {
                        tell.send(News::Harm(harm.name(), 1)).ok();
                    }
                });
            }
            Harm::Restart | Harm::Freeze | Harm::FullDisk => self.hurt_server(harm, time),
        }
    }

    /// One at a time: a server that is frozen cannot be restarted, nor one whose disk is full.
    fn hurt_server(&mut self, harm: Harm, time: Duration) {
        let (server, tell) = (Arc::clone(&self.stage.server), self.stage.tell.clone());
        let filler = self.stage.filler.clone();
        self.acts.spawn_blocking(move || {
            let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
            let is_up = server.revive();
            if is_up.is_err() {
                return;
            }
            let happened = match harm {
                Harm::Restart => {
                    server.restart();
                    true
                }
                Harm::Freeze => {
                    server.freeze();
                    std::thread::sleep(time);
                    server.thaw();
                    true
                }
                _ => match disk::fill(&filler, time) {
                    Ok(is_full) => is_full,
                    Err(error) => {
                        tell.send(News::Unexpected(format!(
                            "the disk was not filled: {error:#}"
                        )))
                        .ok();
                        false
                    }
                },
            };
            if happened {
                tell.send(News::Harm(harm.name(), 1)).ok();
            }
        });
    }

    /// A full disk may end a server, also some time later.
    pub(super) fn look_after_server(&mut self) {
        let (server, tell) = (Arc::clone(&self.stage.server), self.stage.tell.clone());
        self.acts.spawn_blocking(move || {
            let mut server = match server.try_lock() {
                Ok(server) => server,
                Err(TryLockError::Poisoned(server)) => server.into_inner(),
                // Somebody is at it.
                Err(TryLockError::WouldBlock) => return,
            };
            match server.revive() {
                Ok(false) => {}
                Ok(true) => {
                    tell.send(News::Mishap("server had ended by itself")).ok();
                }
                Err(error) => {
                    tell.send(News::Unexpected(format!(
                        "the server does not come up again: {error}"
                    )))
                    .ok();
                }
            }
        });
    }
}

/// Ends the connection, or cancels the statement, of a worker that is at work, if there is one.
async fn end_a_backend(store: &Store, is_terminated: bool) -> sqlx::Result<bool> {
    match store {
        Store::Postgres(_) => {
            let function = if is_terminated {
                "pg_terminate_backend"
            } else {
                "pg_cancel_backend"
            };
            let sql = format!(
                "SELECT count(*) FILTER (WHERE {function}(pid)) FROM (SELECT pid FROM pg_stat_activity \
                 WHERE application_name = 'worker' AND backend_type = 'client backend' \
                 ORDER BY state <> 'active', state = 'idle', random() LIMIT 1) AS backend"
            );
            Ok(store.number(&sql).await? == 1)
        }
        Store::MySql(_) => {
            let sql = "SELECT id FROM information_schema.processlist WHERE user = 'worker' ORDER BY command = 'Sleep', rand() LIMIT 1";
            let id = store.number(sql).await?;
            let word = if is_terminated { "CONNECTION" } else { "QUERY" };
            Ok(store.execute(format!("KILL {word} {id}")).await.is_ok())
        }
        Store::Sqlite(_) => Ok(false),
    }
}
