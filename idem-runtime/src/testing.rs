//! Proves that a handler of yours has its effect once, whatever happens to its deliveries. Feature `testing`, for your tests:
//!
//! ```toml
//! [dev-dependencies]
//! idem-sqlx = { version = "0.1", features = ["testing"] }
//! ```
//!
//! [`Proof`] runs the handler once and remembers the state that a closure of yours reads. Then, each time from a fresh start, it delivers the
//! same message twice, many times at once, with the delivery cancelled at each point at which it waits, failed and killed before and
//! after the commit, with each write refused, redelivers it as a broker would, and compares the state. The [`Report`] names each step
//! that differs:
//!
//! ```text
//! the handler is not safe to redeliver: 3 findings in 31 steps
//!
//! - cancelled at await 9, and redelivered: credits: 10 -> 20
//!   Something was written outside of the delivery's transaction, …
//! ```
//!
//! # What it finds
//!
//! - a write through a pool or another connection, or before the claim;
//! - a call of another system without an idempotency key, if `state` counts such calls (with a fake of yours in its place);
//! - an error of the database that is dropped, so that a part of the effect is lost;
//! - a claim, a transaction or a connection that is forgotten (`std::mem::forget`), or dropped without its commit;
//! - state in a `static` or a cache that survives a rollback;
//! - a key that differs from delivery to delivery;
//! - an error type that hides from [`is_transient`](crate::is_transient) that the connection was lost.
//!
//! # What it does not find
//!
//! What `state` does not read. What only happens with other messages: prove a handler once for each kind of message that takes another way
//! through it. Two different messages that meet. On SQLite, an error that is dropped in a savepoint, if the handler writes on after it. On PostgreSQL,
//! TRUNCATE. What a consumer writes in a transaction of its own after the last handler that has joined it. A consumer that acknowledges
//! [`Error::InFlight`](crate::Error::InFlight).
//!
//! Connections are killed on PostgreSQL and MySQL. Writes are refused by triggers: for each statement on PostgreSQL, within the delivery's own
//! transaction; for each row on SQLite (temporary ones) and MySQL (in the database itself, from before the first refused write until after
//! the last; a test that is killed in between leaves them behind, without effect, for the next proof to drop). The handler has to run on the task that
//! runs the proof: what `deliver` spawns is not seen.
//!
//! Harm is done from within the library. Without the feature none of it is compiled, and with it, outside of a proof, each point looks at a
//! thread-local variable and goes on.

mod advice;
mod bench;
mod harms;
mod proof;
mod refused;
mod report;
mod steps;
mod watch;

pub use harms::Harms;
pub use proof::{Proof, State};
pub use report::{Finding, Report};

pub(crate) use watch::{Point, claimed, ends, reach};
