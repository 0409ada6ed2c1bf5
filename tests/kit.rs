//! `idem::testing` proves right handlers, and finds what is wrong with others.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]
#![allow(clippy::duplicate_mod, reason = "the same tests run on each database")]

#[path = "kit/mysql.rs"]
mod mysql;
#[path = "kit/postgres.rs"]
mod postgres;
#[path = "kit/sqlite.rs"]
mod sqlite;
