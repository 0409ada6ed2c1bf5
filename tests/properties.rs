//! What holds for every input, tried with random ones: keys, spans of time, days, stored values, fingerprints. What is found is
//! kept in `properties/*.proptest-regressions`, and tried first from then on.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

#[path = "properties/fingerprints.rs"]
mod fingerprints;
#[path = "properties/keys.rs"]
mod keys;
#[path = "properties/parts.rs"]
mod parts;
#[path = "properties/spans.rs"]
mod spans;
#[path = "properties/times.rs"]
mod times;
#[path = "properties/values.rs"]
mod values;

use proptest::prelude::*;
use sqlx::sqlite::SqlitePoolOptions;

/// So many cases; each suite runs in a few seconds.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig::with_cases(cases)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// An empty database in memory, with the table of claims.
async fn sqlite() -> sqlx::SqlitePool {
    let options = SqlitePoolOptions::new().max_connections(1);
    let pool = options.connect("sqlite::memory:").await.unwrap();
    idem::migrate(&pool).await.unwrap();
    pool
}

/// Text as producers do not write it: separators, escapes, NUL, what databases fold, trim or normalize, and any other character.
fn text(longest: usize) -> impl Strategy<Value = String> {
    let odd: Vec<char> = "||\\\\ab\tAß\u{301} \u{1F600}ﬁ'\"%;-\n0".chars().collect();
    let character = prop_oneof![
        8 => prop::sample::select(odd),
        2 => any::<char>(),
    ];
    prop::collection::vec(character, 0..=longest).prop_map(String::from_iter)
}
