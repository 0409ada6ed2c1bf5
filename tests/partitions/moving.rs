//! P2: claims move from the plain table to the one by days while workers of both kinds are at work.

use std::sync::Arc;

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::*;

/// A worker's version of the program.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Program {
    /// Without `time`.
    Plain,
    /// With `time` and `from_plain`.
    Moving,
    /// With `time`.
    ByDay,
}

#[idem::idempotent(key = "event.id", consumer = "billing")]
async fn plain(#[tx] tx: &mut Conn, event: &Event, body: Body) -> Result<u64, Fail> {
    effect(tx, &event.id).await?;
    body.end()
}

#[idem::idempotent(
    key = "event.id",
    consumer = "billing",
    time = "event.time",
    from_plain
)]
async fn moving(#[tx] tx: &mut Conn, event: &Event, body: Body) -> Result<u64, Fail> {
    effect(tx, &event.id).await?;
    body.end()
}

impl Program {
    async fn deliver(
        self,
        pool: &Pool<Db>,
        event: &Event,
        body: Body,
    ) -> Result<Outcome<u64>, Fail> {
        match self {
            Program::Plain => plain(pool, event, body).await,
            Program::Moving => moving(pool, event, body).await,
            Program::ByDay => pay(pool, event, body).await,
        }
    }
}

/// The fresh ones of a batch.
async fn deliver_all(program: Program, pool: &Pool<Db>, events: &[Event]) -> Vec<usize> {
    let mut batch = idem::Deliveries::of("billing");
    if program == Program::Moving {
        batch = batch.from_plain();
    }
    for event in events {
        let pushed = batch.push(&event.id);
        if program != Program::Plain {
            pushed.time(event.time);
        }
    }
    let claimed = batch.claim(pool).await.unwrap();
    if let Some(mut claim) = claimed.claim {
        for index in &claimed.fresh {
            effect(&mut claim, &events[*index].id).await.unwrap();
        }
        claim.commit().await.unwrap();
    }
    claimed.fresh
}

/// Any two that follow each other in a deployment, in both directions, recognise each other's claims.
#[tokio::test]
async fn p2_each_program_knows_the_claims_of_its_neighbours() {
    let clocked = Clocked::with_days("2026-11-30", 2, 1, 1).await;
    for (first, second) in [
        (Program::Plain, Program::Moving),
        (Program::Moving, Program::Plain),
        (Program::Moving, Program::ByDay),
        (Program::ByDay, Program::Moving),
    ] {
        for is_batch in [false, true] {
            let what = format!("{first:?} {second:?} {is_batch}");
            let event = clocked.event(&what, -1);
            let outcome = first.deliver(clocked.pool(), &event, Body::Succeeds).await;
            assert!(outcome.unwrap().is_processed(), "{what}");
            for _ in 0..2 {
                if is_batch {
                    let events = [clocked.event(format!("beside {what}"), 0), event.clone()];
                    let fresh = deliver_all(second, clocked.pool(), &events).await;
                    assert!(!fresh.contains(&1), "{what}");
                } else {
                    let outcome = second.deliver(clocked.pool(), &event, Body::Panics).await;
                    assert_eq!(outcome.unwrap(), Outcome::Duplicate, "{what}");
                }
            }
            assert_eq!(clocked.test.effects_of(&what).await, 1, "{what}");
        }
    }
    clocked.test.assert_pool_is_clean("moved").await;
}

/// Without `from_plain` between them, the two do not know of each other.
#[tokio::test]
async fn without_from_plain_a_message_runs_twice() {
    let clocked = Clocked::with_days("2026-11-30", 2, 1, 1).await;
    let event = clocked.event("evt-1", 0);
    for program in [Program::Plain, Program::ByDay] {
        let outcome = program
            .deliver(clocked.pool(), &event, Body::Succeeds)
            .await;
        assert!(outcome.unwrap().is_processed());
    }
    assert_eq!(clocked.test.effects_of("evt-1").await, 2);
}

/// A redelivery that finds a claim in one table makes the one in the other, so that it is found there when the first table is forgotten.
#[tokio::test]
async fn p2_what_is_met_is_kept_in_both_tables() {
    let clocked = Clocked::with_days("2026-11-30", 2, 1, 1).await;
    for (first, last, forget) in [
        (Program::Plain, Program::ByDay, "processed_messages"),
        (Program::ByDay, Program::Plain, "processed_messages_by_day"),
    ] {
        let single = clocked.event(format!("{first:?}"), 0);
        let batch = clocked.event(format!("{first:?} batch"), -1);
        for event in [&single, &batch] {
            let outcome = first.deliver(clocked.pool(), event, Body::Succeeds).await;
            assert!(outcome.unwrap().is_processed());
        }
        let outcome = Program::Moving.deliver(clocked.pool(), &single, Body::Panics);
        assert_eq!(outcome.await.unwrap(), Outcome::Duplicate);
        // A batch keeps in the plain table what it meets by day, if there is something new in it. What the plain table knows it does not
        // ask for by day: until that claim may go, the redeliveries are over.
        let events = [batch.clone(), clocked.event(format!("beside {first:?}"), 0)];
        let fresh = deliver_all(Program::Moving, clocked.pool(), &events).await;
        assert_eq!(fresh, [1]);
        clocked.run(format!("DELETE FROM {forget}")).await;
        let kept = match first {
            Program::Plain => vec![single],
            _ => vec![single, batch],
        };
        for event in kept {
            let outcome = last.deliver(clocked.pool(), &event, Body::Panics).await;
            assert_eq!(outcome.unwrap(), Outcome::Duplicate, "{event:?}");
            assert_eq!(clocked.test.effects_of(&event.id).await, 1);
        }
    }
}

/// The plain table may keep claims for longer than there are days.
#[tokio::test]
async fn p2_what_the_plain_table_knows_is_a_duplicate_and_not_expired() {
    let clocked = Clocked::with_days("2026-11-30", 2, 1, 1).await;
    let (known, unknown) = (clocked.event("known", -9), clocked.event("unknown", -9));
    let outcome = Program::Plain.deliver(clocked.pool(), &known, Body::Succeeds);
    assert!(outcome.await.unwrap().is_processed());
    for _ in 0..2 {
        let outcome = Program::Moving.deliver(clocked.pool(), &known, Body::Panics);
        assert_eq!(outcome.await.unwrap(), Outcome::Duplicate);
        let result = Program::Moving.deliver(clocked.pool(), &unknown, Body::Panics);
        assert_expired(result.await, "2026-11-21", "2026-11-28");
    }
    let events = [known.clone(), clocked.event("new", 0)];
    let fresh = deliver_all(Program::Moving, clocked.pool(), &events).await;
    assert_eq!(fresh, [1]);
    assert_eq!(clocked.test.effects_of("known").await, 1);
}

async fn race(programs: [Program; 2]) {
    let clocked = Clocked::with_days("2026-11-30", 2, 1, 6).await;
    for round in 0..30 {
        let event = clocked.event(format!("round {round}"), -(round % 3));
        let barrier = Arc::new(Barrier::new(8));
        let mut tasks = JoinSet::new();
        for worker in 0..8 {
            let (pool, event) = (clocked.pool().clone(), event.clone());
            let barrier = Arc::clone(&barrier);
            let program = programs[worker % 2];
            tasks.spawn(async move {
                barrier.wait().await;
                // Some of them fail once: the next in line takes over.
                let mut body = if worker < 2 {
                    Body::Fails
                } else {
                    Body::Succeeds
                };
                loop {
                    match program.deliver(&pool, &event, body).await {
                        Ok(outcome) => return outcome,
                        Err(Fail::Refused) => body = Body::Succeeds,
                        Err(error) => assert!(error.is_transient(), "{error:?}"),
                    }
                }
            });
        }
        let outcomes = tasks.join_all().await;
        let processed = outcomes.iter().filter(|outcome| outcome.is_processed());
        assert_eq!(processed.count(), 1, "{programs:?} {round}: {outcomes:?}");
        assert_eq!(clocked.test.effects_of(&event.id).await, 1);
    }
    clocked.test.assert_pool_is_clean("raced").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_old_and_new_workers_race() {
    race([Program::Plain, Program::Moving]).await;
    race([Program::Moving, Program::ByDay]).await;
}

/// Batches of both kinds, overlapping and in any order: no deadlock, and each message once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_batches_of_old_and_new_workers_race() {
    let clocked = Arc::new(Clocked::with_days("2026-11-30", 2, 1, 6).await);
    for programs in [
        [Program::Plain, Program::Moving],
        [Program::Moving, Program::ByDay],
    ] {
        let mut tasks = JoinSet::new();
        for worker in 0_u32..6 {
            let clocked = Arc::clone(&clocked);
            tasks.spawn(async move {
                let program = programs[usize::try_from(worker).unwrap() % 2];
                let events: Vec<_> = (0..40)
                    .map(|number| clocked.event(format!("{programs:?} {number}"), -(number % 3)))
                    .collect();
                let mut fresh = 0;
                for round in 0_u32..4 {
                    let events = idem_tests::shuffled(&events, u64::from(worker * 10 + round));
                    let (some, rest) = events.split_at(15);
                    fresh += deliver_all(program, clocked.pool(), some).await.len();
                    fresh += deliver_all(program, clocked.pool(), rest).await.len();
                }
                fresh
            });
        }
        let fresh: usize = tasks.join_all().await.into_iter().sum();
        assert_eq!(fresh, 40, "{programs:?}");
    }
    let effects = "SELECT count(*) FROM effects";
    assert_eq!(clocked.test.number(effects).await, 80);
}

/// A value that was stored before is given back, also by a worker that looks in both tables.
#[tokio::test]
async fn p2_a_value_is_found_in_either_table() {
    let clocked = Clocked::with_days("2026-11-30", 2, 1, 1).await;
    let delivery = |program: Program, event: &Event, content: i64| match program {
        Program::Plain => Delivery::of("billing", &event.id).fingerprint(content),
        Program::Moving => event.delivery().from_plain().fingerprint(content),
        Program::ByDay => event.delivery().fingerprint(content),
    };
    for (first, second) in [
        (Program::Plain, Program::Moving),
        (Program::Moving, Program::Plain),
        (Program::Moving, Program::ByDay),
        (Program::ByDay, Program::Moving),
        (Program::Moving, Program::Moving),
    ] {
        let event = clocked.event(format!("{first:?} {second:?}"), -1);
        let value = delivery(first, &event, 1)
            .replay(clocked.pool(), async |_: &mut Conn| Ok::<_, Fail>(5));
        assert_eq!(value.await.unwrap(), Outcome::Processed(5));
        for _ in 0..2 {
            let value = delivery(second, &event, 1)
                .replay(clocked.pool(), async |_: &mut Conn| Ok::<_, Fail>(6));
            assert_eq!(value.await.unwrap(), Outcome::Replayed(5), "{event:?}");
        }
        let other = delivery(second, &event, 2)
            .replay(clocked.pool(), async |_: &mut Conn| Ok::<_, Fail>(6));
        assert!(
            matches!(other.await, Err(Fail::Delivery(Error::Mismatch))),
            "{event:?}"
        );
    }
}
