#![cfg_attr(all(feature = "postgres", feature = "sqlite"), doc = include_str!("../README.md"))]
#![cfg_attr(
    not(all(feature = "postgres", feature = "sqlite")),
    doc = "Idempotent consumers for sqlx. The README is shown here when the features `postgres` and `sqlite`, which its examples use, are on."
)]

pub use idem_macros::idempotent;
pub use idem_runtime::*;

#[cfg(all(feature = "sqlite", feature = "replay", feature = "fingerprint"))]
#[doc = include_str!("arguments.md")]
pub mod arguments {}

#[cfg(all(feature = "postgres", feature = "sqlite", feature = "archive"))]
#[doc = include_str!("windows.md")]
pub mod retention {}

#[cfg(all(feature = "postgres", feature = "mysql"))]
#[doc = include_str!("clusters.md")]
pub mod clusters {}

#[doc(hidden)]
pub use idem_runtime::private as __private;
