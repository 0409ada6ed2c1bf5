//! The schedule of harm: cards in decks that the seed shuffles, dealt by the count of deliveries.

use std::time::Duration;

use fastrand::Rng;

use crate::database::Database;
use crate::harm::{Deed, Point};
use crate::proxy::Trick;
use crate::wire::Moment;

/// One act of harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harm {
    /// SIGKILL or SIGSTOP of a worker at a point of its next delivery.
    At(Deed, Point),
    /// SIGKILL of a worker, wherever it is.
    Kill,
    /// A trick of the proxy before the database.
    Trick(Trick, Moment),
    /// A worker's connections to the database are cut.
    CutDatabase,
    /// A worker's connection to the broker is cut.
    CutBroker,
    /// The producer's connection to the broker is cut.
    CutProducer,
    /// The database ends a connection.
    Terminate,
    /// The database cancels a statement.
    Cancel,
    /// The database's server is killed and started again.
    Restart,
    /// The database's server is stopped for a while, and goes on.
    Freeze,
    /// The database's disk is full for a while.
    FullDisk,
    /// Deliveries are dropped while their BEGIN is under way.
    DropAtBegin,
    /// Somebody else holds locks for a while.
    Hold,
    /// Somebody else claims messages that are about to come, and rolls back after a while.
    HoldClaims,
}

/// What can be harmed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Targets {
    pub(crate) database: Database,
    /// Whether the disk is small.
    pub(crate) disk: bool,
}

/// How each harm is called in the report. Every name of the plan has to have happened, or the run proves less than it says.
pub(crate) fn names(targets: Targets) -> Vec<String> {
    let mut names: Vec<String> = deck(targets, &mut Rng::with_seed(0))
        .into_iter()
        .map(Harm::name)
        .collect();
    names.sort();
    names.dedup();
    names
}

impl Harm {
    pub(crate) fn name(self) -> String {
        match self {
            Self::At(Deed::Kill, point) => format!("worker killed {}", point.name()),
            Self::At(Deed::Stop, _) => "worker stopped".to_owned(),
            Self::Kill => "worker killed anywhere".to_owned(),
            Self::Trick(trick, moment) => format!("{} {}", trick.name(), moment.name()),
            Self::CutDatabase => "database connections cut".to_owned(),
            Self::CutBroker => "broker connection cut".to_owned(),
            Self::CutProducer => "producer's connection cut".to_owned(),
            Self::Terminate => "backend terminated".to_owned(),
            Self::Cancel => "statement cancelled".to_owned(),
            Self::Restart => "server killed and restarted".to_owned(),
            Self::Freeze => "server frozen".to_owned(),
            Self::FullDisk => "disk full".to_owned(),
            Self::DropAtBegin => "delivery dropped at BEGIN".to_owned(),
            Self::Hold => "locks held by somebody else".to_owned(),
            Self::HoldClaims => "claims held by somebody else".to_owned(),
        }
    }
}

/// Every harm that this database can come to, the cheap ones several times.
fn deck(targets: Targets, random: &mut Rng) -> Vec<Harm> {
    let mut deck = vec![
        Harm::Kill,
        Harm::CutBroker,
        Harm::CutBroker,
        Harm::CutProducer,
    ];
    deck.push(Harm::Hold);
    if targets.disk {
        deck.push(Harm::FullDisk);
    }
    for point in Point::ALL {
        deck.push(Harm::At(Deed::Kill, point));
    }
    for _ in 0..2 {
        deck.push(Harm::At(
            Deed::Stop,
            Point::ALL[random.usize(..Point::ALL.len())],
        ));
    }
    // The rest is of servers.
    if targets.database == Database::Sqlite {
        return deck;
    }
    let late = |random: &mut Rng| Trick::Delay(Duration::from_millis(random.u64(100..1500)));
    let hole = |random: &mut Rng| Trick::BlackHole(Duration::from_millis(random.u64(500..4000)));
    for moment in [
        Moment::Begin,
        Moment::Claim,
        Moment::Claims,
        Moment::Body,
        Moment::Commit,
    ] {
        deck.push(Harm::Trick(Trick::CutBefore, moment));
        deck.push(Harm::Trick(Trick::LoseAnswer, moment));
    }
    deck.push(Harm::Trick(Trick::LoseAnswer, Moment::Commit));
    for moment in [Moment::Begin, Moment::Claim, Moment::Commit] {
        deck.push(Harm::Trick(late(random), moment));
        deck.push(Harm::Trick(hole(random), moment));
    }
    deck.extend([Harm::Terminate; 3]);
    deck.extend([Harm::Cancel; 3]);
    deck.extend([Harm::DropAtBegin; 2]);
    deck.extend([Harm::HoldClaims; 3]);
    deck.extend([Harm::CutDatabase, Harm::Restart, Harm::Freeze]);
    deck
}

/// Deals harm: the same for the same seed.
pub(crate) struct Plan {
    targets: Targets,
    random: Rng,
    cards: Vec<Harm>,
    /// How many deliveries lie between two acts, on average.
    every: u64,
    next: u64,
}

impl Plan {
    pub(crate) fn new(targets: Targets, seed: u64, every: u64) -> Self {
        Self {
            targets,
            random: Rng::with_seed(seed),
            cards: Vec::new(),
            every,
            next: every,
        }
    }

    /// The next harm, if there have been enough deliveries, and a number to choose its victim by.
    pub(crate) fn due(&mut self, deliveries: u64) -> Option<(Harm, usize)> {
        if deliveries < self.next {
            return None;
        }
        self.next += self.random.u64(self.every / 2..=self.every * 3 / 2);
        if self.cards.is_empty() {
            self.cards = deck(self.targets, &mut self.random);
            self.random.shuffle(&mut self.cards);
        }
        let harm = self.cards.pop()?;
        Some((harm, self.random.usize(..1000)))
    }

    /// One harm of each of these names.
    pub(crate) fn again(&mut self, names: &[String]) -> Vec<(Harm, usize)> {
        let mut deck = deck(self.targets, &mut self.random);
        deck.retain(|harm| names.contains(&harm.name()));
        deck.dedup_by_key(|harm| harm.name());
        deck.into_iter()
            .map(|harm| (harm, self.random.usize(..1000)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Targets = Targets {
        database: Database::Postgres,
        disk: true,
    };

    #[test]
    fn a_seed_deals_the_same_harm_again() {
        let deal = |seed| {
            let mut plan = Plan::new(ALL, seed, 100);
            (0..20_000)
                .filter_map(|count| plan.due(count))
                .collect::<Vec<_>>()
        };
        assert_eq!(deal(7), deal(7));
        assert_ne!(deal(7), deal(8));
    }

    #[test]
    fn a_deck_has_every_kind() {
        let mut plan = Plan::new(ALL, 1, 100);
        let deck = deck(ALL, &mut Rng::with_seed(1)).len();
        let dealt = (0..).filter_map(|count| plan.due(count)).take(deck);
        let mut names: Vec<_> = dealt.map(|(harm, _)| harm.name()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names, super::names(ALL));
    }
}
