use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{WindowArgs, duration};

#[derive(Debug, Clone, Args)]
pub(crate) struct PruneArgs {
    /// Count what would go, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Append what goes to this file first, one JSON object a line; compressed if it ends in .gz
    #[arg(long, value_name = "FILE.jsonl[.gz]", conflicts_with = "archive_table")]
    pub(crate) archive: Option<PathBuf>,

    /// Move what goes to the table `processed_messages_archive`
    #[arg(long)]
    pub(crate) archive_table: bool,

    /// How many rows a transaction removes [default: 5000 on PostgreSQL, 1000 elsewhere]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) chunk: Option<u32>,

    /// How long to leave the database alone between two transactions [default: 10ms]
    #[arg(long, value_name = "TIME", value_parser = duration::time)]
    pub(crate) pause: Option<Duration>,

    #[command(flatten)]
    pub(crate) windows: WindowArgs,
}
