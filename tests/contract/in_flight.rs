//! P9: what a delivery does while another one of its message is in flight.

use std::time::{Duration, Instant};

use idem::InFlight;
use tokio::time::timeout;

use super::by_hand::{WAYS, Way};
use super::*;

#[idempotent(key = "message", consumer = "billing", in_flight = "fail")]
async fn fails(#[tx] tx: &mut Conn, message: &str, body: Body) -> Result<u64, Fail> {
    effect(tx, message).await?;
    body.end()
}

#[idempotent(key = "message", consumer = "billing", in_flight = "300ms")]
async fn waits_a_little(#[tx] tx: &mut Conn, message: &str, body: Body) -> Result<u64, Fail> {
    effect(tx, message).await?;
    body.end()
}

#[idempotent(key = "message", consumer = "billing", in_flight = "1m")]
async fn waits_long(#[tx] tx: &mut Conn, message: &str, body: Body) -> Result<u64, Fail> {
    effect(tx, message).await?;
    body.end()
}

#[idempotent(key = "message", consumer = "billing", in_flight = "wait")]
async fn waits(#[tx] tx: &mut Conn, message: &str, body: Body) -> Result<u64, Fail> {
    effect(tx, message).await?;
    body.end()
}

const A_LITTLE: InFlight = InFlight::Within(Duration::from_millis(300));
const LONG: InFlight = InFlight::Within(Duration::from_mins(1));

/// Against a wait without end.
const A_WHILE: Duration = Duration::from_secs(8);

pub(crate) async fn deliver<'c>(
    way: Way,
    in_flight: InFlight,
    source: impl idem::Source<'c, Database = Db>,
    message: &str,
    body: Body,
) -> Result<Outcome<u64>, Fail> {
    if way != Way::Attribute {
        let delivery = db::of("billing", message).in_flight(in_flight);
        return way.deliver(source, delivery, message, body).await;
    }
    match in_flight {
        InFlight::Fail => fails(source, message, body).await,
        InFlight::Wait => waits(source, message, body).await,
        A_LITTLE => waits_a_little(source, message, body).await,
        InFlight::Within(_) => waits_long(source, message, body).await,
    }
}

#[track_caller]
fn assert_in_flight(result: Result<Outcome<u64>, Fail>, what: &str) {
    let error = result.unwrap_err();
    assert!(
        matches!(error, Fail::Delivery(Error::InFlight(_))),
        "{what}: {error:?}"
    );
    assert!(error.is_transient(), "{what}");
}

/// Begins the delivery that is in flight.
pub(crate) async fn start<'p>(pool: &'p Pool<Db>, message: &str) -> idem::Claim<'p, Db> {
    match db::claim(pool, "billing", message).await.unwrap() {
        Claimed::Fresh(claim) => claim,
        _ => panic!("{message} is new"),
    }
}

#[tokio::test]
async fn p9_fails_at_once_or_within_its_bound() {
    let test = Test::new(2).await;
    for way in WAYS {
        for (in_flight, least, most) in [(InFlight::Fail, 0, 3000), (A_LITTLE, 290, 8000)] {
            let message = format!("{way:?} {in_flight:?}");
            let first = start(&test.pool, &message).await;
            let start = Instant::now();
            let delivery = deliver(way, in_flight, &test.pool, &message, Body::Panics);
            let result = timeout(Duration::from_millis(most), delivery).await;
            assert_in_flight(result.expect("it is bounded"), &message);
            assert!(start.elapsed() >= Duration::from_millis(least), "{message}");
            first.rollback().await;
            for expected in [Outcome::Processed(7), Outcome::Duplicate] {
                let outcome = deliver(way, in_flight, &test.pool, &message, Body::Succeeds).await;
                assert_eq!(outcome.unwrap(), expected, "{message}");
            }
            assert_eq!(test.effects_of(&message).await, 1, "{message}");
            test.assert_pool_is_clean(&message).await;
        }
    }
}

/// The verdict comes before the bound.
#[tokio::test]
async fn p9_waits_for_the_verdict() {
    let test = Test::new(2).await;
    for way in WAYS {
        for in_flight in [InFlight::Wait, LONG] {
            for commits in [false, true] {
                let message = format!("{way:?} {in_flight:?} {commits}");
                let mut first = start(&test.pool, &message).await;
                effect(&mut first, &message).await.unwrap();
                let (pool, id) = (test.pool.clone(), message.clone());
                let mut second = tokio::spawn(async move {
                    deliver(way, in_flight, &pool, &id, Body::Succeeds).await
                });
                let early = timeout(Duration::from_millis(50), &mut second).await;
                assert!(early.is_err(), "no verdict yet: {early:?}");
                let expected = if commits {
                    first.commit().await.unwrap();
                    Outcome::Duplicate
                } else {
                    first.rollback().await;
                    Outcome::Processed(7)
                };
                assert_eq!(second.await.unwrap().unwrap(), expected, "{message}");
                assert_eq!(test.effects_of(&message).await, 1, "{message}");
            }
        }
    }
    test.assert_pool_is_clean("waited").await;
}

#[tokio::test]
async fn p9_in_flight_in_an_outer_transaction_leaves_that_usable() {
    // SQLite: whoever writes in a transaction keeps every other delivery from being in flight.
    if db::WIRE.is_none() {
        return;
    }
    let test = Test::new(2).await;
    for way in WAYS {
        for in_flight in [InFlight::Fail, A_LITTLE] {
            let message = format!("{way:?} {in_flight:?}");
            let first = start(&test.pool, &message).await;
            let mut outer = test.pool.begin().await.unwrap();
            effect(&mut outer, &format!("before {message}"))
                .await
                .unwrap();
            let result = deliver(way, in_flight, &mut outer, &message, Body::Panics).await;
            assert_in_flight(result, &message);
            effect(&mut outer, &format!("after {message}"))
                .await
                .unwrap();
            first.rollback().await;
            let outcome = deliver(way, in_flight, &mut outer, &message, Body::Succeeds).await;
            assert_eq!(outcome.unwrap(), Outcome::Processed(7), "{message}");
            idem::commit(outer).await.unwrap();
            for part in ["before ", "", "after "] {
                let effects = test.effects_of(&format!("{part}{message}")).await;
                assert_eq!(effects, 1, "{part}{message}");
            }
            test.assert_pool_is_clean(&message).await;
        }
    }
}

/// The claim of each kind of delivery, while another one of the kind is in flight.
#[tokio::test]
async fn p9_every_kind_of_claim_is_bounded() {
    let test = Test::new(2).await;
    let both = |id| db::with_business_key("billing", id, "action");
    let version = |number: i64| Delivery::of("orders", "order").version(number);
    let turn = |number: i64| {
        Delivery::of("orders", "turn")
            .version(number)
            .gapless_from(1)
    };
    let print = |content: &str| db::of("billing", "print").fingerprint(content);
    let value = || db::of("billing", "value").replaying();
    for (first, second) in [
        (both("id1"), both("id2")),
        (version(1), version(2)),
        (turn(1), turn(1)),
        (turn(2), turn(2)),
        (print("a"), print("b")),
        (value(), value()),
    ] {
        let what = format!("{second:?}");
        let Claimed::Fresh(first) = first.claim(&test.pool).await.unwrap() else {
            panic!("{what}: it is new");
        };
        let second = second.in_flight(InFlight::Fail);
        let refused = timeout(A_WHILE, second.clone().claim(&test.pool));
        match refused.await.expect("it is bounded") {
            Err(Error::InFlight(_)) => {}
            Err(error) => panic!("{what}: {error:?}"),
            Ok(_) => panic!("{what}: the first has no verdict yet"),
        }
        first.commit().await.unwrap();
        let is_in_flight = matches!(second.claim(&test.pool).await, Err(Error::InFlight(_)));
        assert!(!is_in_flight, "{what}");
    }
    let batch = |ids: [&str; 2]| {
        let mut batch = db::batch("billing");
        for id in ids {
            db::push(&mut batch, id);
        }
        batch
    };
    let first = batch(["a", "b"]).claim(&test.pool).await.unwrap();
    let second = batch(["c", "b"]).in_flight(InFlight::Fail);
    let refused = timeout(A_WHILE, second.clone().claim(&test.pool)).await;
    assert!(matches!(refused, Ok(Err(Error::InFlight(_)))));
    first.claim.unwrap().commit().await.unwrap();
    let second = second.claim(&test.pool).await.unwrap();
    assert_eq!((second.fresh, second.duplicates), (vec![0], vec![1]));
}

/// Whatever a delivery looks up, it meets the claims of its own message only.
#[tokio::test]
async fn p9_other_messages_in_flight_are_not_waited_for() {
    // SQLite has one writer at a time.
    if db::WIRE.is_none() {
        return;
    }
    let test = Test::new(6).await;
    let mut others = Vec::new();
    for id in ["a", "m", "z", "|m"] {
        others.push(start(&test.pool, id).await);
    }
    let both = |id| db::with_business_key("billing", id, "action");
    let plain = |id| db::of("billing", id);
    let of_many = |id, version| Delivery::of("billing", id).version(version);
    let deliveries = [
        plain("p"),
        both("b1"),
        both("b2"),
        plain("f").fingerprint(1),
        of_many("v", 2),
        of_many("v", 1),
        of_many("g", 1).gapless_from(1),
        of_many("g", 3).gapless_from(1),
        of_many("n", 2).gapless_from(1),
    ];
    let mut conn = test.pool.acquire().await.unwrap();
    run(&mut conn, db::SET_OWN_WAIT).await.unwrap();
    for delivery in deliveries {
        for _ in 0..2 {
            let what = format!("{delivery:?}");
            let bounded = delivery.clone().in_flight(InFlight::Fail);
            let result = Way::Claim
                .deliver(&mut conn, bounded, "effect", Body::Succeeds)
                .await;
            let is_out_of_turn = matches!(result, Err(Fail::Delivery(Error::OutOfTurn { .. })));
            assert!(result.is_ok() || is_out_of_turn, "{what}: {result:?}");
            if is_out_of_turn || what.contains("version: Some") {
                continue;
            }
            // The value is stored and read beside the others, too.
            let name = format!("{what} value");
            let key = &name[name.len() - 200.min(name.len())..];
            let value = db::with_business_key("billing", key, ("value", key));
            let value = value
                .in_flight(InFlight::Fail)
                .replay(&mut conn, async |_: &mut Conn| Ok::<_, Fail>(1));
            assert_eq!(value.await.unwrap().value(), Some(1), "{what}");
        }
    }
    for _ in 0..2 {
        let mut batch = db::batch("billing").in_flight(InFlight::Fail);
        for id in ["q", "b", "y", "n"] {
            db::push(&mut batch, id).fingerprint(1);
        }
        let claimed = batch.claim(&mut conn).await.unwrap();
        if let Some(claim) = claimed.claim {
            claim.commit().await.unwrap();
        }
    }
    for other in others {
        other.commit().await.unwrap();
    }
}
