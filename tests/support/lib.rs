//! What the suites share: databases of their own, a way to drop a future half-way, and a proxy that counts and cuts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test that cannot go on fails"
)]

mod broker;
mod cancel;
pub mod examples;
mod fixture;
pub mod own;
mod proxy;
mod shuffle;

pub use broker::{Broker, Count};
pub use cancel::{cancelled_after, poll_times};
pub use fixture::{Fixture, Server};
pub use proxy::{Proxy, Wire};
pub use shuffle::shuffled;
