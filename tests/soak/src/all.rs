//! The large soak: one run after another, on several databases and brokers, and what they come to together.

use std::fmt;

use crate::broker::Broker;
use crate::database::Database;
use crate::options::Options;
use crate::report::Report;
use crate::run;

/// How the time is divided.
const RUNS: [(Database, Broker, u64); 5] = [
    (Database::Postgres, Broker::Rabbitmq, 30),
    (Database::Mysql, Broker::Rabbitmq, 20),
    (Database::Postgres, Broker::Nats, 25),
    (Database::Mysql, Broker::Nats, 10),
    (Database::Sqlite, Broker::Rabbitmq, 15),
];

/// How long and how hard.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// How long harm is done, over all runs.
    #[arg(long, default_value_t = 40)]
    pub(crate) minutes: u64,
    /// Of the first run; each other has one of its own.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many consumer processes there are.
    #[arg(long, default_value_t = 4)]
    pub(crate) consumers: usize,
    /// After how many deliveries, on average, harm is done.
    #[arg(long, default_value_t = 100)]
    pub(crate) every: u64,
    /// The size of the database's disk, in megabytes.
    #[arg(long, default_value_t = 1024)]
    pub(crate) disk: u32,
    /// Where no tmpfs can be mounted.
    #[arg(long)]
    pub(crate) without_full_disk: bool,
    /// Prints the reports as JSON, one to a line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints each report when it is there, and the sum at the end. Whether all are good.
pub(crate) async fn run(args: &Args) -> anyhow::Result<bool> {
    let mut reports = Vec::new();
    for (seed, (database, broker, share)) in (args.seed..).zip(RUNS) {
        let options = Options {
            database,
            broker,
            seconds: args.minutes * 60 * share / 100,
            messages: i64::MAX,
            seed,
            consumers: args.consumers,
            every: args.every,
            patience: 120,
            disk: args.disk,
            without_full_disk: args.without_full_disk,
            json: args.json,
        };
        eprintln!(
            "{} and {}, {} seconds",
            database.name(),
            broker.name(),
            options.seconds
        );
        let report = Box::pin(run::run(&options)).await?;
        if args.json {
            println!("{}", report.json());
        } else {
            println!("{report}");
        }
        reports.push(report);
    }
    if !args.json {
        println!("{}", Sum(&reports));
    }
    Ok(reports.iter().all(Report::is_good))
}

/// All runs in one table.
struct Sum<'r>(&'r [Report]);

impl fmt::Display for Sum<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n## All runs\n")?;
        writeln!(
            f,
            "| database | broker | seed | seconds | messages | deliveries | faults | kinds | mishaps | lost | doubled | wedged | otherwise wrong |"
        )?;
        writeln!(
            f,
            "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
        )?;
        let mut sums = [0; 9];
        for report in self.0 {
            let tally = &report.tally;
            let numbers = [
                report.time.as_secs(),
                report.messages.unsigned_abs(),
                tally.deliveries,
                tally.harm.total(),
                tally.mishaps.total(),
                report.verdict.lost.len() as u64,
                report.verdict.doubled.len() as u64,
                report.wedged.len() as u64,
                (report.verdict.wrong.len() + tally.unexpected.len() + report.missing.len()) as u64,
            ];
            for (sum, number) in sums.iter_mut().zip(numbers) {
                *sum += number;
            }
            let name = format!("{} | {} | {}", report.database, report.broker, report.seed);
            row(f, &name, numbers, &tally.harm.len().to_string())?;
        }
        row(f, "**all** | | ", sums, "")
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, numbers: [u64; 9], kinds: &str) -> fmt::Result {
    let [
        seconds,
        messages,
        deliveries,
        faults,
        mishaps,
        lost,
        doubled,
        wedged,
        wrong,
    ] = numbers;
    writeln!(
        f,
        "| {name} | {seconds} | {messages} | {deliveries} | {faults} | {kinds} | {mishaps} | {lost} | {doubled} | {wedged} | {wrong} |"
    )
}
