//! The protocol of a delivery as a state machine, small enough that a model checker tries every interleaving: two workers, a broker that
//! delivers at least once, a database, a pool, a pruner, and whatever may go wrong among them.
//!
//! What the workers do is the library's algorithm, step by step:
//!
//! | here | in `idem-runtime/src` |
//! |---|---|
//! | [`Step::Begin`] | `transaction::begin`; the pool's connection is lent by `source::Lease` |
//! | [`Step::Claim`] | `transaction::claim`, `claims::decide`: an insert that waits for whoever has inserted the key and not ended |
//! | [`Step::Body`] | the handler, between `private::begin` and `private::finish` |
//! | [`Step::Commit`] | `transaction::commit`: the seal and COMMIT |
//! | an `Err` of the body ([`Action::Fail`]) | `transaction::roll_back` |
//! | [`Action::Cancel`] | the drop of a `source::Lease`: its `Guard` closes the connection where BEGIN may be under way |
//! | [`Action::Prune`] | `prune`, with `windows` |
//! | [`Step::Acknowledge`] | the user's code, on `Ok` and never on `Err` |
//!
//! The database and the broker are assumed to keep their word: what is committed stays, a unique index lets no key in twice and makes the
//! second insert wait for the first one's end, and the broker delivers again until it has an acknowledgement, perhaps once more after it, but
//! not past the redelivery window, which includes the time that a delivery spends with a worker. A transaction whose client is gone ends
//! when the server notices, at any time later: if its COMMIT had been sent, either way.
//!
//! [`Mutation`] takes one thing out of the protocol. The checker finds what then goes wrong, which shows that it would see it.

mod actions;
mod database;
mod properties;
mod protocol;
mod state;

use stateright::{Model, Property};

pub use actions::Action;
pub use protocol::{Mutation, Step};
pub use state::{Busy, Connection, Key, Message, State, Transaction, Verdict};

/// How long the broker may redeliver a message after it was published, in ticks of the clock.
pub const REDELIVERY: u8 = 1;

/// The bounds of what is tried.
#[derive(Debug, Clone, Copy)]
pub struct World {
    /// One message, or two that ask for the same action (`business_key`).
    pub messages: u8,
    /// How many things may go wrong.
    pub faults: u8,
    /// What is taken out of the protocol.
    pub mutation: Option<Mutation>,
}

impl World {
    /// Claims are kept for longer than the broker redelivers.
    fn retention(self) -> u8 {
        match self.mutation {
            Some(Mutation::ShortRetention) => REDELIVERY,
            _ => REDELIVERY + 1,
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.messages, self.faults)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions::possible(*self, state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        actions::act(*self, &mut next, action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}
