use clap::CommandFactory as _;
use clap_complete::Shell;
use serde::Serialize;

use crate::args::Cli;
use crate::failure::{Code, Failure};
use crate::report::Report;

#[derive(Serialize)]
struct Document<'s> {
    shell: String,
    script: &'s str,
}

pub(super) fn run(shell: Shell) -> Result<Report, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "idem", &mut script);
    let script = String::from_utf8(script)
        .map_err(|error| Failure::new(Code::Failed, format!("no completions: {error}")))?;
    let document = Document {
        shell: shell.to_string(),
        script: &script,
    };
    Report::new(script.as_str(), &document)
}
