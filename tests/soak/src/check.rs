//! The checker: what the effects say against what the messages ask for.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::message::{Kind, Message};
use crate::schema::{OLD_CONSUMER, YOUNG_CLAIMS};
use crate::store::Store;

/// What messages `0..published` come to, each applied once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expected {
    ledger: BTreeSet<i64>,
    balances: BTreeMap<i64, i64>,
    /// The messages that ask for an order's charge.
    orders: BTreeMap<i64, BTreeSet<i64>>,
    /// The versions of an aggregate, of which the last must be applied.
    versions: BTreeMap<i64, BTreeSet<i64>>,
}

impl Expected {
    pub(crate) fn of(seed: u64, published: i64) -> Self {
        let mut expected = Self::default();
        for number in 0..published {
            let message = Message::of(seed, number);
            let mut add = |account, amount| {
                *expected.balances.entry(account).or_default() += amount;
            };
            match message.kind {
                Kind::Book | Kind::Receipt | Kind::Batch => add(message.account, message.amount),
                Kind::Transfer => {
                    add(message.account, -message.amount);
                    add(message.other, message.amount);
                }
                Kind::Charge => {
                    expected
                        .orders
                        .entry(message.order())
                        .or_default()
                        .insert(number);
                    continue;
                }
                Kind::Project => {
                    expected
                        .versions
                        .entry(message.aggregate())
                        .or_default()
                        .insert(number);
                    continue;
                }
            }
            expected.ledger.insert(number);
        }
        expected
    }
}

/// What is in the tables.
#[derive(Debug, Clone, Default)]
pub(crate) struct Effects {
    /// How often a message is in the ledger.
    ledger: HashMap<i64, i64>,
    balances: BTreeMap<i64, i64>,
    charges: Vec<(i64, i64)>,
    projections: BTreeMap<i64, i64>,
    /// Aggregates and versions in the order in which they were applied.
    versions: Vec<(i64, i64)>,
    /// What bodies wrote that then failed.
    rolled_back: i64,
    /// The claims of messages that are in the ledger.
    claims: i64,
    /// Claims that were old, but not old enough to be pruned.
    young: i64,
    /// Claims that were old enough, and are still there.
    pub(crate) old: i64,
}

impl Effects {
    pub(crate) async fn read(store: &Store) -> sqlx::Result<Self> {
        let old_claims = |name: &str| {
            format!(
                "SELECT count(*) FROM processed_messages WHERE consumer = '{OLD_CONSUMER}' AND message_id LIKE '{name}-%'"
            )
        };
        Ok(Self {
            ledger: store
                .pairs("SELECT message, count(*) FROM ledger GROUP BY message")
                .await?
                .into_iter()
                .collect(),
            balances: store.pairs("SELECT id, balance FROM accounts").await?.into_iter().collect(),
            charges: store.pairs("SELECT order_number, message FROM charges").await?,
            projections: store
                .pairs("SELECT aggregate, version FROM projections")
                .await?
                .into_iter()
                .collect(),
            versions: store.pairs("SELECT aggregate, version FROM versions ORDER BY place").await?,
            rolled_back: store.number("SELECT count(*) FROM rolled_back").await?,
            claims: store
                .number("SELECT count(*) FROM processed_messages WHERE consumer IN ('book', 'transfer', 'receipt', 'batch')")
                .await?,
            young: store.number(&old_claims("young")).await?,
            old: store.number(&old_claims("old")).await?,
        })
    }
}

/// What is wrong, a sentence each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) lost: Vec<String>,
    pub(crate) doubled: Vec<String>,
    /// Neither, and wrong all the same.
    pub(crate) wrong: Vec<String>,
}

impl Verdict {
    pub(crate) fn of(expected: &Expected, effects: &Effects) -> Self {
        let mut verdict = Self::default();
        verdict.judge_ledger(expected, effects);
        verdict.judge_orders(expected, effects);
        verdict.judge_versions(expected, effects);
        if effects.rolled_back != 0 {
            verdict.wrong.push(format!(
                "{} writes of bodies that failed after them were committed",
                effects.rolled_back
            ));
        }
        let claims = i64::try_from(expected.ledger.len()).unwrap_or(i64::MAX);
        if effects.claims != claims {
            verdict
                .wrong
                .push(format!("{} claims for {claims} messages", effects.claims));
        }
        if effects.young != i64::from(YOUNG_CLAIMS) {
            verdict.wrong.push(format!(
                "of {YOUNG_CLAIMS} claims within their window, {} are left",
                effects.young
            ));
        }
        verdict
    }

    fn judge_ledger(&mut self, expected: &Expected, effects: &Effects) {
        for number in &expected.ledger {
            match effects.ledger.get(number) {
                Some(1) => {}
                Some(count) => self
                    .doubled
                    .push(format!("message {number} was applied {count} times")),
                None => self.lost.push(format!("message {number} was not applied")),
            }
        }
        for number in effects.ledger.keys() {
            if !expected.ledger.contains(number) {
                self.wrong
                    .push(format!("message {number}, which nobody sent, was applied"));
            }
        }
        for (account, balance) in &effects.balances {
            let sum = expected.balances.get(account).copied().unwrap_or_default();
            if *balance != sum {
                self.wrong.push(format!(
                    "account {account} has {balance}, and its messages add up to {sum}"
                ));
            }
        }
    }

    fn judge_orders(&mut self, expected: &Expected, effects: &Effects) {
        let mut charges: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for (order, message) in &effects.charges {
            charges.entry(*order).or_default().push(*message);
        }
        for (order, messages) in &expected.orders {
            match charges.remove(order).as_deref() {
                None => self.lost.push(format!("order {order} was not charged")),
                Some([message]) if messages.contains(message) => {}
                Some([message]) => self.wrong.push(format!(
                    "message {message} charged order {order}, which is not its own"
                )),
                Some(messages) => self.doubled.push(format!(
                    "order {order} was charged by the messages {messages:?}"
                )),
            }
        }
        for order in charges.keys() {
            self.wrong
                .push(format!("order {order}, which nobody placed, was charged"));
        }
    }

    fn judge_versions(&mut self, expected: &Expected, effects: &Effects) {
        let mut last: BTreeMap<i64, i64> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for (aggregate, version) in &effects.versions {
            if !expected
                .versions
                .get(aggregate)
                .is_some_and(|versions| versions.contains(version))
            {
                self.wrong.push(format!(
                    "aggregate {aggregate} got a version {version} that nobody sent"
                ));
            }
            if !seen.insert((aggregate, version)) {
                self.doubled.push(format!(
                    "version {version} of aggregate {aggregate} was applied twice"
                ));
            } else if let Some(before) = last.get(aggregate)
                && before > version
            {
                self.wrong.push(format!(
                    "aggregate {aggregate} went back from version {before} to {version}"
                ));
            }
            last.insert(*aggregate, *version);
        }
        for (aggregate, versions) in &expected.versions {
            let newest = versions.last();
            if last.get(aggregate) != newest {
                self.lost.push(format!(
                    "aggregate {aggregate} stands at version {:?} instead of {newest:?}",
                    last.get(aggregate)
                ));
            }
            if effects.projections.get(aggregate) != last.get(aggregate) {
                self.wrong.push(format!(
                    "the projection of aggregate {aggregate} is not its last version"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests;
