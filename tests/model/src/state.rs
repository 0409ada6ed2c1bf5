use crate::database;

/// Everything that there is at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// The clock of the database and the broker.
    pub clock: u8,
    /// What the broker knows.
    pub messages: Vec<Message>,
    /// What each worker is at.
    pub workers: [Option<Busy>; 2],
    /// The pool, whose connections outlive deliveries.
    pub pool: [Connection; 2],
    /// Open transactions of clients that are gone, which the server has not noticed yet.
    pub adrift: Vec<Transaction>,
    /// The committed claims, with their time.
    pub claims: Vec<(Key, u8)>,
    /// How often the effect was committed; with two messages it is the one action that both ask for.
    pub effects: u8,
    /// How many things may still go wrong.
    pub faults: u8,
}

/// A message, as its broker knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Message {
    /// When it was published.
    pub published: Option<u8>,
    /// Whether a delivery was acknowledged.
    pub acknowledged: bool,
    /// Whether it may come once more after that.
    pub comes_again: bool,
    /// Whether its claim was pruned.
    pub pruned: bool,
}

/// A delivery in the hands of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Busy {
    /// Which message.
    pub message: u8,
    /// Which connection of the pool it has, until that is given back.
    pub connection: Option<u8>,
    /// The next step's place among the steps.
    pub at: u8,
    /// How many of its keys are claimed, or found claimed.
    pub claimed: u8,
    /// What the claim came to.
    pub verdict: Option<Verdict>,
}

/// What a claim comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The body runs.
    Fresh,
    /// It is done already.
    Duplicate,
    /// It is done already, under another message's key, and this message's own is kept.
    Kept,
}

/// A connection of the pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Connection {
    /// Whether a worker has it.
    pub lent: bool,
    /// The transaction that is open on it.
    pub transaction: Option<Transaction>,
}

/// An open transaction, as the server sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transaction {
    /// The time that its claims bear.
    pub begun: u8,
    /// Claims that it has inserted.
    pub claims: Vec<Key>,
    /// Whether the effect was written in it.
    pub effect: bool,
    /// Whether a statement has failed, so that nothing of it can be committed.
    pub aborted: bool,
    /// Whether COMMIT is under way although nobody waits for the answer.
    pub commit_sent: bool,
}

/// What the unique index is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A message's own key.
    Message(u8),
    /// The business key, which both messages share.
    Business,
}

impl State {
    pub(crate) fn new(messages: u8, faults: u8) -> Self {
        let message = Message {
            published: None,
            acknowledged: false,
            comes_again: true,
            pruned: false,
        };
        Self {
            clock: 0,
            messages: vec![message; usize::from(messages)],
            workers: [None; 2],
            pool: Default::default(),
            adrift: Vec::new(),
            claims: Vec::new(),
            effects: 0,
            faults,
        }
    }

    /// The keys of a message, in the order of their inserts.
    pub(crate) fn keys(&self, message: u8) -> Vec<Key> {
        match self.messages.len() {
            1 => vec![Key::Message(message)],
            _ => vec![Key::Message(message), Key::Business],
        }
    }

    /// The key that the worker's claim asks for next.
    pub(crate) fn next_key(&self, busy: Busy) -> Option<Key> {
        let keys = self.keys(busy.message);
        keys.get(usize::from(busy.claimed)).copied()
    }

    /// Whether an insert of this key has to wait for a transaction other than this connection's.
    pub(crate) fn is_held(&self, key: Key, connection: Option<u8>) -> bool {
        let others = self.pool.iter().zip(0u8..);
        others
            .filter(|(_, place)| Some(*place) != connection)
            .filter_map(|(other, _)| other.transaction.as_ref())
            .chain(&self.adrift)
            .any(|transaction| database::holds(transaction, key))
    }

    pub(crate) fn is_claimed(&self, key: Key) -> bool {
        self.claims.iter().any(|(claimed, _)| *claimed == key)
    }

    /// The server will notice some day.
    pub(crate) fn set_adrift(&mut self, transaction: Transaction) {
        self.adrift.push(transaction);
        // Their order means nothing.
        self.adrift.sort_unstable();
    }
}
