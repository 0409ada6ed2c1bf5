//! The command line as an operator uses it: the real program, on real databases, in a real terminal.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "cli/claims.rs"]
mod claims;
#[path = "cli/db.rs"]
mod db;
#[path = "cli/doctor.rs"]
mod doctor;
#[path = "cli/faults.rs"]
mod faults;
#[path = "cli/pages.rs"]
mod pages;
#[path = "cli/partitions.rs"]
mod partitions;
#[path = "cli/prune.rs"]
mod prune;
#[path = "cli/rights.rs"]
mod rights;
#[path = "cli/run.rs"]
mod run;
#[path = "cli/tables.rs"]
mod tables;
#[path = "cli/terminal.rs"]
mod terminal;
#[path = "cli/usage.rs"]
mod usage;
