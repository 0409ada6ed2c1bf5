//! What a run is given on the command line.

use crate::broker::Broker;
use crate::database::Database;

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
    /// The command that runs it.
    pub(crate) fn command(&self) -> String {
        let messages = if self.messages == i64::MAX {
            String::new()
        } else {
            format!(" --messages {}", self.messages)
        };
        let disk = if self.without_full_disk {
            " --without-full-disk"
        } else {
            ""
        };
        format!(
            "cargo run -p idem-soak -- --database {} --broker {} --seconds {} --seed {} --consumers {} --every {} --disk {}{messages}{disk}",
            self.database.name(),
            self.broker.name(),
            self.seconds,
            self.seed,
            self.consumers,
            self.every,
            self.disk
        )
    }
}
