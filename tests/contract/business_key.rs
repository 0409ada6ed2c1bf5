//! P2, P7: messages that ask for the same action under ids of their own.

use idem::{InvalidKey, MAX_KEY_BYTES};

use super::by_hand::{WAYS, Way};
use super::*;

#[idempotent(key = "id", consumer = "billing", business_key = "action")]
pub(crate) async fn charge(
    #[tx] tx: &mut Conn,
    id: Option<&str>,
    action: &str,
    body: Body,
) -> Result<u64, Fail> {
    let _ = id;
    effect(tx, action).await?;
    body.end()
}

/// The effect is that of the action.
async fn deliver<'c>(
    way: Way,
    source: impl idem::Source<'c, Database = Db>,
    id: Option<&str>,
    action: &str,
    body: Body,
) -> Result<Outcome<u64>, Fail> {
    if way == Way::Attribute {
        return charge(source, id, action, body).await;
    }
    let delivery = db::with_business_key("billing", id, action);
    way.deliver(source, delivery, action, body).await
}

#[tokio::test]
async fn p2_an_equal_id_or_an_equal_action_is_a_duplicate() {
    for first in WAYS {
        for second in WAYS {
            let test = Test::new(1).await;
            let what = format!("{first:?}, {second:?}");
            let outcome = deliver(first, &test.pool, Some("id1"), "A", Body::Succeeds).await;
            assert_eq!(outcome.unwrap(), Outcome::Processed(7), "{what}");
            assert_eq!(test.claims().await, 2, "{what}: both are claimed");
            for (id, action, claims) in [
                ("id1", "A", 2),
                // The id of a duplicate by its action is kept, for its own redeliveries.
                ("id2", "A", 3),
                // The action of a duplicate by its id is not: nobody has done it.
                ("id1", "B", 3),
                ("id2", "A", 3),
                ("id2", "B", 3),
            ] {
                let outcome = deliver(second, &test.pool, Some(id), action, Body::Panics).await;
                assert_eq!(
                    outcome.unwrap(),
                    Outcome::Duplicate,
                    "{what}: {id} {action}"
                );
                assert_eq!(test.claims().await, claims, "{what}: {id} {action}");
                test.assert_pool_is_clean(&what).await;
            }
            let outcome = deliver(second, &test.pool, Some("id3"), "B", Body::Succeeds).await;
            assert_eq!(outcome.unwrap(), Outcome::Processed(7), "{what}");
            // Without a business key, only the id counts.
            for id in ["id1", "id2", "id3"] {
                let outcome = on_connection(&test.pool, id, Body::Panics).await;
                assert_eq!(outcome.unwrap(), Outcome::Duplicate, "{what}: {id}");
            }
            for action in ["A", "B"] {
                assert_eq!(test.effects_of(action).await, 1, "{what}: {action}");
            }
            assert_eq!(test.claims().await, 5, "{what}");
        }
    }
}

/// Also where the connection is held, and where it is joined and the outer transaction is rolled back.
#[tokio::test]
async fn p1_the_kept_id_is_committed_with_its_source() {
    for way in WAYS {
        let test = Test::new(2).await;
        let _ = deliver(way, &test.pool, None, "A", Body::Succeeds)
            .await
            .unwrap();
        let mut held = test.pool.acquire().await.unwrap();
        let outcome = deliver(way, &mut *held, Some("held"), "A", Body::Panics).await;
        assert_eq!(outcome.unwrap(), Outcome::Duplicate, "{way:?}");
        // It is left in no transaction.
        effect(&mut held, "probe").await.unwrap();
        assert_eq!(test.effects_of("probe").await, 1);
        assert_eq!(test.claims().await, 2, "{way:?}");
        let mut outer = sqlx::Connection::begin(&mut *held).await.unwrap();
        let outcome = deliver(way, &mut outer, Some("joined"), "A", Body::Panics).await;
        assert_eq!(outcome.unwrap(), Outcome::Duplicate, "{way:?}");
        outer.rollback().await.unwrap();
        assert_eq!(test.claims().await, 2, "{way:?}");
        drop(held);
        test.assert_pool_is_clean("kept").await;
    }
}

#[tokio::test]
async fn p8_another_consumer_has_its_own_actions() {
    let test = Test::new(1).await;
    for consumer in ["billing", "shipping"] {
        let delivery = db::with_business_key(consumer, "id1", "A");
        let outcome = Way::Once.deliver(&test.pool, delivery, "A", Body::Succeeds);
        assert_eq!(outcome.await.unwrap(), Outcome::Processed(7), "{consumer}");
    }
    assert_eq!(test.claims().await, 4);
}

#[tokio::test]
async fn p7_an_id_is_never_an_action() {
    for way in WAYS {
        let test = Test::new(1).await;
        for (id, action) in [
            ("X", "A"),
            // The action's text, its stored form, and forms near to that.
            ("A", "B"),
            ("|A", "C"),
            ("||A", "D"),
            ("\\|A", "E"),
            // An action that is the id of another message.
            ("Y", "X"),
            ("Z", "|A"),
        ] {
            let outcome = deliver(way, &test.pool, Some(id), action, Body::Succeeds).await;
            assert_eq!(
                outcome.unwrap(),
                Outcome::Processed(7),
                "{way:?} {id} {action}"
            );
        }
        for id in ["A-", "|B", "C", "|", "||"] {
            let outcome = on_connection(&test.pool, id, Body::Succeeds).await;
            assert_eq!(outcome.unwrap(), Outcome::Processed(7), "{way:?} {id}");
        }
        assert_eq!(test.claims().await, 14 + 5, "{way:?}");
    }
}

#[tokio::test]
async fn p7_composite_keys() {
    let test = Test::new(1).await;
    let deliver = async |id: (&str, u32), action: (&str, &str)| {
        let delivery = db::with_business_key("billing", Some(id), action);
        let outcome = Way::Once.deliver(&test.pool, delivery, "effect", Body::Succeeds);
        outcome.await.unwrap()
    };
    let new = Outcome::Processed(7);
    assert_eq!(deliver(("a", 1), ("order", "charge")).await, new);
    assert_eq!(deliver(("a", 2), ("order", "refund")).await, new);
    assert_eq!(deliver(("a", 3), ("orderc", "harge")).await, new);
    assert_eq!(deliver(("order", 4), ("a", "1")).await, new);
    assert_eq!(
        deliver(("a", 5), ("order", "charge")).await,
        Outcome::Duplicate
    );
    assert_eq!(
        deliver(("a", 1), ("order", "other")).await,
        Outcome::Duplicate
    );
}

#[tokio::test]
async fn p2_without_an_id_the_action_decides() {
    for way in WAYS {
        let test = Test::new(1).await;
        for (id, action, expected) in [
            (None, "A", Outcome::Processed(7)),
            (None, "A", Outcome::Duplicate),
            (None, "B", Outcome::Processed(7)),
            (Some("id1"), "A", Outcome::Duplicate),
            (Some("id1"), "C", Outcome::Duplicate),
            (Some("id2"), "C", Outcome::Processed(7)),
            (None, "C", Outcome::Duplicate),
        ] {
            let outcome = deliver(way, &test.pool, id, action, Body::Succeeds).await;
            assert_eq!(outcome.unwrap(), expected, "{way:?} {id:?} {action}");
        }
        assert_eq!(test.claims().await, 5, "{way:?}: no row for a missing id");
    }
}

#[tokio::test]
async fn p1_an_error_of_the_body_frees_both() {
    for way in WAYS {
        let test = Test::new(1).await;
        for held in [false, true] {
            let failed = if held {
                let mut conn = test.pool.acquire().await.unwrap();
                deliver(way, &mut conn, Some("id1"), "A", Body::Fails).await
            } else {
                deliver(way, &test.pool, Some("id1"), "A", Body::Fails).await
            };
            assert!(matches!(failed, Err(Fail::Refused)), "{failed:?}");
            assert_eq!(test.claims().await, 0, "{way:?}");
            test.assert_pool_is_clean("failed").await;
        }
        for (id, action) in [("id1", "B"), ("id2", "A")] {
            let outcome = deliver(way, &test.pool, Some(id), action, Body::Succeeds).await;
            assert_eq!(outcome.unwrap(), Outcome::Processed(7), "{way:?} {id}");
            assert_eq!(test.effects_of(action).await, 1, "{way:?} {action}");
        }
    }
}

#[tokio::test]
async fn p1_both_in_an_outer_transaction() {
    for way in WAYS {
        let test = Test::new(1).await;
        let mut outer = test.pool.begin().await.unwrap();
        for (id, action, body, expected) in [
            ("id1", "A", Body::Fails, None),
            ("id1", "A", Body::Succeeds, Some(Outcome::Processed(7))),
            ("id2", "A", Body::Panics, Some(Outcome::Duplicate)),
            ("id1", "B", Body::Panics, Some(Outcome::Duplicate)),
            ("id3", "B", Body::Succeeds, Some(Outcome::Processed(7))),
        ] {
            let outcome = deliver(way, &mut outer, Some(id), action, body).await;
            assert_eq!(outcome.ok(), expected, "{way:?} {id} {action}");
        }
        idem::commit(outer).await.unwrap();
        assert_eq!(test.claims().await, 5, "{way:?}");
        test.assert_pool_is_clean("joined").await;
    }
}

#[tokio::test]
async fn p7_a_bad_key_of_either_kind_is_found_before_a_connection_is_taken() {
    let test = Test::new(1).await;
    let longest = "k".repeat(MAX_KEY_BYTES - 1);
    for way in WAYS {
        let id = format!("{way:?}");
        let action = format!(
            "{longest:.1022}{}",
            WAYS.iter().position(|w| *w == way).unwrap()
        );
        assert_eq!(action.len(), MAX_KEY_BYTES - 1, "its mark takes a byte");
        let outcome = deliver(way, &test.pool, Some(&id), &action, Body::Succeeds).await;
        assert_eq!(outcome.unwrap(), Outcome::Processed(7), "{way:?}");
    }
    test.pool.close().await;
    let too_long = "k".repeat(MAX_KEY_BYTES);
    for way in WAYS {
        for (id, action) in [
            (Some("id"), too_long.as_str()),
            (None, &too_long),
            (Some("id"), ""),
            (None, "nul\0"),
            (Some(""), "A"),
            (Some("nul\0"), "A"),
        ] {
            let result = deliver(way, &test.pool, id, action, Body::Panics).await;
            let error = result.unwrap_err();
            assert!(!error.is_transient());
            let Fail::Delivery(Error::InvalidKey(invalid)) = error else {
                panic!("{way:?} {id:?} {action}: {error:?}");
            };
            let is_too_long = invalid == InvalidKey::TooLong { bytes: 1025 };
            assert_eq!(is_too_long, action == too_long, "{invalid:?}");
        }
    }
}
