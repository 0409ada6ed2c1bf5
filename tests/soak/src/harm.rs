//! What a worker does to itself: at points that the supervisor names, and in bodies as its seed says.

use std::sync::Mutex;

use rustix::process::{Signal, getpid, kill_process};

/// Where in a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Point {
    AfterClaim,
    InTheBody,
    BeforeCommit,
    /// Committed, and not yet acknowledged.
    BeforeAck,
}

impl Point {
    pub(crate) const ALL: [Self; 4] = [
        Self::AfterClaim,
        Self::InTheBody,
        Self::BeforeCommit,
        Self::BeforeAck,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AfterClaim => "after-claim",
            Self::InTheBody => "in-the-body",
            Self::BeforeCommit => "before-commit",
            Self::BeforeAck => "before-ack",
        }
    }

    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.name() == name)
    }
}

/// What is to happen there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Deed {
    Kill,
    Stop,
}

static ORDERS: Mutex<Vec<(Deed, Point)>> = Mutex::new(Vec::new());

/// The next delivery that reaches the point does it.
pub(crate) fn order(deed: Deed, point: Point) {
    if let Ok(mut orders) = ORDERS.lock() {
        orders.push((deed, point));
    }
}

/// Forgets what has not happened yet.
pub(crate) fn forget_orders() {
    if let Ok(mut orders) = ORDERS.lock() {
        orders.clear();
    }
}

/// A delivery has come this far.
pub(crate) fn reach(point: Point) {
    let Ok(mut orders) = ORDERS.lock() else {
        return;
    };
    let Some(place) = orders.iter().position(|(_, at)| *at == point) else {
        return;
    };
    let (deed, _) = orders.remove(place);
    drop(orders);
    let (word, signal) = match deed {
        Deed::Kill => ("kill", Signal::KILL),
        Deed::Stop => ("stop", Signal::STOP),
    };
    // The supervisor counts what it reads here, so that it has to be out first.
    crate::event::tell(format_args!("{word} {}", point.name()));
    let _ = kill_process(getpid(), signal);
}

/// How a body behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Conduct {
    Well,
    /// Takes a while, so that others meet its claim in flight.
    Slowly,
    /// Fails after it has written.
    Fail,
    /// Panics after it has written.
    Panic,
    /// A statement fails, and the error is dropped.
    DropError,
    /// Ends the transaction by hand and says `Ok`.
    RollBack,
}

impl Conduct {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Slowly => "slow body",
            Self::Fail => "body failed after writing",
            Self::Panic => "body panicked",
            Self::DropError => "body dropped an error",
            Self::RollBack => "body rolled back by hand",
        }
    }
}
