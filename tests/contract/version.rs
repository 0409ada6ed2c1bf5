//! P2: messages that carry the state of something, of which the latest version counts.

use idem::InvalidVersion;

use super::by_hand::{WAYS, Way};
use super::*;

#[idempotent(key = "order", consumer = "orders", version = "version")]
pub(crate) async fn latest(
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
    source: impl idem::Source<'c, Database = Db>,
    order: &str,
    version: i64,
    body: Body,
) -> Result<Outcome<u64>, Fail> {
    if way == Way::Attribute {
        return latest(source, order, version, body).await;
    }
    let delivery = Delivery::of("orders", order).version(version);
    let message = format!("{order} {version}");
    way.deliver(source, delivery, &message, body).await
}

impl Test {
    pub(crate) async fn version_of(&self, order: &str) -> i64 {
        let sql =
            "SELECT version FROM processed_messages WHERE consumer = 'orders' AND message_id =";
        self.number(format!("{sql} '{order}'")).await
    }
}

#[tokio::test]
async fn p2_newer_is_processed_equal_a_duplicate_and_older_stale() {
    let test = Test::new(1).await;
    for way in WAYS {
        let order = format!("{way:?}");
        let deliveries = [
            (3, Outcome::Processed(7)),
            (3, Outcome::Duplicate),
            (2, Outcome::Stale),
            (-5, Outcome::Stale),
            (i64::MIN, Outcome::Stale),
            (10, Outcome::Processed(7)),
            (3, Outcome::Stale),
            (10, Outcome::Duplicate),
            (i64::MAX, Outcome::Processed(7)),
            (i64::MAX, Outcome::Duplicate),
            (i64::MAX - 1, Outcome::Stale),
        ];
        for (version, expected) in deliveries {
            let body = if expected.is_processed() {
                Body::Succeeds
            } else {
                Body::Panics
            };
            let outcome = deliver(way, &test.pool, &order, version, body).await;
            assert_eq!(outcome.unwrap(), expected, "{way:?} {version}");
            test.assert_pool_is_clean("version").await;
        }
        for version in [3, 10, i64::MAX] {
            let message = format!("{order} {version}");
            assert_eq!(test.effects_of(&message).await, 1, "{message}");
        }
        assert_eq!(test.version_of(&order).await, i64::MAX);
    }
    assert_eq!(test.claims().await, 3, "one row for each key");
}

#[tokio::test]
async fn p2_the_lowest_version_comes_first() {
    let test = Test::new(1).await;
    for way in WAYS {
        let order = format!("{way:?}");
        for (version, expected) in [
            (i64::MIN, Outcome::Processed(7)),
            (i64::MIN, Outcome::Duplicate),
            (i64::MIN + 1, Outcome::Processed(7)),
            (i64::MIN, Outcome::Stale),
            (-1, Outcome::Processed(7)),
            (0, Outcome::Processed(7)),
        ] {
            let outcome = deliver(way, &test.pool, &order, version, Body::Succeeds).await;
            assert_eq!(outcome.unwrap(), expected, "{way:?} {version}");
        }
    }
}

#[idempotent(key = "order", consumer = "orders", version = "version")]
async fn unsigned(#[tx] tx: &mut Conn, order: &str, version: u64) -> Result<u64, Fail> {
    effect(tx, order).await?;
    Ok(version)
}

#[tokio::test]
async fn p4_a_version_beyond_64_bits_with_sign_is_found_before_a_connection_is_taken() {
    let test = Test::new(1).await;
    let greatest = i64::MAX.unsigned_abs();
    let outcome = unsigned(&test.pool, "order", greatest).await.unwrap();
    assert_eq!(outcome, Outcome::Processed(greatest));
    test.pool.close().await;
    for beyond in [greatest + 1, u64::MAX] {
        let delivery = || Delivery::of("orders", "order").version(beyond);
        for error in [
            unsigned(&test.pool, "order", beyond).await.unwrap_err(),
            Way::Once
                .deliver(&test.pool, delivery(), "order", Body::Panics)
                .await
                .unwrap_err(),
            Way::Claim
                .deliver(&test.pool, delivery(), "order", Body::Panics)
                .await
                .unwrap_err(),
        ] {
            assert!(
                matches!(
                    error,
                    Fail::Delivery(Error::InvalidVersion(InvalidVersion::TooGreat))
                ),
                "{error:?}"
            );
            assert!(!error.is_transient());
        }
    }
}

#[tokio::test]
async fn p1_an_error_of_the_body_leaves_the_old_version() {
    let test = Test::new(1).await;
    for way in WAYS {
        let order = format!("{way:?}");
        for (version, body, kept) in [
            (3, Body::Succeeds, 3),
            (5, Body::Fails, 3),
            (4, Body::Succeeds, 4),
            (5, Body::Succeeds, 5),
        ] {
            let result = deliver(way, &test.pool, &order, version, body).await;
            assert_eq!(result.is_ok(), body == Body::Succeeds, "{result:?}");
            assert_eq!(test.version_of(&order).await, kept, "{way:?} {version}");
            test.assert_pool_is_clean("version").await;
        }
        // The first of its key leaves nothing at all.
        let other = format!("other {way:?}");
        let failed = deliver(way, &test.pool, &other, 1, Body::Fails).await;
        assert!(matches!(failed, Err(Fail::Refused)), "{failed:?}");
        let first = deliver(way, &test.pool, &other, 1, Body::Succeeds).await;
        assert_eq!(first.unwrap(), Outcome::Processed(7));
    }
}

#[tokio::test]
async fn p8_each_consumer_has_its_own_version() {
    let test = Test::new(1).await;
    for (consumer, version, expected) in [
        ("orders", 5, Outcome::Processed(7)),
        ("stock", 3, Outcome::Processed(7)),
        ("orders", 4, Outcome::Stale),
        ("stock", 5, Outcome::Processed(7)),
        ("stock", 4, Outcome::Stale),
    ] {
        let delivery = Delivery::of(consumer, "order").version(version);
        let outcome = Way::Once.deliver(&test.pool, delivery, "order", Body::Succeeds);
        assert_eq!(outcome.await.unwrap(), expected, "{consumer} {version}");
    }
    assert_eq!(test.claims().await, 2);
}

/// Retention goes by it.
#[tokio::test]
async fn p12_a_new_version_makes_the_claim_new() {
    let test = Test::new(1).await;
    for way in WAYS {
        let order = format!("{way:?}");
        let _ = deliver(way, &test.pool, &order, 1, Body::Succeeds)
            .await
            .unwrap();
        let mut conn = test.pool.acquire().await.unwrap();
        let old = "UPDATE processed_messages SET processed_at = '2001-01-01 00:00:00'";
        run(&mut conn, old).await.unwrap();
        drop(conn);
        let recent = "SELECT count(*) FROM processed_messages WHERE processed_at > '2020-01-01'";
        for (version, expected) in [(1, 0), (0, 0), (2, 1)] {
            let outcome = deliver(way, &test.pool, &order, version, Body::Succeeds).await;
            assert_eq!(outcome.unwrap().is_processed(), version == 2);
            assert_eq!(test.number(recent).await, expected, "{way:?} {version}");
        }
        let mut conn = test.pool.acquire().await.unwrap();
        run(&mut conn, old).await.unwrap();
    }
}

#[tokio::test]
async fn p1_versions_in_an_outer_transaction() {
    let test = Test::new(1).await;
    for way in WAYS {
        let order = format!("{way:?}");
        let mut outer = test.pool.begin().await.unwrap();
        for (version, body, expected) in [
            (2, Body::Succeeds, Some(Outcome::Processed(7))),
            (1, Body::Panics, Some(Outcome::Stale)),
            (3, Body::Fails, None),
            (2, Body::Panics, Some(Outcome::Duplicate)),
            (3, Body::Succeeds, Some(Outcome::Processed(7))),
        ] {
            let outcome = deliver(way, &mut outer, &order, version, body).await;
            assert_eq!(outcome.ok(), expected, "{way:?} {version}");
        }
        idem::commit(outer).await.unwrap();
        assert_eq!(test.version_of(&order).await, 3);
        test.assert_pool_is_clean("joined").await;
    }
}

/// A key that was claimed without a version has none, and one with a version is claimed.
#[tokio::test]
async fn p2_a_claim_without_a_version() {
    let test = Test::new(1).await;
    for way in WAYS {
        let order = format!("{way:?}");
        let plain = async || match idem::claim(&test.pool, "orders", &order).await.unwrap() {
            Claimed::Fresh(claim) => claim.commit().await.is_ok(),
            _ => false,
        };
        assert!(plain().await);
        let outcome = deliver(way, &test.pool, &order, i64::MIN, Body::Succeeds).await;
        assert_eq!(outcome.unwrap(), Outcome::Processed(7), "{way:?}");
        assert_eq!(test.version_of(&order).await, i64::MIN);
        assert!(!plain().await, "a duplicate");
    }
    assert_eq!(test.claims().await, 3);
}

#[tokio::test]
async fn p4_what_a_version_does_not_go_with() {
    let test = Test::new(1).await;
    test.pool.close().await;
    let plain = || Delivery::of("orders", "order");
    for delivery in [
        Delivery::with_business_key("orders", "order", "action").version(1),
        plain().version(1).fingerprint(100),
        plain().fingerprint(100).version(1),
        plain().version(1).replaying(),
        plain().gapless_from(1),
    ] {
        for way in [Way::Once, Way::Claim] {
            let error = way
                .deliver(&test.pool, delivery.clone(), "order", Body::Panics)
                .await
                .unwrap_err();
            assert!(
                matches!(error, Fail::Delivery(Error::Combination(_))),
                "{delivery:?}: {error:?}"
            );
            assert!(!error.is_transient());
        }
    }
}
