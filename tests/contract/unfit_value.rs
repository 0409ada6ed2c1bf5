//! P1, P4: values that cannot be stored, or be given back, or that must not be.

use idem::{InvalidValue, MAX_VALUE_BYTES};

use super::by_hand::{WAYS, Way};
use super::replay::{deliver, issue, receipt};
use super::*;

/// A handler whose value has another type than the one before.
#[idempotent(key = "message", consumer = "billing", replay)]
async fn of_another_type(#[tx] tx: &mut Conn, message: &str) -> Result<Vec<u8>, Fail> {
    let _ = (tx, message);
    panic!("the body does not run")
}

#[idempotent(key = "message", consumer = "billing", replay)]
async fn long(#[tx] tx: &mut Conn, message: &str, value: String) -> Result<String, Fail> {
    effect(tx, message).await?;
    Ok(value)
}

#[tokio::test]
async fn p4_a_stored_value_of_another_type_is_a_permanent_error() {
    let test = Test::new(1).await;
    let _ = issue(&test.pool, "evt-1", receipt(1)).await.unwrap();
    for way in WAYS {
        let result = if way == Way::Attribute {
            of_another_type(&test.pool, "evt-1").await
        } else {
            let delivery = db::of("billing", "evt-1");
            deliver(way, &test.pool, delivery, "evt-1", vec![1_u8]).await
        };
        let error = result.unwrap_err();
        assert!(!error.is_transient(), "{error:?}");
        assert!(error.to_string().contains("Vec<u8>"), "{error}");
        let Fail::Delivery(Error::InvalidValue(InvalidValue::Decode { type_name, .. })) = error
        else {
            panic!("{way:?}: {error:?}");
        };
        assert!(type_name.contains("Vec<u8>"), "{type_name}");
        test.assert_pool_is_clean("another type").await;
    }
    assert_eq!(test.effects_of("evt-1").await, 1);
    let again = issue(&test.pool, "evt-1", receipt(2)).await.unwrap();
    assert_eq!(again, Outcome::Replayed(receipt(1)), "it is still there");
}

#[tokio::test]
async fn p1_a_value_that_is_too_long_undoes_the_delivery() {
    let test = Test::new(1).await;
    // As JSON it has quotes; of two and four bytes, to be counted in bytes.
    let longest = |filler: &str| filler.repeat((MAX_VALUE_BYTES - 2) / filler.len());
    for way in WAYS {
        for filler in ["a", "é", "\0"] {
            let message = format!("{way:?} {filler:?}");
            let run = async |value: String| {
                if way == Way::Attribute {
                    return long(&test.pool, &message, value).await;
                }
                let delivery = db::of("billing", message.as_str());
                deliver(way, &test.pool, delivery, &message, value).await
            };
            // A NUL is `\u0000` in JSON.
            let mut value = longest(if filler == "\0" { "123456" } else { filler });
            if filler == "\0" {
                value = filler.repeat(value.len() / 6);
            }
            while serde_json::to_string(&value).unwrap().len() < MAX_VALUE_BYTES {
                value.push('a');
            }
            let error = run(format!("{value}a")).await.unwrap_err();
            assert!(!error.is_transient());
            assert!(
                matches!(
                    error,
                    Fail::Delivery(Error::InvalidValue(InvalidValue::TooLong { bytes }))
                        if bytes == MAX_VALUE_BYTES + 1
                ),
                "{message}: {error:?}"
            );
            test.assert_all_or_nothing(&message).await;
            assert_eq!(test.effects_of(&message).await, 0, "{message}");
            test.assert_pool_is_clean(&message).await;
            let outcome = run(value.clone()).await.unwrap();
            assert!(outcome.is_processed(), "{message}: it runs again");
            let outcome = run(String::new()).await.unwrap();
            assert_eq!(outcome, Outcome::Replayed(value), "{message}");
        }
    }
}

#[idempotent(key = "message", consumer = "billing", replay)]
async fn measure(#[tx] tx: &mut Conn, message: &str, value: f64) -> Result<f64, Fail> {
    effect(tx, message).await?;
    Ok(value)
}

/// JSON writes it as `null`.
#[tokio::test]
async fn p1_a_value_that_would_not_come_back_undoes_the_delivery() {
    let test = Test::new(1).await;
    for way in WAYS {
        for value in [f64::NAN, f64::INFINITY] {
            let message = format!("{way:?} {value}");
            let run = async |value: f64| {
                if way == Way::Attribute {
                    return measure(&test.pool, &message, value).await;
                }
                let delivery = db::of("billing", message.as_str());
                deliver(way, &test.pool, delivery, &message, value).await
            };
            let error = run(value).await.unwrap_err();
            assert!(!error.is_transient());
            assert!(
                error.to_string().contains("its JSON is no `f64`"),
                "{error}"
            );
            assert!(
                matches!(
                    error,
                    Fail::Delivery(Error::InvalidValue(InvalidValue::Unreadable { .. }))
                ),
                "{message}: {error:?}"
            );
            assert_eq!(test.effects_of(&message).await, 0, "{message}");
            test.assert_pool_is_clean(&message).await;
            // Its last digit is lost without `float_roundtrip`.
            let float = 8.235_926_741_771_318e49;
            assert!(run(float).await.unwrap().is_processed(), "{message}");
            let Outcome::Replayed(again) = run(0.0).await.unwrap() else {
                panic!("{message}: it is there");
            };
            assert_eq!(again.to_bits(), float.to_bits(), "{message}");
        }
    }
}

/// Ends its transaction by hand; meanwhile another worker processes the message, and then it returns `Ok`.
#[idempotent(key = "message", consumer = "billing", replay, allow_pool)]
async fn loses_its_transaction(
    #[tx] tx: &mut Conn,
    message: &str,
    others: &Pool<Db>,
    replays: bool,
) -> Result<i64, Fail> {
    run(tx, "ROLLBACK").await?;
    let outcome = if replays {
        let delivery = db::of("billing", message);
        deliver(Way::Once, others, delivery, message, 2_i64).await?
    } else {
        on_connection(others, message, Body::Succeeds)
            .await?
            .map(|_| 2)
    };
    assert_eq!(outcome, Outcome::Processed(2));
    Ok(1)
}

/// Its claim is the other worker's by now, and so is the value.
#[tokio::test]
async fn p1_a_run_that_lost_its_transaction_stores_no_value() {
    let test = Test::new(1).await;
    let others = test.fixture.pool(1).await;
    for replays in [true, false] {
        let message = format!("{replays}");
        let result = loses_its_transaction(&test.pool, &message, &others, replays).await;
        let error = result.unwrap_err();
        assert!(
            matches!(error, Fail::Delivery(Error::TransactionLost(_))),
            "{message}: {error:?}"
        );
        test.assert_pool_is_clean(&message).await;
        assert_eq!(test.effects_of(&message).await, 1, "{message}");
        let delivery = db::of("billing", message.as_str());
        let again = deliver(Way::Once, &test.pool, delivery, &message, 3_i64).await;
        let expected = if replays {
            Outcome::Replayed(2)
        } else {
            Outcome::Duplicate
        };
        assert_eq!(again.unwrap(), expected, "{message}");
    }
}

/// A value of one version would stand in the way of the next, and one of a batch would belong to none of its messages.
#[tokio::test]
async fn p4_a_claim_without_a_place_for_a_value_takes_none() {
    let test = Test::new(1).await;
    for version in [1, 2] {
        let delivery = Delivery::of("billing", "aggregate").version(version);
        let Claimed::Fresh(claim) = delivery.claim(&test.pool).await.unwrap() else {
            panic!("it is new");
        };
        let error = claim.commit_with(&7).await.unwrap_err();
        assert!(matches!(error, Error::Combination(_)), "{error:?}");
        assert!(!error.is_transient());
    }
    let mut batch = db::batch("billing");
    db::push(&mut batch, "evt-1");
    let claim = batch.claim(&test.pool).await.unwrap().claim.unwrap();
    let error = claim.commit_with(&7).await.unwrap_err();
    assert!(matches!(error, Error::Combination(_)), "{error:?}");
    assert_eq!(test.claims().await, 0, "all were rolled back");
    test.assert_pool_is_clean("refused").await;
}
