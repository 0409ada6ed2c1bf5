//! The runtime behind [`idem`](https://docs.rs/idem-sqlx): use that crate, which re-exports this one next to the attribute.
//!
//! Arrows go one way: `{ private, once -> claim } -> transaction -> { claims, source } -> { terms, key, error, backend, rows }`, and a
//! database's file imports `backend` and `rows` only.

mod backend;
mod batch;
mod claim;
mod claims;
mod consumer;
#[cfg(feature = "postgres")]
mod days;
mod deliveries;
mod delivery;
mod doctor;
mod error;
mod fingerprint;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod forgotten;
mod handlers;
mod in_flight;
mod isolation;
mod key;
mod once;
mod outcome;
#[doc(hidden)]
pub mod private;
mod prune;
mod replay;
mod retain;
mod retry;
mod rows;
mod savepoint;
mod schema;
mod source;
mod terms;
#[cfg(feature = "testing")]
pub mod testing;
mod time;
mod trace;
mod transaction;
mod transient;
mod tx;
mod value;
mod version;
mod windows;

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use backend::Backend;
pub use batch::batch;
pub use claim::{Claim, Claimed, claim, commit};
pub use consumer::{InvalidConsumer, MAX_CONSUMER_BYTES};
#[cfg(feature = "postgres")]
pub use days::{Days, Partition};
pub use deliveries::{ClaimedBatch, Deliveries, Pushed};
pub use delivery::Delivery;
pub use doctor::{Finding, Report, Severity, doctor, doctor_with};
pub use error::{Cause, Error, Step};
pub use fingerprint::Fingerprint;
pub use handlers::{Handler, handlers};
pub use in_flight::InFlight;
pub use isolation::Isolation;
pub use key::{InvalidKey, KafkaKey, Key, KeyWriter, MAX_KEY_BYTES, OptionalKey};
pub use once::{AsyncFunc, once};
pub use outcome::{BatchOutcome, Outcome};
pub use prune::{Archive, Due, PruneError, Pruned, Pruner};
pub use replay::Replay;
pub use retain::{InvalidRetain, Retain};
pub use retry::{AsError, retry};
pub use savepoint::savepoint;
pub use schema::{migrate, sql};
pub use source::{Lease, Source, Unprepared};
pub use time::{Day, InvalidTime, Time};
pub use transient::is_transient;
pub use tx::Tx;
pub use value::{InvalidValue, MAX_VALUE_BYTES, StoredValue};
pub use version::{InvalidVersion, Version};
pub use windows::{InvalidWindow, Windows};
