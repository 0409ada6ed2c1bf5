//! P5: a part of a handler that is dropped at every await point, as by a time-out around it.

use idem::Tx;

use super::savepoint::Part;
use super::*;

/// The parts, alone and within another one.
const PARTS: [(Part, bool); 4] = [
    (Part::Succeeds, false),
    (Part::Refuses, false),
    (Part::Succeeds, true),
    (Part::Refuses, true),
];

/// A part is dropped after so many polls, with the answer that it waits for perhaps already there, and the delivery goes on with the
/// rest; `true` if the part was done.
#[idempotent(key = "message", consumer = "billing")]
async fn cancels(
    tx: &mut Tx<'_, Db>,
    message: &str,
    polls: usize,
    part: Part,
    nests: bool,
    body: Body,
) -> Result<bool, Fail> {
    // One that is rolled back leaves its name behind on PostgreSQL, where ROLLBACK TO keeps the savepoint.
    let refused = async |_: &mut Conn| Err::<(), _>(Fail::Refused);
    assert!(tx.savepoint(refused).await.is_err());
    effect(tx, &format!("{message} before")).await?;
    let name = format!("{message} part");
    let mut part = Box::pin(tx.savepoint(async |conn: &mut Conn| {
        if nests {
            // A level more, whose end may be the one that is dropped.
            idem::savepoint(&mut *conn, async |conn: &mut Conn| {
                part.run(conn, &name).await
            })
            .await
        } else {
            part.run(conn, &name).await
        }
    }));
    let done = idem_tests::poll_times(polls, part.as_mut()).await;
    tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    drop(part);
    effect(tx, &format!("{message} after")).await?;
    body.end()?;
    Ok(done.is_some())
}

/// The rollback that follows is the delivery's, and is not taken for the part's.
#[tokio::test]
async fn p5_a_delivery_that_fails_after_a_dropped_part_is_undone() {
    let test = Test::slow(1).await;
    for polls in 0..14 {
        for (part, nests) in PARTS {
            let message = format!("{part:?} {nests} {polls}");
            let result = cancels(&test.pool, &message, polls, part, nests, Body::Fails).await;
            assert!(result.is_err(), "{message}: {result:?}");
            test.assert_pool_is_clean(&message).await;
            for what in ["before", "part", "after"] {
                let effects = test.effects_of(&format!("{message} {what}")).await;
                assert_eq!(effects, 0, "{message} {what}");
            }
            let again = on_connection(&test.pool, &message, Body::Succeeds).await;
            assert_eq!(again.unwrap(), Outcome::Processed(7), "{message}");
            assert_eq!(test.effects_of(&message).await, 1, "{message}");
        }
    }
}

/// On MySQL a statement that is dropped half-way leaves the connection out of step: the delivery fails, and nothing of it is applied.
#[tokio::test]
async fn p5_a_part_that_is_dropped_half_way_leaves_the_transaction_as_it_was() {
    let test = Test::slow(1).await;
    for (part, nests) in PARTS {
        let (mut polls, mut kept) = (0, 0);
        loop {
            let message = format!("{part:?} {nests} {polls}");
            let result = cancels(&test.pool, &message, polls, part, nests, Body::Succeeds).await;
            test.assert_pool_is_clean(&message).await;
            let effects = async |what: &str| test.effects_of(&format!("{message} {what}")).await;
            if let Ok(outcome) = result {
                let done = outcome == Outcome::Processed(true);
                assert_eq!(effects("before").await, 1, "{message}");
                assert_eq!(effects("after").await, 1, "{message}");
                let of_part = effects("part").await;
                if done {
                    let expected = i64::from(part == Part::Succeeds);
                    assert_eq!(of_part, expected, "{message}");
                    break;
                }
                kept += of_part;
            } else {
                let error = result.unwrap_err();
                let is_allowed = db::CANCELLED_IS_UNUSABLE && error.is_transient();
                assert!(is_allowed, "{message}: {error:?}");
                for what in ["before", "part", "after"] {
                    assert_eq!(effects(what).await, 0, "{message} {what}");
                }
                let again = cancels(&test.pool, &message, 500, part, nests, Body::Succeeds).await;
                assert_eq!(again.unwrap(), Outcome::Processed(true), "{message}");
            }
            polls += 1;
            assert!(polls < 500, "a part has an end");
        }
        assert!(polls >= db::WAITS, "cancelled at {polls} places only");
        // Only where it was dropped while it was released, which happens once.
        let most = i64::from(part == Part::Succeeds);
        assert!(kept <= most, "kept {kept} times, and nobody was told");
    }
}
