//! What is usually behind a finding, and what to do about it.

pub(super) const FRESH: &str = "`fresh` has to put back everything that the handler changes and `state` reads, so that every step starts from the same.";
pub(super) const STATE: &str = "`state` has to succeed at any time, before the first delivery too.";
pub(super) const FAILS: &str =
    "The handler has to succeed once before anything can be proven of it.";
pub(super) const DROPPED: &str = "The handler drops an error of the database and goes on. Return it with `?`; a statement that may fail belongs into a savepoint \
    (`idem::savepoint`), and what it writes is then no part of the effect.";
pub(super) const NO_CLAIM: &str = "`deliver` has to call a handler (`#[idempotent]`, `idem::once`, `idem::claim`) on the task that it runs on: what it spawns is not seen.";
pub(super) const OPEN: &str = "A claim has to end in `commit()` or `rollback()` before `Ok` acknowledges the message; it must not be forgotten or only dropped.";
pub(super) const NO_EFFECT: &str = "Either `state` does not read what the handler changes, or the handler acknowledges what it has not committed.";
pub(super) const KEY: &str = "The key has to be equal in all deliveries of a message: build it from what the producer has sent, and let `deliver` deliver the \
    same message each time.";
pub(super) const MEMORY: &str = "Something outlives the fresh start: a `static`, a cache or a counter in the process, which a rollback does not take back and another \
    process does not have; or the claim of a task that `deliver` spawns, which is not seen. Keep it in the database, or let `fresh` put it back if it is \
    not the handler's.";
pub(super) const LEAK: &str = "A connection or a transaction was taken from the pool and never given back, as by `std::mem::forget`.";
pub(super) const OUTSIDE: &str = "Something was done outside of the delivery's transaction. The usual culprit is a write that bypasses `tx`: through a pool, on another \
    connection, or before the claim. Write on the handler's transaction. For a call of another system: pass `idem::Tx::idempotency_keys` on, or \
    write an outbox row. If what differs is an id or a time that the database gives out, leave it out of `state`.";
pub(super) const LOST: &str =
    "The message was acknowledged with `Ok`, and nobody will deliver it again.";
pub(super) const ENDLESS: &str = "Nothing further was tried. Does the handler take a second connection while the pool has none left, or wait for a lock of its own? \
    Was it cancelled in a `begin()` of yours, which in sqlx 0.9.0 leaves that transaction open on its connection?";
pub(super) const CANNOT_REFUSE: &str = "Writes are refused by triggers that the proof creates and takes back: run it as a user who may create triggers and, on \
    PostgreSQL, temporary tables, while nobody else writes to the handler's tables; or leave this out with `without_refused_writes()`.";
pub(super) const CLAIMS: &str = "The claims of the proof's message are removed before each step.";
pub(super) const TRIGGERS: &str = "Drop the triggers whose names begin with `idem_refuse_`; they do nothing without a variable of the session.";
pub(super) const REDELIVERY: &str =
    "A delivery after this one has to succeed, by a second run or as a duplicate.";
pub(super) const PANICS: &str = "A lost connection makes it panic, which gives the message back, but may take the consumer with it: return the error.";
pub(super) const JUDGED: &str = "A lost connection is nobody's message's fault, and a consumer that asks `idem::is_transient` would send this one to the dead letters. Keep \
    the error of idem or sqlx in the chain of sources (`#[from]`, not its text).";
