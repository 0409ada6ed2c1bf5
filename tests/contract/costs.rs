//! What a client waits for: an argument costs its users what it needs, and nobody else anything.

use std::time::Duration;

use idem::{InFlight, Isolation, Unprepared};
use idem_tests::Proxy;
use sqlx::pool::PoolConnection;

use super::contract::batch::{TOGETHER, batch_of};
use super::contract::*;

/// A connection whose requests are counted.
struct Counted {
    test: Test,
    proxy: Proxy,
    conn: PoolConnection<Db>,
}

impl Counted {
    async fn new() -> Self {
        let test = Test::new(1).await;
        let url = test.fixture.url.clone();
        let proxy = Proxy::start(db::WIRE.unwrap(), &url, Duration::ZERO).await;
        let options = test.fixture.options(1).test_before_acquire(false);
        let pool = options.connect(&proxy.url(&url)).await.unwrap();
        let conn = pool.acquire().await.unwrap();
        let _ = proxy.take();
        Self { test, proxy, conn }
    }

    /// The round trips of a delivery, and what came of it; the statements are prepared before.
    async fn once(&mut self, delivery: Delivery<'_>, body: Body) -> (usize, Outcome<()>) {
        let _ = self.proxy.take();
        let outcome: Result<_, Fail> = delivery
            .once(&mut self.conn, async |tx: &mut Conn| {
                effect(tx, "effect").await?;
                body.end().map(drop)
            })
            .await;
        (self.proxy.take().0, outcome.unwrap())
    }

    async fn replay(&mut self, delivery: Delivery<'_>) -> (usize, Outcome<()>) {
        let _ = self.proxy.take();
        let outcome: Result<_, Fail> = delivery
            .replay(&mut self.conn, async |tx: &mut Conn| {
                Ok(effect(tx, "effect").await?)
            })
            .await;
        (self.proxy.take().0, outcome.unwrap())
    }
}

/// BEGIN, claim, body, seal and COMMIT in two, since the connection is held.
const PLAIN: usize = 5;
/// BEGIN, claim, ROLLBACK.
const DUPLICATE: usize = 3;
/// A claim is one statement, in the table by days too. Where the keys of a message are in both tables, it is two.
const MORE: usize = db::STATEMENTS - 1;
const BOTH: usize = db::STATEMENTS_BOTH - 1;

/// Delivers a message twice, after others that prepare the statements: the round trips beyond those without the argument.
async fn beyond(make: impl Fn(&'static str) -> Delivery<'static>) -> (usize, usize) {
    let mut counted = Counted::new().await;
    for _ in 0..2 {
        let _ = counted.once(make("warm"), Body::Succeeds).await;
    }
    let (fresh, outcome) = counted.once(make("evt-1"), Body::Succeeds).await;
    assert_eq!(outcome, Outcome::Processed(()));
    let (duplicate, outcome) = counted.once(make("evt-1"), Body::Panics).await;
    assert_eq!(outcome, Outcome::Duplicate);
    (fresh - PLAIN, duplicate - DUPLICATE)
}

#[tokio::test]
async fn an_argument_costs_its_users_only() {
    let plain = |id| db::of("billing", id);
    assert_eq!(beyond(plain).await, (MORE, MORE));
    let business = beyond(|id| db::with_business_key("billing", id, id)).await;
    assert_eq!(business, (BOTH, BOTH + db::MET), "a business key");
    let no_id = |id| db::with_business_key("billing", None::<&str>, id);
    assert_eq!(beyond(no_id).await, (0, 0), "a business key alone");
    let of_many = |id| Delivery::of("billing", id).version(1);
    let version = beyond(of_many).await;
    assert_eq!(version, (0, 1), "a version, which a duplicate looks up");
    let gapless = beyond(|id| of_many(id).gapless_from(1)).await;
    assert_eq!(gapless, (0, 1), "versions without gaps");
    let fingerprint = beyond(|id| plain(id).fingerprint(1)).await;
    assert_eq!(
        fingerprint,
        (MORE, MORE + db::STATEMENTS + db::MET),
        "a fingerprint, which a duplicate looks up in each table"
    );
    for in_flight in [InFlight::Fail, InFlight::Within(Duration::from_secs(2))] {
        let bounded = beyond(|id| plain(id).in_flight(in_flight)).await;
        let bound = MORE + db::BOUND;
        assert_eq!(bounded, (bound, bound), "{in_flight:?}");
    }
    let isolation = beyond(|id| plain(id).isolation(Isolation::Serializable)).await;
    assert_eq!(isolation, (MORE, MORE), "a level");
}

#[idempotent(key = "message", consumer = "billing", retries = 3)]
async fn with_retries(#[tx] tx: &mut Conn, message: &str) -> Result<(), Fail> {
    Ok(effect(tx, message).await?)
}

#[tokio::test]
async fn retries_cost_nothing_where_none_is_needed() {
    let mut counted = Counted::new().await;
    let mut round_trips = Vec::new();
    for message in ["warm", "warm", "evt-1", "evt-1"] {
        let _ = counted.proxy.take();
        let outcome = with_retries(&mut counted.conn, message).await;
        assert!(outcome.is_ok(), "{outcome:?}");
        round_trips.push(counted.proxy.take().0);
    }
    assert_eq!(round_trips[2..], [PLAIN + MORE, DUPLICATE + MORE]);
}

#[tokio::test]
async fn a_replay_costs_a_statement() {
    for business_key in [false, true] {
        let mut counted = Counted::new().await;
        let make = |id| {
            if business_key {
                db::with_business_key("billing", id, id)
            } else {
                db::of("billing", id)
            }
        };
        for _ in 0..2 {
            let _ = counted.replay(make("warm")).await;
        }
        let (fresh, outcome) = counted.replay(make("evt-1")).await;
        assert_eq!(outcome, Outcome::Processed(()));
        let (claim, rows) = if business_key {
            (db::STATEMENTS_BOTH, db::STORES_BOTH)
        } else {
            (db::STATEMENTS, db::STORES)
        };
        assert_eq!(fresh, PLAIN - 1 + claim + rows, "to store the value");
        let (duplicate, outcome) = counted.replay(make("evt-1")).await;
        assert_eq!(outcome, Outcome::Replayed(()));
        let met = if business_key { db::MET } else { 0 };
        let reads = claim + met;
        assert_eq!(duplicate, DUPLICATE - 1 + claim + reads, "to read it");
    }
}

/// The texts on a connection that has none prepared.
#[tokio::test]
async fn a_plain_delivery_has_one_claim() {
    for form in FORMS {
        for business_key in [false, true] {
            let mut counted = Counted::new().await;
            if business_key {
                let delivery = db::with_business_key("billing", "evt-1", "action");
                let done = delivery.once(&mut counted.conn, async |tx: &mut Conn| {
                    effect(tx, "effect").await.map_err(Fail::from)
                });
                assert!(done.await.unwrap().is_processed());
            } else {
                let done = deliver(form, &mut counted.conn, "evt-1", Body::Succeeds).await;
                assert!(done.unwrap().is_processed());
            }
            let (_, statements) = counted.proxy.take();
            let of = |text: &str| statements.iter().filter(|sql| sql.contains(text)).count();
            let claims = if business_key {
                db::STATEMENTS_BOTH
            } else {
                db::STATEMENTS
            };
            assert_eq!(of("processed_messages"), claims, "{form:?}: {statements:?}");
            assert_eq!(
                of("INSERT INTO processed_messages"),
                claims,
                "{statements:?}"
            );
            assert_eq!(statements[0], db::BEGIN_SENT, "{form:?}");
            let is_plain = statements[1].contains(db::CLAIM);
            assert_eq!(
                is_plain, !business_key,
                "the claim is the first: {statements:?}"
            );
            assert!(
                statements[1 + claims].contains("INSERT INTO effects"),
                "{statements:?}"
            );
            assert!(counted.test.claims().await > 0);
        }
    }
}

/// Nothing is kept prepared here, so that each size is prepared for itself.
#[tokio::test]
async fn a_batch_of_a_hundred_costs_as_much_as_one_of_one() {
    for together in TOGETHER {
        let mut counted = Counted::new().await;
        let mut costs = Vec::new();
        for size in [1, 2, 100] {
            let all: Vec<_> = (0..size).map(|number| format!("{size} {number}")).collect();
            let some: Vec<_> = all
                .iter()
                .map(|name| format!("{name} more"))
                .chain(all.clone())
                .collect();
            let mut costs_of_size = Vec::new();
            for (messages, fresh, body) in [
                (all.clone(), size, Body::Succeeds),
                (all, 0, Body::Panics),
                (some, size, Body::Succeeds),
            ] {
                let _ = counted.proxy.take();
                let source = Unprepared(&mut counted.conn);
                let outcome = together.deliver(source, messages, body).await.unwrap();
                assert_eq!(outcome.fresh.len(), fresh, "{together:?} {size}");
                let (round_trips, statements) = counted.proxy.take();
                costs_of_size.push((round_trips, statements.len()));
            }
            costs.push(costs_of_size);
        }
        assert_eq!(costs[0], costs[1], "{together:?}");
        assert_eq!(costs[0], costs[2], "{together:?}");
        let none = together.deliver(&mut counted.conn, batch_of([]), Body::Panics);
        assert!(none.await.unwrap().fresh.is_empty());
        assert_eq!(counted.proxy.take().0, 0, "an empty one costs nothing");
    }
}
