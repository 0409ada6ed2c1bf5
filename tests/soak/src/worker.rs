//! One consumer process: takes messages, applies them, acknowledges what is `Ok` and gives the rest back. It misbehaves as its seed says and
//! hurts itself where its supervisor says.

mod deliveries;

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::broker::{Arrival, Consumer};
use crate::event::tell;
use crate::harm::{self, Deed, Point};
use crate::message::{Kind, Message};
use crate::store::Store;
use deliveries::Deliveries;

/// So many messages make a batch, or as many as come within this time.
const BATCH: usize = 20;
const GATHER: Duration = Duration::from_millis(40);

/// What the supervisor tells a worker when it starts it.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    pub(crate) database_url: String,
    #[arg(long)]
    pub(crate) broker_url: String,
    #[arg(long)]
    pub(crate) queue: String,
    /// Of the messages.
    #[arg(long)]
    pub(crate) seed: u64,
    /// Of this process's own misbehaviour.
    #[arg(long)]
    pub(crate) own_seed: u64,
    /// How many connections its pool has.
    #[arg(long)]
    pub(crate) pool: u32,
    /// How many messages it has in work.
    #[arg(long)]
    pub(crate) prefetch: u16,
    /// Whether it applies batches in the opposite order.
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Whether it runs a pruner.
    #[arg(long)]
    pub(crate) prune: bool,
    /// Whether it misbehaves at all.
    #[arg(long)]
    pub(crate) calm: bool,
}

/// A line on stdin.
enum Command {
    Order(Deed, Point),
    /// What is in work is given up soon.
    Hurry,
    /// The harm is over.
    Calm,
    Status,
    /// Finish what is in work, give back the rest, and end.
    Finish,
}

impl Command {
    fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        Some(match word {
            "kill" => Self::Order(Deed::Kill, Point::of(rest)?),
            "stop" => Self::Order(Deed::Stop, Point::of(rest)?),
            "hurry" => Self::Hurry,
            "calm" => Self::Calm,
            "status" => Self::Status,
            "finish" => Self::Finish,
            _ => return None,
        })
    }
}

/// Runs until it is told to finish.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let store = Store::new(&args.database_url, args.pool)?;
    let deliveries = Arc::new(Deliveries::new(
        store.clone(),
        Rng::with_seed(args.own_seed),
        args.calm,
    ));
    let pruner = args.prune.then(|| {
        let store = store.clone();
        tokio::spawn(async move { store.prune().await })
    });
    let mut worker = Worker {
        commands: commands(),
        tasks: JoinSet::new(),
        messages: 0,
        gathered: Vec::new(),
        since: Instant::now(),
        deliveries,
        args,
    };
    let mut random = Rng::with_seed(worker.args.own_seed);
    loop {
        let args = &worker.args;
        match Consumer::connect(&args.broker_url, &args.queue, args.prefetch).await {
            Ok(consumer) => {
                if worker.consume(consumer).await {
                    break;
                }
            }
            Err(_) => tell(format_args!("no-broker")),
        }
        tokio::time::sleep(Duration::from_millis(random.u64(100..400))).await;
    }
    // It would keep a connection until its run is over.
    if let Some(pruner) = pruner {
        pruner.abort();
    }
    store.close().await;
    tell(format_args!("finished"));
    Ok(())
}

struct Worker {
    args: Args,
    deliveries: Arc<Deliveries>,
    commands: mpsc::UnboundedReceiver<Command>,
    /// Each comes to the number of its messages.
    tasks: JoinSet<usize>,
    /// In the tasks.
    messages: usize,
    /// The messages of the next batch.
    gathered: Vec<(Arrival, Message)>,
    /// When the first of them came.
    since: Instant,
}

impl Worker {
    /// Consumes until the connection to the broker is lost, or this process is to end: then it returns true.
    async fn consume(&mut self, mut consumer: Consumer) -> bool {
        loop {
            let flush = self.since + GATHER;
            // JetStream goes on sending, however many are in work.
            let has_room = self.in_work() < usize::from(self.args.prefetch);
            tokio::select! {
                arrival = consumer.next(), if has_room => {
                    let Ok(arrival) = arrival else {
                        tell(format_args!("broker-lost"));
                        return false;
                    };
                    self.take(arrival);
                }
                () = tokio::time::sleep_until(flush), if !self.gathered.is_empty() => self.deliver_batch(),
                Some(done) = self.tasks.join_next() => self.done(done),
                command = self.commands.recv() => match command {
                    Some(Command::Order(deed, point)) => harm::order(deed, point),
                    Some(Command::Hurry) => self.deliveries.hurry(),
                    Some(Command::Calm) => {
                        harm::forget_orders();
                        self.deliveries.be_calm();
                    }
                    Some(Command::Status) => tell(format_args!("status {}", self.in_work())),
                    Some(Command::Finish) | None => break,
                },
            }
        }
        if !self.gathered.is_empty() {
            self.deliver_batch();
        }
        while self.tasks.join_next().await.is_some() {}
        consumer.close().await.ok();
        true
    }

    fn in_work(&self) -> usize {
        self.messages + self.gathered.len()
    }

    fn done(&mut self, messages: Result<usize, JoinError>) {
        match messages {
            Ok(messages) => self.messages -= messages,
            Err(error) => tell(format_args!("unexpected {error}")),
        }
    }

    fn take(&mut self, arrival: Arrival) {
        let message = Message::of(self.args.seed, arrival.number);
        if message.kind != Kind::Batch {
            let deliveries = Arc::clone(&self.deliveries);
            self.messages += 1;
            self.tasks.spawn(async move {
                deliveries.single(arrival, message).await;
                1
            });
            return;
        }
        if self.gathered.is_empty() {
            self.since = Instant::now();
        }
        self.gathered.push((arrival, message));
        if self.gathered.len() >= BATCH {
            self.deliver_batch();
        }
    }

    fn deliver_batch(&mut self) {
        let mut batch = std::mem::take(&mut self.gathered);
        if self.args.reverse {
            batch.reverse();
        }
        let deliveries = Arc::clone(&self.deliveries);
        let messages = batch.len();
        self.messages += messages;
        self.tasks.spawn(async move {
            deliveries.batch(batch).await;
            messages
        });
    }
}

/// Without a supervisor there is nobody to work for.
fn commands() -> mpsc::UnboundedReceiver<Command> {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some(command) = Command::parse(&line)
                && sender.send(command).is_err()
            {
                break;
            }
        }
        std::process::exit(0);
    });
    receiver
}

/// Bodies that panic on purpose say nothing.
pub(crate) fn keep_expected_panics_quiet() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let is_expected = info
            .payload_as_str()
            .is_some_and(|text| text.contains(harm::Conduct::Panic.name()));
        if !is_expected {
            before(info);
        }
    }));
}
