//! What a worker does with a delivery.

use crate::World;
use crate::database;
use crate::state::{Busy, Connection, State, Transaction, Verdict};

/// A step of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// BEGIN.
    Begin,
    /// SELECT of the claim, without inserting it. Not in the protocol.
    Look,
    /// The insert of the keys.
    Claim,
    /// The effect.
    Body,
    /// The seal and COMMIT.
    Commit,
    /// The acknowledgement to the broker.
    Acknowledge,
}

/// What is taken out of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// COMMIT is believed without a seal.
    NoSeal,
    /// Look whether there is a claim, have the effect, then insert the claim.
    CheckThenAct,
    /// The claim is committed before the effect is begun.
    ClaimCommittedFirst,
    /// The effect is committed before the claim is begun.
    EffectCommittedFirst,
    /// A claim in flight is taken for a duplicate instead of waited for.
    InFlightIsDuplicate,
    /// A cancelled BEGIN's connection goes back to the pool.
    NoLeaseGuard,
    /// After an error of the body the connection goes back as it is.
    NoRollback,
    /// A COMMIT whose answer is lost is taken for one that happened.
    LostAnswerIsOk,
    /// The acknowledgement goes out before COMMIT.
    AcknowledgeFirst,
    /// Claims are kept no longer than the broker redelivers.
    ShortRetention,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::NoSeal,
        Self::CheckThenAct,
        Self::ClaimCommittedFirst,
        Self::EffectCommittedFirst,
        Self::InFlightIsDuplicate,
        Self::NoLeaseGuard,
        Self::NoRollback,
        Self::LostAnswerIsOk,
        Self::AcknowledgeFirst,
        Self::ShortRetention,
    ];
}

impl World {
    /// The steps of a delivery, in their order.
    pub(crate) fn steps(self) -> &'static [Step] {
        use Step::{Acknowledge, Begin, Body, Claim, Commit, Look};
        match self.mutation {
            Some(Mutation::CheckThenAct) => &[Begin, Look, Body, Claim, Commit, Acknowledge],
            Some(Mutation::ClaimCommittedFirst) => {
                &[Begin, Claim, Commit, Begin, Body, Commit, Acknowledge]
            }
            Some(Mutation::EffectCommittedFirst) => {
                &[Begin, Look, Body, Commit, Begin, Claim, Commit, Acknowledge]
            }
            Some(Mutation::AcknowledgeFirst) => &[Begin, Claim, Body, Acknowledge, Commit],
            _ => &[Begin, Claim, Body, Commit, Acknowledge],
        }
    }

    pub(crate) fn step(self, busy: Busy) -> Step {
        self.steps()[usize::from(busy.at)]
    }

    /// Whether the worker's next step waits for another transaction's end.
    pub(crate) fn waits(self, state: &State, busy: Busy) -> bool {
        self.step(busy) == Step::Claim
            && self.mutation != Some(Mutation::InFlightIsDuplicate)
            && state
                .next_key(busy)
                .is_some_and(|key| state.is_held(key, busy.connection))
    }
}

/// The worker's next step, when nothing goes wrong in it.
pub(crate) fn go_on(world: World, state: &mut State, worker: usize) {
    let Some(mut busy) = state.workers[worker] else {
        return;
    };
    match world.step(busy) {
        Step::Begin => {
            if let Some(connection) = busy.connection {
                database::begin(state, connection);
            }
            busy.at += 1;
        }
        Step::Look => {
            let is_done = state
                .keys(busy.message)
                .iter()
                .any(|key| state.is_claimed(*key));
            if is_done {
                end_as(world, state, &mut busy, Verdict::Duplicate);
            } else {
                busy.verdict = Some(Verdict::Fresh);
                busy.at += 1;
            }
        }
        Step::Claim => claim(world, state, &mut busy),
        Step::Body => {
            if let Some(transaction) = transaction(state, busy) {
                transaction.effect = true;
            }
            busy.at += 1;
        }
        Step::Commit => {
            if !commit(world, state, &mut busy) {
                state.workers[worker] = None;
                return;
            }
        }
        Step::Acknowledge => {
            state.messages[usize::from(busy.message)].acknowledged = true;
            busy.at += 1;
        }
    }
    let is_over = usize::from(busy.at) == world.steps().len()
        || busy.connection.is_none() && world.step(busy) != Step::Acknowledge;
    state.workers[worker] = (!is_over).then_some(busy);
}

/// One key of the insert, and the verdict after the last.
fn claim(world: World, state: &mut State, busy: &mut Busy) {
    if let Some(key) = state.next_key(*busy) {
        let held = state.is_held(key, busy.connection);
        let taken = held || state.is_claimed(key);
        if let Some(transaction) = transaction(state, *busy)
            && !taken
            && !transaction.claims.contains(&key)
        {
            transaction.claims.push(key);
        } else {
            busy.verdict = busy.verdict.or(Some(Verdict::Duplicate));
        }
        busy.claimed += 1;
    }
    if state.next_key(*busy).is_some() {
        return;
    }
    let is_new = |key| transaction_of(state, *busy).is_some_and(|own| own.claims.contains(&key));
    let own_is_new = is_new(crate::Key::Message(busy.message));
    match busy.verdict {
        None | Some(Verdict::Fresh) => {
            busy.verdict = Some(Verdict::Fresh);
            busy.at += 1;
        }
        Some(_) if own_is_new && state.keys(busy.message).len() > 1 => {
            // There is no body to run, and its own key to commit.
            busy.verdict = Some(Verdict::Kept);
            while world.step(*busy) != Step::Commit {
                busy.at += 1;
            }
        }
        Some(_) => end_as(world, state, busy, Verdict::Duplicate),
    }
}

/// There is nothing to commit: roll back, give the connection back, acknowledge.
fn end_as(world: World, state: &mut State, busy: &mut Busy, verdict: Verdict) {
    busy.verdict = Some(verdict);
    give_back(state, busy, None);
    while world.step(*busy) != Step::Acknowledge {
        busy.at += 1;
    }
}

/// Whether the delivery goes on.
fn commit(world: World, state: &mut State, busy: &mut Busy) -> bool {
    let Some(transaction) = transaction(state, *busy) else {
        return true;
    };
    let transaction = std::mem::take(transaction);
    take_transaction(state, *busy);
    let is_committed = database::commit(state, transaction);
    if !is_committed && world.mutation != Some(Mutation::NoSeal) {
        give_back(state, busy, None);
        return false;
    }
    busy.at += 1;
    let rest = &world.steps()[usize::from(busy.at)..];
    if !rest.contains(&Step::Commit) {
        give_back(state, busy, None);
    }
    true
}

/// An `Err` of the body, or of the claim: roll back and do not acknowledge.
pub(crate) fn fail(world: World, state: &mut State, worker: usize) {
    let Some(mut busy) = state.workers[worker].take() else {
        return;
    };
    let mut left = take_transaction(state, busy);
    if world.mutation == Some(Mutation::NoRollback) {
        if let Some(left) = &mut left {
            left.effect |= world.step(busy) == Step::Body;
        }
    } else {
        left = None;
    }
    give_back(state, &mut busy, left);
}

/// The delivery's future is dropped, its worker dies, or its connection breaks: the transaction is left to the server, and nothing is
/// acknowledged.
pub(crate) fn abandon(world: World, state: &mut State, worker: usize) {
    let Some(mut busy) = state.workers[worker].take() else {
        return;
    };
    if let Some(mut transaction) = take_transaction(state, busy) {
        transaction.commit_sent = world.step(busy) == Step::Commit;
        state.set_adrift(transaction);
    }
    give_back(state, &mut busy, None);
}

/// As [`abandon`] by a drop. Where BEGIN is under way sqlx knows of no transaction yet, and would return the connection with one.
pub(crate) fn cancel(world: World, state: &mut State, worker: usize) {
    let beginning = state.workers[worker].filter(|busy| world.step(*busy) == Step::Begin);
    match (world.mutation, beginning) {
        (Some(Mutation::NoLeaseGuard), Some(mut busy)) => {
            state.workers[worker] = None;
            let left = Transaction {
                begun: state.clock,
                ..Transaction::default()
            };
            give_back(state, &mut busy, Some(left));
        }
        _ => abandon(world, state, worker),
    }
}

/// The connection breaks while the answer to COMMIT is under way, and that is taken for `Ok`.
pub(crate) fn believe_lost_answer(world: World, state: &mut State, worker: usize) {
    let before = state.workers[worker];
    abandon(world, state, worker);
    state.workers[worker] = before.map(|busy| Busy {
        connection: None,
        at: busy.at + 1,
        ..busy
    });
}

/// The connection, or a new one in its place, is in the pool again.
fn give_back(state: &mut State, busy: &mut Busy, transaction: Option<Transaction>) {
    if let Some(connection) = busy.connection.take() {
        state.pool[usize::from(connection)] = Connection {
            lent: false,
            transaction,
        };
    }
}

pub(crate) fn transaction(state: &mut State, busy: Busy) -> Option<&mut Transaction> {
    let connection = busy.connection?;
    state.pool[usize::from(connection)].transaction.as_mut()
}

fn transaction_of(state: &State, busy: Busy) -> Option<&Transaction> {
    let connection = busy.connection?;
    state.pool[usize::from(connection)].transaction.as_ref()
}

fn take_transaction(state: &mut State, busy: Busy) -> Option<Transaction> {
    let connection = busy.connection?;
    state.pool[usize::from(connection)].transaction.take()
}
