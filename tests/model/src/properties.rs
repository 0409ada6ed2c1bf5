//! What has to hold at every moment, and what has to be reached at all, so that it means something.
#![allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the checker passes the world so"
)]

use stateright::{Model, Property};

use crate::actions::may_redeliver;
use crate::state::{Key, State, Verdict};
use crate::{Step, World};

pub(crate) fn all() -> Vec<Property<World>> {
    vec![
        Property::always("P1: claim and effect are there together", p1_atomic),
        Property::always("P2: at most one effect", |_, state: &State| {
            state.effects <= 1
        }),
        Property::always("P2: one effect, when all is quiet", p2_exactly_once),
        Property::always("P3: what is acknowledged is committed", p3_committed),
        Property::always("P5: no open transaction in the pool", p5_clean_pool),
        Property::always("P12: no claim goes too early", p12_kept),
        Property::sometimes("all is quiet", is_quiet),
        Property::sometimes("a duplicate", |_, state: &State| {
            verdict(state, Verdict::Duplicate)
        }),
        Property::sometimes("a delivery waits for one in flight", |world, state| {
            waits(*world, state) && state.adrift.is_empty()
        }),
        Property::sometimes("a delivery waits for a dead worker's", |world, state| {
            waits(*world, state) && !state.adrift.is_empty()
        }),
        Property::sometimes("a body runs after another delivery's crash", takeover),
        Property::sometimes(
            "nobody knows whether a COMMIT happened",
            |_, state: &State| state.adrift.iter().any(|lost| lost.commit_sent),
        ),
        Property::sometimes("a claim is pruned", |_, state: &State| {
            state.messages.iter().any(|message| message.pruned)
        }),
        Property::sometimes(
            "a message comes again after its acknowledgement",
            |_, s: &State| s.messages.iter().any(|message| !message.comes_again),
        ),
    ]
}

/// Unless the claim was pruned.
fn p1_atomic(_: &World, state: &State) -> bool {
    let is_pruned = state.messages.iter().any(|message| message.pruned);
    let is_claimed = !state.claims.is_empty();
    if state.effects == 0 {
        !is_claimed
    } else {
        is_claimed || is_pruned
    }
}

/// When nothing can happen any more, everything is acknowledged, nobody is stuck, and the effect is there once. It always comes to that,
/// since every action uses something up: a fault, a tick, a step of a delivery; and a delivery without a fault ends acknowledged.
fn p2_exactly_once(world: &World, state: &State) -> bool {
    let is_done = state.messages.iter().all(|message| message.acknowledged)
        && state.workers.iter().all(Option::is_none);
    !is_quiet(world, state) || is_done && state.effects == 1
}

fn p3_committed(_: &World, state: &State) -> bool {
    state.effects > 0 || !state.messages.iter().any(|message| message.acknowledged)
}

fn p5_clean_pool(_: &World, state: &State) -> bool {
    let mut pool = state.pool.iter();
    pool.all(|connection| connection.lent || connection.transaction.is_none())
}

fn p12_kept(_: &World, state: &State) -> bool {
    let mut messages = state.messages.iter().zip(0u8..);
    messages.all(|(message, number)| !(message.pruned && may_redeliver(state, number)))
}

fn is_quiet(world: &World, state: &State) -> bool {
    let mut actions = Vec::new();
    world.actions(state, &mut actions);
    actions.is_empty()
}

fn verdict(state: &State, wanted: Verdict) -> bool {
    let mut busy = state.workers.iter().flatten();
    busy.any(|busy| busy.verdict == Some(wanted))
}

fn waits(world: World, state: &State) -> bool {
    let mut busy = state.workers.iter().flatten();
    busy.any(|busy| world.waits(state, *busy))
}

/// The first delivery is gone, with its transaction or without.
fn takeover(world: &World, state: &State) -> bool {
    let mut busy = state.workers.iter().flatten();
    state.faults < world.faults
        && busy.any(|busy| {
            world.step(*busy) == Step::Body
                && !state.is_held(Key::Message(busy.message), busy.connection)
        })
}
