//! How the contract's messages are claimed: in the plain table.

use idem::{Deliveries, Delivery, Key, OptionalKey, Pushed};
pub(crate) use idem::{claim, idempotent, migrate, once};

pub(crate) const CLAIMS: &str = "SELECT count(*) FROM processed_messages";
pub(crate) const FORGET: &str = "DELETE FROM processed_messages";

pub(crate) fn of(consumer: &str, key: impl Key) -> Delivery<'_> {
    Delivery::of(consumer, key)
}

pub(crate) fn with_business_key(
    consumer: &str,
    key: impl OptionalKey,
    business_key: impl Key,
) -> Delivery<'_> {
    Delivery::with_business_key(consumer, key, business_key)
}

pub(crate) fn batch(consumer: &str) -> Deliveries<'_> {
    Deliveries::of(consumer)
}

pub(crate) fn push<'p, 'a>(batch: &'p mut Deliveries<'a>, key: impl Key) -> Pushed<'p, 'a> {
    batch.push(key)
}

/// For another process that delivers.
pub(crate) fn arguments() -> Vec<String> {
    Vec::new()
}
