//! P5, P9: the bound of a claim's wait is the claim's alone. The body has the session's own setting, and nothing is left set on any
//! connection, however the delivery ends.

use std::time::Duration;

use idem::InFlight;

use super::by_hand::{WAYS, Way};
use super::in_flight::start;
use super::*;

/// The handlers' value is the setting that their body meets.
#[idempotent(key = "message", consumer = "billing", in_flight = "fail")]
async fn fails(#[tx] tx: &mut Conn, message: &str, body: Body) -> Result<i64, Fail> {
    effect(tx, message).await?;
    let setting = number(tx, db::OWN_WAIT).await?;
    body.end()?;
    Ok(setting)
}

#[idempotent(key = "message", consumer = "billing", in_flight = "300ms")]
async fn waits(#[tx] tx: &mut Conn, message: &str, body: Body) -> Result<i64, Fail> {
    effect(tx, message).await?;
    let setting = number(tx, db::OWN_WAIT).await?;
    body.end()?;
    Ok(setting)
}

const BOUNDS: [InFlight; 2] = [InFlight::Fail, InFlight::Within(Duration::from_millis(300))];

/// What comes of one message after the other.
const VERDICTS: [(Body, Option<Outcome<i64>>); 3] = [
    (Body::Fails, None),
    (Body::Succeeds, Some(Outcome::Processed(db::SET))),
    (Body::Panics, Some(Outcome::Duplicate)),
];

async fn deliver<'c>(
    way: Way,
    in_flight: InFlight,
    source: impl idem::Source<'c, Database = Db>,
    message: &str,
    body: Body,
) -> Result<Outcome<i64>, Fail> {
    let delivery = db::of("billing", message).in_flight(in_flight);
    match way {
        Way::Attribute if in_flight == InFlight::Fail => fails(source, message, body).await,
        Way::Attribute => waits(source, message, body).await,
        Way::Once => {
            delivery
                .once(source, async |tx: &mut Conn| {
                    effect(tx, message).await?;
                    let setting = number(tx, db::OWN_WAIT).await?;
                    body.end()?;
                    Ok(setting)
                })
                .await
        }
        Way::Claim => {
            let Claimed::Fresh(mut claim) = delivery.claim(source).await? else {
                return Ok(Outcome::Duplicate);
            };
            effect(&mut claim, message).await?;
            let setting = number(&mut claim, db::OWN_WAIT).await?;
            if let Err(error) = body.end() {
                claim.rollback().await;
                return Err(error);
            }
            claim.commit().await?;
            Ok(Outcome::Processed(setting))
        }
    }
}

impl Test {
    /// Gives every connection of the pool a setting of its own.
    async fn set_wait(&mut self) {
        let options = self.pool.options().clone();
        let options = options
            .after_connect(|conn, _| Box::pin(async move { run(conn, db::SET_OWN_WAIT).await }));
        let connect = (*self.pool.connect_options()).clone();
        self.pool.close().await;
        self.pool = options.connect_with(connect).await.expect("a pool");
    }

    /// Proves it of every connection.
    async fn assert_own_wait(&self, what: &str) {
        let mut held = Vec::new();
        for _ in 0..self.pool.options().get_max_connections() {
            let mut conn = self.pool.acquire().await.expect("a connection");
            let setting = number(&mut conn, db::OWN_WAIT).await.unwrap();
            assert_eq!(setting, db::SET, "{what}");
            held.push(conn);
        }
    }
}

#[tokio::test]
async fn p9_nothing_is_left_set_on_a_pool() {
    let mut test = Test::new(2).await;
    test.set_wait().await;
    for way in WAYS {
        for in_flight in BOUNDS {
            let message = format!("{way:?} {in_flight:?}");
            let failed = deliver(way, in_flight, &test.pool, &message, Body::Fails).await;
            assert!(matches!(failed, Err(Fail::Refused)), "{failed:?}");
            test.assert_own_wait("failed").await;
            let first = start(&test.pool, &message).await;
            let met = deliver(way, in_flight, &test.pool, &message, Body::Panics).await;
            assert!(
                matches!(met, Err(Fail::Delivery(Error::InFlight(_)))),
                "{met:?}"
            );
            first.rollback().await;
            test.assert_own_wait("in flight").await;
            let processed = deliver(way, in_flight, &test.pool, &message, Body::Succeeds).await;
            let setting = Outcome::Processed(db::SET);
            assert_eq!(processed.unwrap(), setting, "{message}: the session's own");
            test.assert_own_wait("processed").await;
            let duplicate = deliver(way, in_flight, &test.pool, &message, Body::Panics).await;
            assert_eq!(duplicate.unwrap(), Outcome::Duplicate, "{message}");
            test.assert_own_wait("duplicate").await;
            test.assert_pool_is_clean(&message).await;
        }
    }
}

#[tokio::test]
async fn p9_nothing_is_left_set_on_a_held_connection() {
    let mut test = Test::new(1).await;
    test.set_wait().await;
    for way in WAYS {
        for in_flight in BOUNDS {
            let message = format!("{way:?} {in_flight:?}");
            let mut held = test.pool.acquire().await.unwrap();
            for (body, expected) in VERDICTS {
                let result = deliver(way, in_flight, &mut *held, &message, body).await;
                assert_eq!(result.ok(), expected, "{message}");
                let setting = number(&mut held, db::OWN_WAIT).await.unwrap();
                assert_eq!(setting, db::SET, "{message} {body:?}");
            }
        }
    }
    test.assert_own_wait("held").await;
}

#[tokio::test]
async fn p9_nothing_is_left_set_in_an_outer_transaction() {
    let mut test = Test::new(1).await;
    test.set_wait().await;
    for way in WAYS {
        for in_flight in BOUNDS {
            let message = format!("{way:?} {in_flight:?}");
            let mut outer = test.pool.begin().await.unwrap();
            for (body, expected) in VERDICTS {
                let result = deliver(way, in_flight, &mut outer, &message, body).await;
                assert_eq!(result.ok(), expected, "{message}");
                let setting = number(&mut outer, db::OWN_WAIT).await.unwrap();
                assert_eq!(setting, db::SET, "{message} {body:?}");
            }
            idem::commit(outer).await.unwrap();
            test.assert_own_wait(&message).await;
        }
    }
}

/// Runs `cancel` with every number of polls until the delivery is done within them.
async fn at_every_await<C>(mut cancel: C)
where
    C: AsyncFnMut(Way, InFlight, usize, String) -> bool,
{
    for (index, way) in WAYS.into_iter().enumerate() {
        let in_flight = BOUNDS[index % 2];
        let mut polls = 0;
        while !cancel(way, in_flight, polls, format!("{way:?} {polls}")).await {
            polls += 1;
            assert!(polls < 500, "a delivery has an end");
        }
        assert!(polls >= db::WAITS, "cancelled at {polls} places only");
    }
}

#[tokio::test]
async fn p5_nothing_is_left_set_when_cancelled() {
    let mut test = Test::slow(1).await;
    test.set_wait().await;
    at_every_await(async |way, in_flight, polls, message| {
        let delivery = deliver(way, in_flight, &test.pool, &message, Body::Succeeds);
        let done = idem_tests::cancelled_after(polls, delivery).await.is_some();
        test.assert_own_wait(&message).await;
        test.assert_pool_is_clean(&message).await;
        let again = deliver(way, in_flight, &test.pool, &message, Body::Succeeds).await;
        assert!(again.is_ok(), "{message}: {again:?}");
        assert_eq!(test.effects_of(&message).await, 1, "{message}");
        done
    })
    .await;
}

#[tokio::test]
async fn p5_nothing_is_left_set_when_a_duplicate_is_cancelled() {
    let mut test = Test::slow(1).await;
    test.set_wait().await;
    at_every_await(async |way, in_flight, polls, message| {
        let first = deliver(way, in_flight, &test.pool, &message, Body::Succeeds).await;
        assert!(first.unwrap().is_processed(), "{message}");
        let delivery = deliver(way, in_flight, &test.pool, &message, Body::Panics);
        let done = idem_tests::cancelled_after(polls, delivery).await.is_some();
        test.assert_own_wait(&message).await;
        test.assert_pool_is_clean(&message).await;
        done
    })
    .await;
}

/// A connection that its holder goes on with. On MySQL it has to be closed.
#[tokio::test]
async fn p5_nothing_is_left_set_on_a_held_connection_when_cancelled() {
    let mut test = Test::slow(1).await;
    test.set_wait().await;
    for joins in [false, true] {
        at_every_await(async |way, in_flight, polls, message| {
            let message = format!("{message} {joins}");
            let mut held = test.pool.acquire().await.unwrap();
            let done = if joins {
                let mut outer = sqlx::Connection::begin(&mut *held).await.unwrap();
                let delivery = deliver(way, in_flight, &mut outer, &message, Body::Succeeds);
                let done = idem_tests::cancelled_after(polls, delivery).await.is_some();
                if done || !db::CANCELLED_IS_UNUSABLE {
                    match number(&mut outer, db::OWN_WAIT).await {
                        Ok(setting) => assert_eq!(setting, db::SET, "{message}"),
                        Err(_) => assert!(!done, "it says that it is not as it was"),
                    }
                }
                done
            } else {
                let delivery = deliver(way, in_flight, &mut *held, &message, Body::Succeeds);
                idem_tests::cancelled_after(polls, delivery).await.is_some()
            };
            if db::CANCELLED_IS_UNUSABLE && !done {
                held.close_on_drop();
                return false;
            }
            let setting = number(&mut held, db::OWN_WAIT).await.unwrap();
            assert_eq!(setting, db::SET, "{message}");
            // The next delivery leaves it clean.
            let again = deliver(way, in_flight, &mut *held, &message, Body::Succeeds).await;
            assert!(again.is_ok(), "{message}: {again:?}");
            drop(held);
            test.assert_pool_is_clean(&message).await;
            done
        })
        .await;
    }
}

/// The wait itself is dropped, as by a time-out around the delivery.
#[tokio::test]
async fn p5_nothing_is_left_set_when_the_wait_is_cancelled() {
    let mut test = Test::new(2).await;
    test.set_wait().await;
    for way in WAYS {
        let message = format!("{way:?}");
        let first = start(&test.pool, &message).await;
        let in_flight = InFlight::Within(Duration::from_mins(1));
        let delivery = db::of("billing", message.as_str()).in_flight(in_flight);
        let waiting = async {
            if way == Way::Attribute {
                waits(&test.pool, &message, Body::Panics).await.map(drop)
            } else {
                let outcome = way.deliver(&test.pool, delivery, &message, Body::Panics);
                outcome.await.map(drop)
            }
        };
        let waited = tokio::time::timeout(Duration::from_millis(60), waiting).await;
        assert!(waited.is_err(), "{message}: {waited:?}");
        first.commit().await.unwrap();
        test.assert_own_wait(&message).await;
        test.assert_pool_is_clean(&message).await;
    }
}
