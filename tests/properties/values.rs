//! `replay`: a duplicate gets the value that the first delivery returned, whatever that is, and whatever stands in the table is a value or an
//! error.

use std::collections::BTreeMap;

use idem::{Error, InvalidValue, Outcome, idempotent};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;

use crate::{cases, runtime, sqlite, text};

/// What a handler may return.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Value {
    Unit,
    Flag(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    Maybe(Option<Box<Value>>),
    List(Vec<Value>),
    Named { one: Box<Value>, other: Option<u8> },
    Map(BTreeMap<String, Value>),
    Pair(char, (i8, String)),
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Unit),
        any::<bool>().prop_map(Value::Flag),
        any::<i64>().prop_map(Value::Signed),
        any::<u64>().prop_map(Value::Unsigned),
        any::<f64>()
            .prop_filter("JSON has no others", |float| float.is_finite())
            .prop_map(Value::Float),
        text(30).prop_map(Value::Text),
        prop::collection::vec(any::<u8>(), 0..30).prop_map(Value::Bytes),
        (any::<char>(), any::<i8>(), text(5)).prop_map(|(c, i, s)| Value::Pair(c, (i, s))),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::option::of(inner.clone().prop_map(Box::new)).prop_map(Value::Maybe),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            (inner.clone().prop_map(Box::new), any::<Option<u8>>())
                .prop_map(|(one, other)| Value::Named { one, other }),
            prop::collection::btree_map(text(8), inner, 0..4).prop_map(Value::Map),
        ]
    })
}

#[idempotent(key = "message", consumer = "values", replay)]
async fn returns<T>(tx: &mut SqliteConnection, message: &str, value: Option<T>) -> Result<T, Error>
where
    T: Serialize + serde::de::DeserializeOwned + Send,
{
    let _ = tx;
    Ok(value.expect("the body runs once"))
}

async fn forget(pool: &sqlx::SqlitePool) {
    let sql = "DELETE FROM processed_messages";
    sqlx::query(sql).execute(pool).await.unwrap();
}

#[test]
fn p2_a_duplicate_gets_the_very_value() {
    let runtime = runtime();
    let pool = runtime.block_on(sqlite());
    proptest!(cases(300), |(value in value())| {
        runtime.block_on(async {
            forget(&pool).await;
            let first = returns(&pool, "evt-1", Some(value.clone())).await.unwrap();
            assert_eq!(first, Outcome::Processed(value.clone()));
            let second = returns(&pool, "evt-1", None).await.unwrap();
            assert_eq!(second, Outcome::Replayed(value));
        });
    });
}

/// JSON that is cut or changed somewhere, and things that never were JSON.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let cut = (value(), any::<prop::sample::Index>()).prop_map(|(value, at)| {
        let mut json = serde_json::to_vec(&value).unwrap();
        json.truncate(at.index(json.len()));
        json
    });
    let changed =
        (value(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(value, at, byte)| {
            let mut json = serde_json::to_vec(&value).unwrap();
            let at = at.index(json.len());
            json[at] = byte;
            json
        });
    prop_oneof![
        cut,
        changed,
        text(30).prop_map(String::into_bytes),
        (1_usize..30_000).prop_map(|depth| "[".repeat(depth).into_bytes()),
        (1_usize..5_000).prop_map(|depth| format!(
            "{}{}",
            "{\"List\":[".repeat(depth),
            "]}".repeat(depth)
        )
        .into_bytes()),
        prop::collection::vec(any::<u8>(), 0..30),
    ]
}

#[test]
fn p4_whatever_is_stored_is_a_value_or_an_error_and_no_second_run() {
    let runtime = runtime();
    let pool = runtime.block_on(sqlite());
    let first = runtime.block_on(returns(&pool, "evt-1", Some(Value::Unit)));
    assert!(first.unwrap().is_processed());
    proptest!(cases(400), |(garbage in garbage(), is_text in any::<bool>())| {
        runtime.block_on(async {
            let update = if is_text && let Ok(text) = String::from_utf8(garbage.clone()) {
                sqlx::query("UPDATE processed_messages SET result = ?").bind(text)
            } else {
                sqlx::query("UPDATE processed_messages SET result = ?").bind(garbage.clone())
            };
            update.execute(&pool).await.unwrap();
            match returns::<Value>(&pool, "evt-1", None).await {
                Ok(Outcome::Replayed(value)) => {
                    let meant: Value = serde_json::from_slice(&garbage).unwrap();
                    assert_eq!(value, meant);
                }
                Ok(outcome) => panic!("{outcome:?}"),
                Err(error) => assert!(!error.is_transient(), "{error:?}"),
            }
        });
    });
}

#[test]
fn p4_a_value_of_another_type_is_an_error() {
    let runtime = runtime();
    let pool = runtime.block_on(sqlite());
    proptest!(cases(100), |(value in value())| {
        runtime.block_on(async {
            forget(&pool).await;
            let _ = returns(&pool, "evt-1", Some(value)).await.unwrap();
            let other = returns::<[i32; 3]>(&pool, "evt-1", None).await;
            assert!(matches!(other, Err(Error::InvalidValue(InvalidValue::Decode { .. }))), "{other:?}");
        });
    });
}
