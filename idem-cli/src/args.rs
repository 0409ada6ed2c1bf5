mod duration;
mod prune;
mod windows;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::failure::Code;

pub(crate) use prune::PruneArgs;
pub(crate) use windows::WindowArgs;

const EXAMPLES: &str = "\
Examples:
  export DATABASE_URL=postgres://app@db.example.org/shop
  idem migrate
  idem status
  idem show billing evt-42
  idem prune --retain 7d --redelivery 4d --dry-run";

const PRUNE_EXAMPLES: &str = "\
Examples:
  idem prune --retain 7d --redelivery 4d --dry-run
  idem prune --retain 7d --redelivery 4d --window billing=30d --archive claims.jsonl.gz
  idem prune --window mail=12h --redelivery mail=1h";

/// Looks after the table of claims, by which idempotent consumers tell a message from its redelivery.
#[derive(Debug, Parser)]
#[command(name = "idem", version, max_term_width = 110, after_help = Code::TABLE,
    after_long_help = format!("{EXAMPLES}\n\n{}", Code::TABLE), propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// The database: postgres://…, mysql://…, mariadb://… or sqlite:…
    ///
    /// postgres://USER:PASSWORD@HOST:PORT/DATABASE, likewise mysql:// or mariadb://, or sqlite:PATH. Other users of the machine can read
    /// the command line: put a URL with a password into `DATABASE_URL`. On PostgreSQL, `?options[search_path]=SCHEMA` chooses the schema
    /// and `?sslmode=verify-full` asks for a server that proves who it is.
    #[arg(
        long,
        env = "DATABASE_URL",
        hide_env_values = true,
        global = true,
        value_name = "URL"
    )]
    pub(crate) url: Option<String>,

    /// One JSON document on stdout instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// How long the database may take to answer
    #[arg(long, global = true, value_name = "TIME", default_value = "5s", value_parser = duration::some_time)]
    pub(crate) connect_timeout: Duration,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the SQL of the table of claims, for migrations of your own
    ///
    /// Needs no connection. Without --database, the scheme of --url or `DATABASE_URL` says for which database.
    Schema {
        /// For which database
        #[arg(long, value_enum)]
        database: Option<Kind>,
        /// The table by days, whose days are dropped as a whole (PostgreSQL)
        #[arg(long)]
        by_day: bool,
        /// What adds to an older table what it lacks
        #[arg(long, conflicts_with_all = ["by_day", "archive"])]
        upgrade: bool,
        /// The table that `prune --archive-table` moves claims to
        #[arg(long, conflicts_with = "by_day")]
        archive: bool,
    },

    /// Create the table of claims, or bring it up to date
    ///
    /// Safe to run again, and by several at once. Changes nothing where the table is up to date, and no row elsewhere. A large table of an
    /// older version lacks the pruner's index: PostgreSQL keeps consumers waiting while it is made, so that there you better run `CREATE INDEX
    /// CONCURRENTLY` first, with what `idem schema --upgrade` prints.
    Migrate {
        /// The table by days too, with its partitions (PostgreSQL)
        #[arg(long)]
        by_day: bool,
    },

    /// Show how many rows each consumer has, how old and how many a day
    ///
    /// A large table is estimated, which is marked by `~`; what cannot be told so is `?`. Never makes a consumer wait. Duplicates leave no
    /// trace in the table, so that nothing is said of them.
    Status {
        /// Count also in a large table, which reads all of it
        #[arg(long)]
        exact: bool,
        /// Estimate also where the table is small
        #[arg(long, conflicts_with = "exact")]
        estimate: bool,
    },

    /// Show the claim of a message: when it was processed, and what was stored
    Show(ClaimArgs),

    /// Remove the claim of a message, so that its next delivery runs again
    ///
    /// Asks first. Does not undo what the message has done, and does not deliver it again: that is the broker's part.
    Forget {
        #[command(flatten)]
        claim: ClaimArgs,
        /// Do not ask (needed where there is no terminal)
        #[arg(long, short)]
        yes: bool,
    },

    /// Remove the claims that are past their retention window
    ///
    /// In short transactions that never make a consumer wait, so that it may run at any time; one pruner works at a time. Stopped at any point,
    /// it loses nothing.
    #[command(after_help = PRUNE_EXAMPLES)]
    Prune(PruneArgs),

    /// Look after the days of the table by days (PostgreSQL)
    Partitions {
        #[command(subcommand)]
        action: Option<PartitionAction>,
        /// How long days are kept: `create` makes them from so long ago on, and `drop-expired` drops older ones
        #[arg(long, value_name = "WINDOW", global = true)]
        retain: Option<idem::Retain>,
        /// For how many days partitions are created ahead
        #[arg(long, value_name = "DAYS", global = true)]
        ahead: Option<u16>,
    },

    /// Look for what is wrong with the table, its database and the windows
    ///
    /// Each finding comes with its remedy. Exit code 1 if there is an error among them. The handlers of your program, and the windows that they
    /// give, are seen by `idem::doctor` in the program only.
    Doctor {
        #[command(flatten)]
        windows: WindowArgs,
    },

    /// Print completions for a shell
    ///
    /// For bash: `idem completions bash > /etc/bash_completion.d/idem`; for zsh, a file `_idem` in a directory of $fpath; for fish,
    /// ~/.config/fish/completions/idem.fish.
    Completions {
        /// Which shell
        #[arg(value_enum)]
        shell: Shell,
    },

    /// Print the man page, or write one for each command into a directory
    Man {
        /// The directory, such as /usr/local/share/man/man1
        directory: Option<PathBuf>,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ClaimArgs {
    /// The name of the consumer, as in `consumer = "billing"`
    pub(crate) consumer: String,

    /// The key as it is stored
    ///
    /// A text stands as it is, except that `\` comes before a `|` or `\` of its own; a number in decimal, bytes in lower-case
    /// hexadecimal; the parts of a composite key are joined with `|`, so that it needs quotes: 'shop|4711'.
    pub(crate) key: String,

    /// It is a business key (stored with a `|` before it)
    #[arg(long)]
    pub(crate) business: bool,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum PartitionAction {
    /// Show the partitions and their sizes (what `partitions` alone does)
    List,
    /// Create the table by days and the partitions of the days to come, where they are missing
    Create,
    /// Drop the days that are past their retention window, with the claims of all consumers in them
    ///
    /// Asks first. A pruner in your programs does this by itself, by the windows of the handlers.
    DropExpired {
        /// How long the broker may redeliver, which --retain must exceed
        #[arg(long, value_name = "TIME", value_parser = duration::time)]
        redelivery: Option<Duration>,
        /// Show what would go, and change nothing
        #[arg(long)]
        dry_run: bool,
        /// Do not ask (needed where there is no terminal)
        #[arg(long, short)]
        yes: bool,
    },
}

/// A database that holds claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// PostgreSQL
    #[value(alias = "postgresql")]
    Postgres,
    /// MySQL and MariaDB
    #[value(alias = "mariadb")]
    Mysql,
    /// SQLite
    Sqlite,
}

impl Kind {
    /// As URLs and JSON have it.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Sqlite => "sqlite",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::Mysql => "MySQL or MariaDB",
            Self::Sqlite => "SQLite",
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }
}
