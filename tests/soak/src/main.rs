//! The soak: real brokers, real databases, real processes, and a seeded schedule of harm. See the README beside it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod all;
mod broker;
mod check;
mod crew;
mod database;
mod disk;
mod event;
mod handlers;
mod harm;
mod message;
mod nats;
mod options;
mod plan;
mod producer;
mod proxy;
mod report;
mod run;
mod schema;
mod store;
mod tally;
mod wire;
mod worker;

use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::Builder;

/// Does harm to consumers, brokers and databases while messages are applied, and counts what was lost, doubled or wedged.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    options: options::Options,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// One consumer process, started by the soak itself.
    #[command(hide = true)]
    Worker(worker::Args),
    /// The large soak: several databases and brokers, one after the other.
    All(all::Args),
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    if let Some(Command::Worker(args)) = cli.command {
        worker::keep_expected_panics_quiet();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(worker::run(args))?;
        return Ok(ExitCode::SUCCESS);
    }
    disk::keep_mounts_private();
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let is_good = runtime.block_on(async {
        tokio::select! {
            is_good = supervise(&cli) => is_good,
            // What was started ends with this.
            _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
        }
    })?;
    Ok(if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn supervise(cli: &Cli) -> anyhow::Result<bool> {
    if let Some(Command::All(args)) = &cli.command {
        return Box::pin(all::run(args)).await;
    }
    let report = Box::pin(run::run(&cli.options)).await?;
    if cli.options.json {
        println!("{:#}", report.json());
    } else {
        println!("{report}");
    }
    Ok(report.is_good())
}
