//! What is particular to PostgreSQL about the attribute's arguments.

use std::sync::Arc;

use tokio::sync::Barrier;

use crate::contract::*;

/// Drops the error of a statement, which aborts the transaction, and returns `Ok`.
async fn swallow(tx: &mut Conn) -> Result<u64, Fail> {
    assert!(run(tx, "INSERT INTO nowhere VALUES (1)").await.is_err());
    Ok(7)
}

#[idempotent(key = "message", consumer = "billing", replay)]
async fn replays(#[tx] tx: &mut Conn, message: &str, swallows: bool) -> Result<u64, Fail> {
    effect(tx, message).await?;
    if swallows { swallow(tx).await } else { Ok(7) }
}

/// The value's own statement meets it first.
#[tokio::test]
async fn p3_a_swallowed_error_is_no_success_with_replay_either() {
    let test = Test::new(1).await;
    for way in ["attribute", "joined", "once", "claim"] {
        let delivery = db::of("billing", way);
        let result = match way {
            "attribute" => replays(&test.pool, way, true).await,
            "joined" => {
                let mut outer = test.pool.begin().await.unwrap();
                let result = replays(&mut outer, way, true).await;
                effect(&mut outer, "outer").await.unwrap();
                idem::commit(outer).await.unwrap();
                result
            }
            "once" => delivery.replay(&test.pool, swallow).await,
            _ => match delivery.claim(&test.pool).await.unwrap() {
                Claimed::Fresh(mut claim) => {
                    let value = swallow(&mut claim).await.unwrap();
                    let committed = claim.commit_with(&value).await;
                    committed
                        .map(|()| Outcome::Processed(value))
                        .map_err(Fail::from)
                }
                _ => panic!("it is new"),
            },
        };
        let error = result.unwrap_err();
        assert!(
            matches!(error, Fail::Delivery(Error::Aborted(_))),
            "{way}: {error:?}"
        );
        assert!(!error.is_transient(), "the handler needs a change");
        test.assert_pool_is_clean(way).await;
        assert_eq!(test.effects_of(way).await, 0, "{way}");
        let again = replays(&test.pool, way, false).await.unwrap();
        assert_eq!(again, Outcome::Processed(7), "{way}");
    }
    assert_eq!(test.effects_of("outer").await, 1);
}

/// Takes one off duty if two are on; both look before either writes.
#[idempotent(
    key = "who",
    consumer = "duty",
    isolation = "serializable",
    retries = 5
)]
async fn goes_off_duty(
    tx: &mut idem::Tx<'_, Db>,
    who: i64,
    both_have_looked: &Barrier,
) -> Result<bool, Fail> {
    let on_duty = number(tx, "SELECT count(*) FROM duty").await?;
    if tx.attempt() == 1 {
        both_have_looked.wait().await;
    }
    if on_duty < 2 {
        return Ok(false);
    }
    run(tx, format!("DELETE FROM duty WHERE who = {who}")).await?;
    Ok(true)
}

/// Write skew, which surfaces in the later one's statement or in its COMMIT.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_what_a_handler_has_read_is_protected_and_the_loser_runs_again() {
    let test = Test::new(2).await;
    for round in 0..5 {
        let mut conn = test.pool.acquire().await.unwrap();
        let on_duty = "CREATE TABLE IF NOT EXISTS duty (who bigint PRIMARY KEY); DELETE FROM duty; \
            INSERT INTO duty VALUES (1), (2)";
        run(&mut conn, on_duty).await.unwrap();
        run(&mut conn, db::FORGET).await.unwrap();
        drop(conn);
        let barrier = Arc::new(Barrier::new(2));
        let deliveries = [1, 2].map(|who| {
            let (pool, barrier) = (test.pool.clone(), Arc::clone(&barrier));
            tokio::spawn(async move { goes_off_duty(&pool, who, &barrier).await })
        });
        let mut went = 0;
        for delivery in deliveries {
            let outcome = delivery.await.unwrap().unwrap();
            went += i32::from(outcome == Outcome::Processed(true));
        }
        assert_eq!(went, 1, "round {round}");
        assert_eq!(test.number("SELECT count(*) FROM duty").await, 1);
        assert_eq!(test.claims().await, 2, "both were processed");
    }
    test.assert_pool_is_clean("duty").await;
}
