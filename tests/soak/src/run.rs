//! One run: harm for a while, then rest, then the verdict.

mod acts;
mod stage;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::broker::{Broker, Depth, Producer};
use crate::check::{Effects, Expected, Verdict};
use crate::crew::Place;
use crate::database::Database;
use crate::plan::{self, Harm, Plan};
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

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// The database that the effects go to.
    #[arg(long, value_enum, default_value = "postgres")]
    pub(crate) database: Database,
    /// The broker that the messages come from.
    #[arg(long, value_enum, default_value = "rabbitmq")]
    pub(crate) broker: Broker,
    /// How long harm is done.
    #[arg(long, default_value_t = 60)]
    pub(crate) seconds: u64,
    /// How many different messages are published, unless the time is up before.
    #[arg(long, default_value_t = i64::MAX)]
    pub(crate) messages: i64,
    /// What messages there are, and which harm is done after how many deliveries.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many consumer processes there are.
    #[arg(long, default_value_t = 4)]
    pub(crate) consumers: usize,
    /// After how many deliveries, on average, harm is done.
    #[arg(long, default_value_t = 100)]
    pub(crate) every: u64,
    /// In so many seconds after the harm all has to be at rest.
    #[arg(long, default_value_t = 60)]
    pub(crate) patience: u64,
    /// The size of the database's disk, in megabytes.
    #[arg(long, default_value_t = 512)]
    pub(crate) disk: u32,
    /// Where no tmpfs can be mounted.
    #[arg(long)]
    pub(crate) without_full_disk: bool,
    /// Prints the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Options {
    fn command(&self) -> String {
        let mut command = format!(
            "cargo run -p idem-soak -- --database {} --broker {} --seconds {} --seed {} --consumers {} --every {} --disk {}",
            self.database.name(),
            self.broker.name(),
            self.seconds,
            self.seed,
            self.consumers,
            self.every,
            self.disk
        );
        if self.messages != i64::MAX {
            command += &format!(" --messages {}", self.messages);
        }
        if self.without_full_disk {
            command += " --without-full-disk";
        }
        command
    }
}

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
        let Options {
            database,
            seed,
            every,
            ..
        } = self.options;
        Plan::new(database, !self.options.without_full_disk, seed, every)
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

    /// No more harm: what is stopped goes on, what is held is let go.
    async fn make_peace(&mut self) {
        self.stage.clear_traps();
        for place in &mut self.stage.places {
            place.be_calm().await;
        }
        while !self.acts.is_empty() {
            self.step().await;
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

    /// Until nothing is left in the queue and nobody has anything in work.
    async fn drain(&mut self, queue: &Producer) {
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

    async fn wait(&mut self, what: &str, is_so: impl Fn() -> bool) {
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
    async fn look_for_open_transactions(&mut self) {
        let Some(sql) = self.stage.open_transactions() else {
            return;
        };
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let open = self.stage.store.number(sql).await;
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

    async fn finish_workers(&mut self) {
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
    async fn look_at_the_queue(&mut self, queue: &Producer) {
        match queue.depth().await {
            Ok(depth) if is_empty(depth) => {}
            depth => self
                .wedged
                .push(format!("the queue has {depth:?} when everybody is gone")),
        }
    }

    /// The kinds of the plan that have not happened.
    fn missing(&self) -> Vec<String> {
        let mut names = plan::names(self.options.database, !self.options.without_full_disk);
        names.retain(|name| self.tally.harm.of(name) == 0);
        names
    }
}

fn is_empty(depth: Depth) -> bool {
    depth.ready == 0 && depth.unacknowledged.unwrap_or_default() == 0
}
