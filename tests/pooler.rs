//! pgbouncer in transaction mode, with more clients than connections to the server: each transaction may find itself in another session.
//! The chapter `src/clusters.md` names these tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

#[path = "pooler/faults.rs"]
mod faults;
#[path = "pooler/handlers.rs"]
mod handlers;
#[path = "pooler/load.rs"]
mod load;
#[path = "pooler/prepared.rs"]
mod prepared;
#[path = "pooler/setup.rs"]
mod setup;
