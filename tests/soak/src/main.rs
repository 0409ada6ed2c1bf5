//! The soak: real brokers, real databases, real processes, and a seeded schedule of harm. See the README beside it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod broker;
mod check;
mod crew;
mod database;
mod disk;
mod event;
mod handlers;
mod harm;
mod message;
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

/// Does harm to consumers, brokers and databases while messages are applied, and counts what was lost, doubled or wedged.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    options: run::Options,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// One consumer process, started by the soak itself.
    #[command(hide = true)]
    Worker(worker::Args),
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    match cli.command {
        Some(Command::Worker(args)) => {
            worker::keep_expected_panics_quiet();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(worker::run(args))?;
            Ok(ExitCode::SUCCESS)
        }
        None => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()?;
            let report = runtime.block_on(run::run(&cli.options))?;
            if cli.options.json {
                println!("{:#}", report.json());
            } else {
                println!("{report}");
            }
            Ok(if report.is_good() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            })
        }
    }
}
