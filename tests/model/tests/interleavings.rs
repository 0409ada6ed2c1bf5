//! Every interleaving of the small worlds: the protocol keeps its promises in all of them, and without any one of its parts it does not.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

use idem_model::{Action, Mutation, State, World};
use stateright::{Checker, Expectation, Model, Path};

const README: &str = include_str!("../README.md");

/// Longer than any counterexample that is looked for.
const DEEPEST: usize = 20;

#[test]
fn the_protocol_keeps_its_promises() {
    for (messages, faults) in [(1, 0), (1, 2), (1, 4), (2, 0), (2, 1), (2, 2)] {
        let world = World {
            messages,
            faults,
            mutation: None,
        };
        let checker = world.checker().threads(2).spawn_bfs().join();
        let found = checker.discoveries();
        for name in names(world, &Expectation::Always) {
            if let Some(path) = found.get(name) {
                panic!("{name}: {}", written(path.clone()));
            }
        }
        // A world in which nothing happens keeps every promise.
        for name in names(world, &Expectation::Sometimes) {
            let needs_a_fault =
                name.contains("crash") || name.contains("dead") || name.contains("COMMIT");
            assert!(
                found.contains_key(name) || faults == 0 && needs_a_fault,
                "{name} is not reached"
            );
        }
        is_in_readme(&format!(
            "| {messages} | {faults} | {} |",
            checker.unique_state_count()
        ));
    }
}

#[test]
fn without_any_one_of_its_parts_it_does_not() {
    for mutation in Mutation::ALL {
        for promise in breaks(mutation) {
            breaks_in(mutation, promise);
        }
    }
}

/// The first harm, and the one that somebody feels.
fn breaks(mutation: Mutation) -> &'static [&'static str] {
    const P1: &str = "P1: claim and effect are there together";
    const P2: &str = "P2: at most one effect";
    const P3: &str = "P3: what is acknowledged is committed";
    const P5: &str = "P5: no open transaction in the pool";
    const P12: &str = "P12: no claim goes too early";
    match mutation {
        Mutation::CheckThenAct => &[P2],
        Mutation::ClaimCommittedFirst => &[P1, P3],
        Mutation::EffectCommittedFirst => &[P1, P2],
        Mutation::NoLeaseGuard => &[P5],
        Mutation::NoRollback => &[P5, P3],
        Mutation::NoSeal
        | Mutation::InFlightIsDuplicate
        | Mutation::LostAnswerIsOk
        | Mutation::AcknowledgeFirst => &[P3],
        Mutation::ShortRetention => &[P12, P2],
    }
}

fn breaks_in(mutation: Mutation, promise: &'static str) {
    let world = World {
        messages: 1,
        faults: 1,
        mutation: Some(mutation),
    };
    let path = shortest(world, promise);
    let steps = path.clone().into_actions().len();
    println!(
        "{mutation:?} breaks {promise} in {steps}: {}",
        written(path)
    );
    is_in_readme(&format!("| `{mutation:?}` | {promise} | {steps} |"));
}

fn names(world: World, kind: &Expectation) -> Vec<&'static str> {
    let properties = world.properties().into_iter();
    properties
        .filter(|property| property.expectation == *kind)
        .map(|property| property.name)
        .collect()
}

/// The checker keeps the last path that it finds, so that it may go one step deeper at a time.
fn shortest(world: World, promise: &'static str) -> Path<State, Action> {
    (1..=DEEPEST)
        .find_map(|depth| {
            let checker = world.checker().target_max_depth(depth).spawn_bfs().join();
            checker.discovery(promise)
        })
        .unwrap_or_else(|| panic!("{world:?}: `{promise}` holds"))
}

fn written(path: Path<State, Action>) -> String {
    let actions = path.into_actions();
    let actions: Vec<String> = actions.iter().map(|action| format!("{action:?}")).collect();
    actions.join(", ")
}

/// The page says what is true.
fn is_in_readme(row: &str) {
    assert!(
        README.contains(row),
        "tests/model/README.md does not say:\n{row}"
    );
}
