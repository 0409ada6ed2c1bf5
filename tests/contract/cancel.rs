//! P5: a delivery is dropped after every number of polls, with the answer it waited for still to come or already there. What it leaves
//! behind is proven, and the redelivery has the effect once.

use std::time::Duration;

use idem_tests::poll_times;

use super::*;

/// Drops the future after so many polls; `true` if it was done before.
async fn is_done_within<F: Future>(polls: usize, answered: bool, future: F) -> bool {
    let mut future = Box::pin(future);
    let done = poll_times(polls, future.as_mut()).await.is_some();
    if answered && !done {
        // The answer arrives, but nobody reads it.
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    done
}

/// Runs `cancel` with every number of polls until the delivery is done within them.
async fn at_every_await<C>(mut cancel: C)
where
    C: AsyncFnMut(Form, usize, bool, String) -> bool,
{
    for form in FORMS {
        for answered in [false, true] {
            let mut polls = 0;
            loop {
                let message = format!("{form:?} {answered} {polls}");
                if cancel(form, polls, answered, message).await {
                    break;
                }
                polls += 1;
                assert!(polls < 500, "a delivery has an end");
            }
            assert!(polls >= db::WAITS, "cancelled at {polls} places only");
        }
    }
}

#[tokio::test]
async fn p5_cancelled_on_a_pool() {
    let test = Test::slow(1).await;
    at_every_await(async |form, polls, answered, message| {
        let delivery = deliver(form, &test.pool, &message, Body::Succeeds);
        let done = is_done_within(polls, answered, delivery).await;
        test.assert_pool_is_clean(&message).await;
        test.assert_all_or_nothing(&message).await;
        let again = deliver(form, &test.pool, &message, Body::Succeeds).await;
        assert!(again.is_ok(), "{message}: {again:?}");
        assert_eq!(test.effects_of(&message).await, 1, "{message}");
        done
    })
    .await;
}

#[tokio::test]
async fn p5_cancelled_on_a_failing_body() {
    let test = Test::slow(1).await;
    at_every_await(async |form, polls, answered, message| {
        let delivery = deliver(form, &test.pool, &message, Body::Fails);
        let done = is_done_within(polls, answered, delivery).await;
        test.assert_pool_is_clean(&message).await;
        assert_eq!(test.effects_of(&message).await, 0, "{message}");
        done
    })
    .await;
    assert_eq!(test.claims().await, 0);
}

#[tokio::test]
async fn p5_cancelled_on_a_duplicate() {
    let test = Test::slow(1).await;
    at_every_await(async |form, polls, answered, message| {
        let _ = deliver(form, &test.pool, &message, Body::Succeeds)
            .await
            .unwrap();
        let delivery = deliver(form, &test.pool, &message, Body::Panics);
        let done = is_done_within(polls, answered, delivery).await;
        test.assert_pool_is_clean(&message).await;
        assert_eq!(test.effects_of(&message).await, 1, "{message}");
        done
    })
    .await;
}

/// What is held comes from a pool, and goes back to it.
#[tokio::test]
async fn p5_cancelled_on_a_held_connection_of_a_pool() {
    let test = Test::slow(1).await;
    at_every_await(async |form, polls, answered, message| {
        let mut held = test.pool.acquire().await.unwrap();
        let delivery = deliver(form, &mut held, &message, Body::Succeeds);
        let done = is_done_within(polls, answered, delivery).await;
        drop(held);
        test.assert_pool_is_clean(&message).await;
        test.assert_all_or_nothing(&message).await;
        let again = deliver(form, &test.pool, &message, Body::Succeeds).await;
        assert!(again.is_ok(), "{message}: {again:?}");
        assert_eq!(test.effects_of(&message).await, 1, "{message}");
        done
    })
    .await;
}

/// The library cannot close it. The next delivery on it is unharmed, and leaves it clean; on MySQL its owner has to close it.
#[tokio::test]
async fn p5_cancelled_on_a_plain_connection() {
    let test = Test::slow(1).await;
    at_every_await(async |form, polls, answered, message| {
        let mut held = test.pool.acquire().await.unwrap();
        let delivery = deliver(form, &mut *held, &message, Body::Succeeds);
        let done = is_done_within(polls, answered, delivery).await;
        if db::CANCELLED_IS_UNUSABLE && !done {
            held.close_on_drop();
            drop(held);
            held = test.pool.acquire().await.unwrap();
        }
        let again = deliver(form, &mut *held, &message, Body::Succeeds).await;
        assert!(again.is_ok(), "{message}: {again:?}");
        drop(held);
        test.assert_pool_is_clean(&message).await;
        assert_eq!(test.effects_of(&message).await, 1, "{message}");
        done
    })
    .await;
}

/// The outer transaction is as it was, or says that it is not.
#[tokio::test]
async fn p5_cancelled_in_an_outer_transaction() {
    let test = Test::slow(1).await;
    at_every_await(async |form, polls, answered, message| {
        let mut held = test.pool.acquire().await.unwrap();
        let mut outer = sqlx::Connection::begin(&mut *held).await.unwrap();
        effect(&mut outer, &format!("before {message}"))
            .await
            .unwrap();
        let delivery = deliver(form, &mut outer, &message, Body::Succeeds);
        let done = is_done_within(polls, answered, delivery).await;
        let is_unusable = db::CANCELLED_IS_UNUSABLE && !done;
        if is_unusable
            || effect(&mut outer, &format!("after {message}"))
                .await
                .is_err()
        {
            assert!(!done, "{message}");
            drop(outer);
            if is_unusable {
                held.close_on_drop();
            }
            drop(held);
            test.assert_pool_is_clean(&message).await;
            for part in ["", "before "] {
                let effects = test.effects_of(&format!("{part}{message}")).await;
                assert_eq!(effects, 0, "{part}{message}: all of it is undone");
            }
            assert!(
                deliver(form, &test.pool, &message, Body::Succeeds)
                    .await
                    .is_ok()
            );
            return false;
        }
        assert_eq!(
            test.effects_of(&format!("before {message}")).await,
            0,
            "{message}: still open"
        );
        idem::commit(outer).await.unwrap();
        drop(held);
        test.assert_pool_is_clean(&message).await;
        for part in ["before", "after"] {
            let effects = test.effects_of(&format!("{part} {message}")).await;
            assert_eq!(effects, 1, "{part} {message}");
        }
        test.assert_all_or_nothing(&message).await;
        let again = deliver(form, &test.pool, &message, Body::Succeeds).await;
        assert!(again.is_ok(), "{message}: {again:?}");
        assert_eq!(test.effects_of(&message).await, 1, "{message}");
        done
    })
    .await;
}

/// A delivery that was rolled back leaves the name of its savepoint behind on PostgreSQL. The end of another one, dropped half-way, must
/// not go back to that, and undo what was delivered in between.
#[tokio::test]
async fn p5_cancelled_in_an_outer_transaction_does_not_undo_others() {
    let test = Test::slow(1).await;
    let known = on_connection(&test.pool, "known", Body::Succeeds).await;
    assert!(known.unwrap().is_processed());
    at_every_await(async |form, polls, answered, message| {
        let mut held = test.pool.acquire().await.unwrap();
        let mut outer = sqlx::Connection::begin(&mut *held).await.unwrap();
        let duplicate = deliver(form, &mut outer, "known", Body::Panics).await;
        assert_eq!(duplicate.unwrap(), Outcome::Duplicate, "{message}");
        let other = format!("other {message}");
        let outcome = deliver(form, &mut outer, &other, Body::Succeeds).await;
        assert!(outcome.unwrap().is_processed(), "{message}");
        let delivery = deliver(form, &mut outer, &message, Body::Succeeds);
        let done = is_done_within(polls, answered, delivery).await;
        if db::CANCELLED_IS_UNUSABLE && !done {
            drop(outer);
            held.close_on_drop();
            return false;
        }
        let committed = idem::commit(outer).await;
        assert!(committed.is_ok() || !done, "{message}: {committed:?}");
        drop(held);
        test.assert_pool_is_clean(&message).await;
        let effects = test.effects_of(&other).await;
        assert_eq!(effects, i64::from(committed.is_ok()), "{message}");
        test.assert_all_or_nothing(&message).await;
        done
    })
    .await;
}
