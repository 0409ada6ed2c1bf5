//! P2, P9: deliveries of one action under different ids at the same time, in every mixture.

use std::sync::Arc;

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::business_key::charge;
use super::*;

/// Delivers all pairs of an id and an action at once, each until it is acknowledged; how many were processed, and the errors.
async fn at_once(test: &Test, pairs: &[(String, String)]) -> (usize, Vec<Fail>) {
    let barrier = Arc::new(Barrier::new(pairs.len()));
    let mut deliveries = JoinSet::new();
    for (id, action) in pairs.iter().cloned() {
        let (pool, barrier) = (test.pool.clone(), Arc::clone(&barrier));
        deliveries.spawn(async move {
            let mut errors = Vec::new();
            barrier.wait().await;
            loop {
                match charge(&pool, Some(&id), &action, Body::Succeeds).await {
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
    for round in 0..20 {
        let action = format!("action {round}");
        let pairs: Vec<_> = (0..8)
            .map(|index| (format!("{round} {index}"), action.clone()))
            .collect();
        let (processed, errors) = at_once(&test, &pairs).await;
        assert_eq!(processed, 1, "{action}");
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(test.effects_of(&action).await, 1, "{action}");
    }
    assert_eq!(test.claims().await, 40);
    test.assert_pool_is_clean("raced").await;
}

/// (id1, A), (id2, B), (id1, B), (id2, A): whichever comes first, another one goes with it, and the rest are duplicates of the two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_crossing_ids_and_actions_at_once() {
    let test = Test::new(8).await;
    for round in 0..40 {
        // Ids before and behind the actions, as they are stored.
        let name = |what: &str| format!("{}{what}{round}", if round % 2 == 0 { "" } else { "~" });
        let pairs: Vec<_> = [("1", "A"), ("2", "B"), ("1", "B"), ("2", "A")]
            .iter()
            .cycle()
            .take(8)
            .map(|(id, action)| (name(id), name(action)))
            .collect();
        let (processed, errors) = at_once(&test, &idem_tests::shuffled(&pairs, round)).await;
        assert_eq!(processed, 2, "round {round}");
        assert!(errors.is_empty(), "round {round}: {errors:?}");
        for action in ["A", "B"] {
            assert_eq!(test.effects_of(&name(action)).await, 1, "round {round}");
        }
    }
    assert_eq!(test.claims().await, 160);
    test.assert_pool_is_clean("raced").await;
}
