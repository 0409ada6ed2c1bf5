//! One run: harm for a while, then rest, then the verdict.

mod acts;
mod rest;
mod stage;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::broker::Producer;
use crate::check::{Effects, Expected, Verdict};
use crate::database::Database;
use crate::options::Options;
use crate::plan::{self, Harm, Plan, Targets};
use crate::producer;
use crate::proxy::Seen;
use crate::report::Report;
use crate::tally::Tally;
use crate::wire::Moment;
use acts::DROP_AT_BEGIN;
use stage::{News, Stage, Who};

/// How often a run tells how it stands.
const PROGRESS: Duration = Duration::from_secs(10);

/// How long at least is waited for harm that did not happen in its time.
const MORE_TIME: Duration = Duration::from_secs(30);

/// Runs it. An error is a run that could not be done; what the run found is in its report.
pub(crate) async fn run(options: &Options) -> anyhow::Result<Report> {
    let mut run = Run {
        stage: Stage::set(options).await?,
        options: options.clone(),
        tally: Tally::default(),
        wedged: Vec::new(),
        acts: JoinSet::new(),
        to_hurry: Vec::new(),
        looked: Instant::now(),
        began: Instant::now(),
        told: Instant::now(),
    };
    let report = run.play().await;
    run.stage.clear().await;
    report
}

struct Run {
    options: Options,
    stage: Stage,
    tally: Tally,
    wedged: Vec<String>,
    /// Harm that takes a while.
    acts: JoinSet<()>,
    /// Workers one of whose deliveries waits for BEGIN, and is to be dropped there.
    to_hurry: Vec<usize>,
    /// When the server was last looked after.
    looked: Instant,
    began: Instant,
    /// When it was last said how things stand.
    told: Instant,
}

impl Run {
    async fn play(&mut self) -> anyhow::Result<Report> {
        self.began = Instant::now();
        let shared = Arc::clone(&self.stage.shared);
        let order = self.stage.order.clone();
        let through_proxy = producer::Order {
            url: self.stage.producer_url.clone(),
            ..order.clone()
        };
        let state = Arc::clone(&shared);
        let producer = tokio::spawn(async move { producer::produce(through_proxy, &state).await });

        let time = Duration::from_secs(self.options.seconds);
        self.do_harm(time, || producer.is_finished()).await;
        shared.is_over.store(true, Ordering::SeqCst);
        let time = self.began.elapsed();
        let rest = Instant::now();
        self.tell_progress("and peace");
        self.make_peace().await;
        self.wait("the producer ended", || producer.is_finished())
            .await;
        let queue = Producer::connect(&order.url, &order.queue).await?;
        self.drain(&queue).await;
        // Whether those who were harmed are still at work.
        let first = shared.published.load(Ordering::SeqCst);
        let probe: Vec<i64> = (first..first + 50).collect();
        producer::publish(&order, &probe, &shared).await;
        shared.published.store(first + 50, Ordering::SeqCst);
        self.drain(&queue).await;
        let drain = rest.elapsed();
        self.look_for_open_transactions().await;
        self.finish_workers().await;
        self.look_at_the_queue(&queue).await;
        queue.remove().await?;

        let published = shared.published.load(Ordering::SeqCst);
        let expected = Expected::of(self.options.seed, published);
        let effects = Effects::read(&self.stage.store).await?;
        if self.options.database == Database::Postgres && self.tally.claims_deadlocked > 0 {
            let count = self.tally.claims_deadlocked;
            self.tally.unexpected.push(format!(
                "{count} deadlocks among claims, which are sorted to have none"
            ));
        }
        Ok(Report {
            database: self.options.database.name(),
            broker: self.options.broker.name(),
            seed: self.options.seed,
            consumers: self.options.consumers,
            time,
            drain,
            messages: published,
            duplicates: shared.duplicates.load(Ordering::SeqCst),
            again: shared.again.load(Ordering::SeqCst),
            old_claims_left: effects.old,
            verdict: Verdict::of(&expected, &effects),
            wedged: std::mem::take(&mut self.wedged),
            missing: self.missing(),
            tally: std::mem::take(&mut self.tally),
            command: self.options.command(),
        })
    }

    fn plan(&self) -> Plan {
        Plan::new(self.targets(), self.options.seed, self.options.every)
    }

    fn targets(&self) -> Targets {
        Targets {
            database: self.options.database,
            disk: !self.options.without_full_disk,
        }
    }

    /// For the time that was asked for. What has not happened by then is done again, for as long again at most.
    async fn do_harm(&mut self, time: Duration, is_done: impl Fn() -> bool) {
        let mut plan = self.plan();
        let end = self.began + time;
        while Instant::now() < end && !is_done() {
            self.step().await;
            while let Some((harm, victim)) = plan.due(self.tally.deliveries) {
                self.act(harm, victim).await;
            }
        }
        if self.stage.places.is_empty() {
            return;
        }
        let mut next = end;
        while Instant::now() < end + time.max(MORE_TIME) && !is_done() && !self.missing().is_empty()
        {
            self.step().await;
            if Instant::now() >= next {
                next = Instant::now() + Duration::from_secs(2);
                for (harm, victim) in plan.again(&self.missing()) {
                    self.act(harm, victim).await;
                }
            }
        }
    }

    /// Waits for one thing to happen, or a moment, and looks after the workers and the server.
    async fn step(&mut self) {
        tokio::select! {
            Some(news) = self.stage.news.recv() => {
                self.note(news);
                // Whatever else has come meanwhile.
                while let Ok(news) = self.stage.news.try_recv() {
                    self.note(news);
                }
            }
            Some(_) = self.acts.join_next() => {}
            () = sleep(Duration::from_millis(20)) => {}
        }
        for place in &mut self.stage.places {
            if let Err(error) = place.tend() {
                self.tally.unexpected.push(error.to_string());
            }
        }
        for place in std::mem::take(&mut self.to_hurry) {
            self.stage.places[place].tell("hurry").await;
        }
        if self.looked.elapsed() > Duration::from_millis(500) {
            self.looked = Instant::now();
            self.look_after_server();
        }
        if self.told.elapsed() > PROGRESS {
            self.told = Instant::now();
            self.tell_progress("");
        }
    }

    fn tell_progress(&self, what: &str) {
        eprintln!(
            "{:>5} s: {} deliveries, {} faults, {} unexpected {what}",
            self.began.elapsed().as_secs(),
            self.tally.deliveries,
            self.tally.harm.total(),
            self.tally.unexpected.len(),
        );
    }

    fn note(&mut self, news: News) {
        match news {
            News::Line(line) => {
                self.stage.places[line.place].hear(&line.text);
                self.tally.note(&line.text);
            }
            News::Harm(name, count) => self.tally.harm.add(name, count),
            News::Mishap(name) => self.tally.mishaps.add(name, 1),
            News::Unexpected(what) => self.tally.unexpected.push(what),
            News::Seen(who, seen) => self.note_seen(who, seen),
        }
    }

    fn note_seen(&mut self, who: Who, seen: Seen) {
        match seen {
            Seen::Done(DROP_AT_BEGIN, Moment::Begin) => {
                if let Who::Database(place) = who {
                    self.to_hurry.push(place);
                }
            }
            Seen::Done(trick, moment) => self.tally.harm.add(Harm::Trick(trick, moment).name(), 1),
            Seen::GaveUp(Moment::Begin) => self.tally.harm.add(Harm::DropAtBegin.name(), 1),
            Seen::GaveUp(_) => self
                .tally
                .mishaps
                .add("gave up while the answer was late", 1),
            Seen::Cut => {
                let harm = match who {
                    Who::Database(_) => Harm::CutDatabase,
                    Who::Broker => Harm::CutBroker,
                    Who::Producer => Harm::CutProducer,
                };
                self.tally.harm.add(harm.name(), 1);
            }
            Seen::Error(moment, code) => {
                if moment == Some(Moment::Claims) && code == "40P01" {
                    self.tally.claims_deadlocked += 1;
                }
                let at = moment.map_or("elsewhere", Moment::name);
                self.tally.answers.add(format!("{code} at {at}"), 1);
            }
        }
    }

    /// The kinds of the plan that have not happened.
    fn missing(&self) -> Vec<String> {
        let mut names = plan::names(self.targets());
        names.retain(|name| self.tally.harm.of(name) == 0);
        names
    }
}
