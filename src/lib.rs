#![doc = include_str!("../README.md")]

pub use idem_macros::idempotent;
pub use idem_runtime::*;

#[doc(hidden)]
pub use idem_runtime::private as __private;
