use std::hash::{DefaultHasher, Hash, Hasher};

/// The items in an order of the seed's own, the same in each run.
#[must_use]
pub fn shuffled<T: Clone + Hash>(items: &[T], seed: u64) -> Vec<T> {
    let mut items = items.to_vec();
    items.sort_by_cached_key(|item| {
        let mut hasher = DefaultHasher::new();
        (seed, item).hash(&mut hasher);
        hasher.finish()
    });
    items
}
