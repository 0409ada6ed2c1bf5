//! The soak: see the README beside it.

mod broker;
mod event;
mod handlers;
mod harm;
mod message;
mod schema;
mod store;
mod worker;

fn main(){}
