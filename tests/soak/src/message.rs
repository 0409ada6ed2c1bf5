//! What the messages say: each is a function of the seed and its number, so that both ends and the checker know it by its number alone.

use fastrand::Rng;

/// How many accounts there are: few, so that messages meet.
pub(crate) const ACCOUNTS: i64 = 40;
/// How many aggregates have versions.
pub(crate) const AGGREGATES: i64 = 30;
/// Messages with numbers this close ask for the same order's one charge.
const NUMBERS_OF_AN_ORDER: i64 = 40;

/// Which handler a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// A row in the ledger, and a counter.
    Book,
    /// Two counters, in the message's own order, so that transfers deadlock.
    Transfer,
    /// One of several messages that ask for one action: `business_key`.
    Charge,
    /// The newest version of an aggregate: `version`.
    Project,
    /// A value that a duplicate gets too: `replay`.
    Receipt,
    /// As [`Kind::Book`], many in one transaction: `each`.
    Batch,
}

/// One message.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) number: i64,
    pub(crate) kind: Kind,
    pub(crate) account: i64,
    /// Of a transfer.
    pub(crate) other: i64,
    pub(crate) amount: i64,
}

impl Message {
    pub(crate) fn of(seed: u64, number: i64) -> Self {
        let mut random =
            Rng::with_seed(seed ^ number.unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // The first numbers of near seeds are near each other.
        random.u64(..);
        let kind = match random.u8(..100) {
            0..15 => Kind::Book,
            15..23 => Kind::Transfer,
            23..31 => Kind::Charge,
            31..39 => Kind::Project,
            39..45 => Kind::Receipt,
            _ => Kind::Batch,
        };
        let account = random.i64(0..ACCOUNTS);
        Self {
            number,
            kind,
            account,
            other: (account + random.i64(1..ACCOUNTS)) % ACCOUNTS,
            amount: random.i64(1..100),
        }
    }

    /// What the producer calls it.
    pub(crate) fn key(&self) -> String {
        format!("message-{}", self.number)
    }

    pub(crate) fn order(&self) -> i64 {
        self.number / NUMBERS_OF_AN_ORDER
    }

    pub(crate) fn aggregate(&self) -> i64 {
        self.account % AGGREGATES
    }

    /// What the receipt's handler returns.
    pub(crate) fn receipt(&self) -> i64 {
        self.number * 1000 + self.amount
    }
}
