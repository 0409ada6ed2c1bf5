//! P2: versions that follow each other without a gap.

use idem::InvalidVersion;

use super::by_hand::{WAYS, Way};
use super::*;

#[idempotent(key = "order", consumer = "orders", version = "version", gapless)]
pub(crate) async fn in_turn(
    #[tx] tx: &mut Conn,
    order: &str,
    version: i64,
    body: Body,
) -> Result<u64, Fail> {
    effect(tx, &format!("{order} {version}")).await?;
    body.end()
}

#[idempotent(key = "order", consumer = "orders", version = "version", gapless = 0)]
async fn from_zero(
    #[tx] tx: &mut Conn,
    order: &str,
    version: i64,
    body: Body,
) -> Result<u64, Fail> {
    effect(tx, &format!("{order} {version}")).await?;
    body.end()
}

#[idempotent(key = "order", consumer = "orders", version = "version", gapless = -3)]
async fn from_below(
    #[tx] tx: &mut Conn,
    order: &str,
    version: i64,
    body: Body,
) -> Result<u64, Fail> {
    effect(tx, &format!("{order} {version}")).await?;
    body.end()
}

async fn deliver<'c>(
    way: Way,
    first: i64,
    source: impl idem::Source<'c, Database = Db>,
    order: &str,
    version: i64,
    body: Body,
) -> Result<Outcome<u64>, Fail> {
    match (way, first) {
        (Way::Attribute, 1) => in_turn(source, order, version, body).await,
        (Way::Attribute, 0) => from_zero(source, order, version, body).await,
        (Way::Attribute, _) => from_below(source, order, version, body).await,
        _ => {
            let delivery = Delivery::of("orders", order)
                .version(version)
                .gapless_from(first);
            let message = format!("{order} {version}");
            way.deliver(source, delivery, &message, body).await
        }
    }
}

/// What is expected of a delivery.
#[derive(Debug, Clone, Copy)]
enum Expected {
    Applied,
    Fails,
    Duplicate,
    /// The version that was applied last.
    OutOfTurn(Option<i64>),
    BeforeFirst,
}

#[track_caller]
fn assert_expected(result: Result<Outcome<u64>, Fail>, expected: Expected, what: &str) {
    let is_expected = match (&result, expected) {
        (Ok(outcome), Expected::Applied) => outcome.is_processed(),
        (Err(Fail::Delivery(Error::OutOfTurn { applied, .. })), Expected::OutOfTurn(expected)) => {
            *applied == expected
        }
        (Err(Fail::Refused), Expected::Fails)
        | (Ok(Outcome::Duplicate), Expected::Duplicate)
        | (
            Err(Fail::Delivery(Error::InvalidVersion(InvalidVersion::BeforeFirst { .. }))),
            Expected::BeforeFirst,
        ) => true,
        _ => false,
    };
    assert!(is_expected, "{what}: {result:?} instead of {expected:?}");
    match (result, expected) {
        (Err(error), Expected::OutOfTurn(_)) => {
            assert!(error.is_transient(), "{what}: the others are still to come");
        }
        (Err(error), Expected::BeforeFirst) => {
            assert!(!error.is_transient(), "{what}: its turn never comes");
        }
        _ => {}
    }
}

#[tokio::test]
async fn p2_versions_follow_each_other() {
    let test = Test::new(1).await;
    for way in WAYS {
        for first in [1, 0, -3] {
            let order = format!("{way:?} {first}");
            for (step, expected) in [
                (1, Expected::OutOfTurn(None)),
                (7, Expected::OutOfTurn(None)),
                (0, Expected::Fails),
                (1, Expected::OutOfTurn(None)),
                (0, Expected::Applied),
                (0, Expected::Duplicate),
                (2, Expected::OutOfTurn(Some(first))),
                (1, Expected::Fails),
                (2, Expected::OutOfTurn(Some(first))),
                (1, Expected::Applied),
                // None was skipped.
                (0, Expected::Duplicate),
                (-1, Expected::BeforeFirst),
                (1, Expected::Duplicate),
                (2, Expected::Applied),
                (4, Expected::OutOfTurn(Some(first + 2))),
                (3, Expected::Applied),
                (4, Expected::Applied),
            ] {
                let version = first + step;
                let body = match expected {
                    Expected::Applied => Body::Succeeds,
                    Expected::Fails => Body::Fails,
                    _ => Body::Panics,
                };
                let result = deliver(way, first, &test.pool, &order, version, body).await;
                assert_expected(result, expected, &format!("{order}, version {version}"));
                test.assert_pool_is_clean("gapless").await;
            }
            for step in 0..5 {
                let message = format!("{order} {}", first + step);
                assert_eq!(test.effects_of(&message).await, 1, "{message}");
            }
            assert_eq!(test.version_of(&order).await, first + 4);
        }
    }
    assert_eq!(test.claims().await, 9, "one row for each key");
}

#[tokio::test]
async fn p2_the_first_version_has_to_be_the_first() {
    let test = Test::new(1).await;
    for way in WAYS {
        for first in [1, 0, -3] {
            let order = format!("{way:?} {first}");
            for (wrong, expected) in [
                (first - 1, Expected::BeforeFirst),
                (first + 1, Expected::OutOfTurn(None)),
                (i64::MIN, Expected::BeforeFirst),
                (i64::MAX, Expected::OutOfTurn(None)),
            ] {
                let result = deliver(way, first, &test.pool, &order, wrong, Body::Panics).await;
                assert_expected(result, expected, &order);
            }
        }
    }
    assert_eq!(test.claims().await, 0);
}

#[tokio::test]
async fn p2_a_claim_without_a_version_counts_as_none() {
    let test = Test::new(1).await;
    for way in WAYS {
        for first in [1, 0, -3] {
            let order = format!("{way:?} {first}");
            let claimed = idem::claim(&test.pool, "orders", &order).await.unwrap();
            let Claimed::Fresh(claim) = claimed else {
                panic!("it is new");
            };
            claim.commit().await.unwrap();
            let second = deliver(way, first, &test.pool, &order, first + 1, Body::Panics).await;
            assert_expected(second, Expected::OutOfTurn(None), &order);
            for version in [first, first + 1] {
                let result = deliver(way, first, &test.pool, &order, version, Body::Succeeds).await;
                assert_expected(result, Expected::Applied, &order);
            }
        }
    }
}

#[tokio::test]
async fn p1_turns_in_an_outer_transaction() {
    let test = Test::new(1).await;
    for way in WAYS {
        let order = format!("{way:?}");
        let mut outer = test.pool.begin().await.unwrap();
        for (version, expected) in [
            (2, Expected::OutOfTurn(None)),
            (1, Expected::Applied),
            (3, Expected::OutOfTurn(Some(1))),
            (2, Expected::Applied),
            (1, Expected::Duplicate),
        ] {
            let result = deliver(way, 1, &mut outer, &order, version, Body::Succeeds).await;
            assert_expected(result, expected, &order);
        }
        idem::commit(outer).await.unwrap();
        assert_eq!(test.version_of(&order).await, 2);
        test.assert_pool_is_clean("joined").await;
    }
}
