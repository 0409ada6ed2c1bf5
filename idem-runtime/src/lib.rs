//! The runtime behind [`idem`](https://docs.rs/idem-sqlx): use that crate, which re-exports this one next to the attribute.
//!
//! Arrows go one way: `{ private, once -> claim } -> transaction -> { source, key, error, backend }`, and a database's file
//! imports `backend` only.

mod backend;
mod claim;
mod consumer;
mod error;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod forgotten;
mod key;
mod once;
mod outcome;
#[doc(hidden)]
pub mod private;
mod schema;
mod source;
mod trace;
mod transaction;
mod transient;

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use backend::Backend;
pub use claim::{Claim, Claimed, claim, commit};
pub use consumer::{InvalidConsumer, MAX_CONSUMER_BYTES};
pub use error::{Cause, Error, Step};
pub use key::{InvalidKey, KafkaKey, Key, KeyWriter, MAX_KEY_BYTES};
pub use once::{AsyncFunc, once};
pub use outcome::Outcome;
pub use schema::{migrate, sql};
pub use source::{Lease, Source, Unprepared};
pub use transient::is_transient;
