//! The expansion among hostile lints and names: this file compiles, or the test fails. What the handlers do is tested by the contract;
//! here each runs once, on SQLite.
#![deny(
    warnings,
    unused,
    nonstandard_style,
    future_incompatible,
    rust_2018_idioms,
    let_underscore,
    unreachable_pub,
    unused_lifetimes,
    unused_qualifications,
    single_use_lifetimes,
    elided_lifetimes_in_paths,
    missing_docs,
    unsafe_code,
    clippy::all,
    clippy::pedantic,
    clippy::nursery
)]
#![expect(
    clippy::expect_used,
    clippy::redundant_pub_crate,
    reason = "a test may fail; and rustc's unreachable_pub asks for the opposite"
)]

#[path = "expansion/arguments.rs"]
mod arguments;
#[path = "expansion/handlers.rs"]
mod handlers;
#[path = "expansion/listed.rs"]
mod listed;
#[path = "expansion/shadowed.rs"]
mod shadowed;
