//! P2, P9: deliveries of one action under different ids at the same time, in every mixture.

use std::sync::Arc;

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::business_key::charge;
use super::*;

/// In a transaction of the caller's, where nothing is tried again.
async fn join(pool: &Pool<Db>, id: &str, action: &str) -> Result<Outcome<u64>, Fail> {
    let mut outer = pool.begin().await?;
    let outcome = charge(&mut outer, Some(id), action, Body::Succeeds).await?;
    idem::commit(outer).await?;
    Ok(outcome)
}

/// Delivers all pairs of an id and an action at once, each until it is acknowledged; how many were processed, and the errors.
async fn at_once(test: &Test, pairs: &[(String, String)], joins: bool) -> (usize, Vec<Fail>) {
    let barrier = Arc::new(Barrier::new(pairs.len()));
    let mut deliveries = JoinSet::new();
    for pair in pairs {
        let (pool, barrier) = (test.pool.clone(), Arc::clone(&barrier));
        let (id, action) = pair.clone();
        deliveries.spawn(async move {
            let mut errors = Vec::new();
            barrier.wait().await;
            loop {
                let outcome = if joins {
                    join(&pool, &id, &action).await
                } else {
                    charge(&pool, Some(&id), &action, Body::Succeeds).await
                };
                match outcome {
                    Ok(outcome) => return (outcome.is_processed(), errors),
                    Err(error) => {
                        assert!(error.is_transient(), "{error:?}");
                        errors.push(error);
                    }
                }
            }
        });
    }
    let (mut processed, mut all_errors) = (0, Vec::new());
    while let Some(delivery) = deliveries.join_next().await {
        let (is_processed, errors) = delivery.unwrap();
        processed += usize::from(is_processed);
        all_errors.extend(errors);
    }
    (processed, all_errors)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_one_action_under_many_ids_at_once() {
    let test = Test::new(8).await;
    for round in 0..10 {
        let action = format!("action {round}");
        let pairs: Vec<_> = (0..8)
            .map(|index| (format!("{round} {index}"), action.clone()))
            .collect();
        let (processed, errors) = at_once(&test, &pairs, false).await;
        assert_eq!(processed, 1, "{action}");
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(test.effects_of(&action).await, 1, "{action}");
    }
    assert_eq!(test.claims().await, 10 * 9, "every id is kept");
    test.assert_pool_is_clean("raced").await;
}

/// Ids before and behind the actions, as they are stored.
fn name(round: u64, what: &str) -> String {
    format!(
        "{}{what}{round}",
        if round.is_multiple_of(2) { "" } else { "~" }
    )
}

/// Each id twice, and each action under two ids.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_two_actions_under_four_ids_at_once() {
    let test = Test::new(8).await;
    for round in 0..15 {
        let pairs: Vec<_> = [("1", "A"), ("2", "B"), ("3", "B"), ("4", "A")]
            .iter()
            .cycle()
            .take(8)
            .map(|(id, action)| (name(round, id), name(round, action)))
            .collect();
        let joins = round.is_multiple_of(3) && db::WIRE.is_some();
        let pairs = idem_tests::shuffled(&pairs, round);
        let (processed, errors) = at_once(&test, &pairs, joins).await;
        assert_eq!(processed, 2, "round {round}");
        assert!(errors.is_empty(), "round {round}: {errors:?}");
        for action in ["A", "B"] {
            assert_eq!(
                test.effects_of(&name(round, action)).await,
                1,
                "round {round}"
            );
        }
    }
    assert_eq!(test.claims().await, 15 * 6);
    test.assert_pool_is_clean("raced").await;
}

/// (id1, A), (id2, B), (id1, B), (id2, A): an id that asks for two actions is a duplicate for the second of them, so that one action may
/// be left out, but none is done twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_crossing_ids_and_actions_at_once() {
    let test = Test::new(8).await;
    for round in 0..15 {
        let pairs: Vec<_> = [("1", "A"), ("2", "B"), ("1", "B"), ("2", "A")]
            .iter()
            .cycle()
            .take(8)
            .map(|(id, action)| (name(round, id), name(round, action)))
            .collect();
        let (processed, errors) = at_once(&test, &idem_tests::shuffled(&pairs, round), false).await;
        assert!(errors.is_empty(), "round {round}: {errors:?}");
        let mut effects = 0;
        for action in ["A", "B"] {
            let of_action = test.effects_of(&name(round, action)).await;
            assert!(of_action <= 1, "round {round}: {action}");
            effects += usize::try_from(of_action).unwrap();
        }
        assert_eq!(effects, processed, "round {round}");
        assert!(processed > 0, "round {round}");
    }
    test.assert_pool_is_clean("raced").await;
}
