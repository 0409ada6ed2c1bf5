//! `idem`, the operator's command line: creates the table of claims, shows what is in it, and takes out of it what is past its time.
//!
//! Arrows go one way: `commands -> { store, database } -> { fault, failure }`; `args` says what can be asked, and every command answers
//! with a [`report::Report`], which this file alone prints.

mod args;
mod commands;
mod database;
mod failure;
mod fault;
mod report;
mod store;
mod terminal;
mod text;
mod url;

use std::process::ExitCode;

use clap::Parser as _;

use args::Cli;
use failure::{Code, Failure};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            terminal::print_usage(&error);
            let code = if error.use_stderr() {
                Code::Usage
            } else {
                Code::Done
            };
            return code.into();
        }
    };
    let is_json = cli.global.json;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let code = match runtime {
        Ok(runtime) => {
            let answer = runtime.block_on(commands::run(cli));
            // A prompt that nobody answered still waits in its thread.
            runtime.shutdown_background();
            answer.and_then(|report| report.print(is_json))
        }
        Err(error) => Err(Failure::new(Code::Failed, format!("no runtime: {error}"))),
    };
    match code {
        Ok(code) => code.into(),
        Err(failure) => {
            terminal::complain(&failure);
            failure.code.into()
        }
    }
}
