//! `fingerprint`: equal contents are one message, others are refused.

use std::collections::{BTreeMap, HashMap};

use idem::{Claimed, Delivery, Error};
use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::{cases, runtime, sqlite, text};

/// Few values, so that two of them are equal now and then.
fn content() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..3).prop_map(Value::from),
        (-2_i64..3).prop_map(|number| Value::from(number.to_string())),
        any::<u64>().prop_map(Value::from),
        text(2).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(text(1), inner, 0..3)
                .prop_map(|map| Value::from(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Whether the second delivery is taken for the first one's message.
async fn is_same(
    pool: &sqlx::SqlitePool,
    one: impl idem::Fingerprint,
    other: impl idem::Fingerprint,
) -> bool {
    let sql = "DELETE FROM processed_messages";
    sqlx::query(sql).execute(pool).await.unwrap();
    let delivery = Delivery::of("contents", "evt-1").fingerprint(one);
    let Claimed::Fresh(claim) = delivery.claim(pool).await.unwrap() else {
        panic!("the table was empty");
    };
    claim.commit().await.unwrap();
    let delivery = Delivery::of("contents", "evt-1").fingerprint(other);
    match delivery.claim(pool).await {
        Ok(Claimed::Duplicate) => true,
        Err(Error::Mismatch) => false,
        Ok(_) => panic!("it was claimed"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn p2_equal_contents_are_one_message_and_others_are_refused() {
    let runtime = runtime();
    let pool = runtime.block_on(sqlite());
    proptest!(cases(300), |(one in content(), other in content())| {
        prop_assert!(runtime.block_on(is_same(&pool, &one, &one.clone())));
        let same = runtime.block_on(is_same(&pool, &one, &other));
        prop_assert_eq!(same, one == other);
    });
}

#[test]
fn p2_the_order_of_a_map_does_not_matter() {
    let runtime = runtime();
    let pool = runtime.block_on(sqlite());
    proptest!(cases(100), |(map in prop::collection::btree_map(text(4), 0_u8..9, 0..12))| {
        let hashed: HashMap<&str, u8> = map.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let sorted: &BTreeMap<String, u8> = &map;
        prop_assert!(runtime.block_on(is_same(&pool, sorted, &hashed)));
    });
}
