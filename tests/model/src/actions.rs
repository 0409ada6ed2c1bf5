use crate::protocol::{self, Mutation, Step};
use crate::state::{Busy, Key, State};
use crate::{REDELIVERY, World};

/// What may happen next. Numbers are those of messages, workers, and transactions that are adrift.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A message comes into being.
    Publish(u8),
    /// The broker hands a message to a worker, perhaps while another one has it.
    Deliver(u8, usize),
    /// The worker takes its next step.
    Go(usize, Step),
    /// The body, or the claim, returns an error, or panics.
    Fail(usize),
    /// A statement of the body fails, and the body swallows the error.
    Swallow(usize),
    /// The future of the delivery is dropped.
    Cancel(usize),
    /// The worker's process is killed.
    Crash(usize),
    /// The connection breaks.
    Disconnect(usize),
    /// The server finishes a COMMIT that nobody waits for.
    CommitAdrift(usize),
    /// The server rolls back what is adrift.
    RollBackAdrift(usize),
    /// The pruner removes the claims that are past the window.
    Prune,
    /// Time passes.
    Tick,
}

/// After it, nothing is redelivered or pruned that was not before.
const END: u8 = 2 * REDELIVERY + 2;

pub(crate) fn possible(world: World, state: &State, actions: &mut Vec<Action>) {
    for (message, number) in state.messages.iter().zip(0u8..) {
        match message.published {
            None if state.clock <= REDELIVERY => actions.push(Action::Publish(number)),
            _ if may_redeliver(state, number) => {
                let idle = (0..2).filter(|worker| state.workers[*worker].is_none());
                actions.extend(idle.map(|worker| Action::Deliver(number, worker)));
            }
            _ => {}
        }
    }
    for (worker, busy) in state.workers.iter().enumerate() {
        if let Some(busy) = busy {
            of_worker(world, state, worker, *busy, actions);
        }
    }
    for (place, transaction) in state.adrift.iter().enumerate() {
        actions.push(Action::RollBackAdrift(place));
        if transaction.commit_sent && !transaction.aborted {
            actions.push(Action::CommitAdrift(place));
        }
    }
    if state
        .claims
        .iter()
        .any(|claim| is_due(world, state, *claim))
    {
        actions.push(Action::Prune);
    }
    if may_tick(state) {
        actions.push(Action::Tick);
    }
}

fn of_worker(world: World, state: &State, worker: usize, busy: Busy, actions: &mut Vec<Action>) {
    let step = world.step(busy);
    if !world.waits(state, busy) {
        actions.push(Action::Go(worker, step));
    }
    if state.faults == 0 {
        return;
    }
    actions.extend([Action::Cancel(worker), Action::Crash(worker)]);
    if busy.connection.is_some() {
        actions.push(Action::Disconnect(worker));
    }
    if matches!(step, Step::Claim | Step::Body) {
        actions.push(Action::Fail(worker));
    }
    if step == Step::Body {
        actions.push(Action::Swallow(worker));
    }
}

/// Until it is acknowledged, perhaps once more after that, and never past the window.
pub(crate) fn may_redeliver(state: &State, message: u8) -> bool {
    let message = &state.messages[usize::from(message)];
    let is_open = !message.acknowledged || message.comes_again;
    is_open
        && message
            .published
            .is_some_and(|published| state.clock <= published + REDELIVERY)
}

/// The library keeps claims a little longer, until their age exceeds the window. A business key is kept for ever, as without
/// `business_retain`.
fn is_due(world: World, state: &State, (key, since): (Key, u8)) -> bool {
    key != Key::Business && state.clock >= since + world.retention()
}

/// No redelivery window ends while its message is not acknowledged, or in a worker's hands.
fn may_tick(state: &State) -> bool {
    let mut messages = state.messages.iter().zip(0u8..);
    state.clock < END
        && messages.all(|(message, number)| match message.published {
            None => state.clock < REDELIVERY,
            Some(published) if state.clock == published + REDELIVERY => {
                let mut busy = state.workers.iter().flatten();
                message.acknowledged && !busy.any(|busy| busy.message == number)
            }
            Some(_) => true,
        })
}

pub(crate) fn act(world: World, state: &mut State, action: Action) {
    let is_fault = matches!(
        action,
        Action::Fail(_)
            | Action::Swallow(_)
            | Action::Cancel(_)
            | Action::Crash(_)
            | Action::Disconnect(_)
    );
    state.faults -= u8::from(is_fault);
    match action {
        Action::Publish(message) => {
            state.messages[usize::from(message)].published = Some(state.clock);
        }
        Action::Deliver(message, worker) => deliver(state, message, worker),
        Action::Go(worker, _) => protocol::go_on(world, state, worker),
        Action::Fail(worker) => protocol::fail(world, state, worker),
        Action::Swallow(worker) => {
            if let Some(mut busy) = state.workers[worker] {
                if let Some(transaction) = protocol::transaction(state, busy) {
                    transaction.aborted = true;
                }
                busy.at += 1;
                state.workers[worker] = Some(busy);
            }
        }
        Action::Cancel(worker) => protocol::cancel(world, state, worker),
        Action::Crash(worker) => protocol::abandon(world, state, worker),
        Action::Disconnect(worker) => {
            let at_commit =
                state.workers[worker].is_some_and(|busy| world.step(busy) == Step::Commit);
            if at_commit && world.mutation == Some(Mutation::LostAnswerIsOk) {
                protocol::believe_lost_answer(world, state, worker);
            } else {
                protocol::abandon(world, state, worker);
            }
        }
        Action::CommitAdrift(place) => {
            let transaction = state.adrift.remove(place);
            crate::database::commit(state, transaction);
        }
        Action::RollBackAdrift(place) => drop(state.adrift.remove(place)),
        Action::Prune => prune(world, state),
        Action::Tick => state.clock += 1,
    }
}

/// Takes a connection out of the pool, which has one for each worker.
fn deliver(state: &mut State, message: u8, worker: usize) {
    let free = (0u8..).zip(&mut state.pool).find(|(_, place)| !place.lent);
    let Some((connection, place)) = free else {
        return;
    };
    place.lent = true;
    let told = &mut state.messages[usize::from(message)];
    told.comes_again &= !told.acknowledged;
    state.workers[worker] = Some(Busy {
        message,
        connection: Some(connection),
        at: 0,
        claimed: 0,
        verdict: None,
    });
}

fn prune(world: World, state: &mut State) {
    let (due, kept) = state
        .claims
        .iter()
        .partition(|claim| is_due(world, state, **claim));
    state.claims = kept;
    let due: Vec<(Key, u8)> = due;
    for (key, _) in due {
        if let Key::Message(message) = key {
            state.messages[usize::from(message)].pruned = true;
        }
    }
}
