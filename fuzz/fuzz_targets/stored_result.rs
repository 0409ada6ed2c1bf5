//! What stands in the column `result`, whoever wrote it: a value or an error; and a value comes back as it was stored.
#![no_main]

use std::collections::BTreeMap;
use std::fmt::Debug;

use idem_runtime::{InvalidValue, Replay};
use libfuzzer_sys::fuzz_target;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Value {
    Unit,
    Flag(bool),
    Signed(i64),
    Unsigned(u128),
    Text(String),
    Bytes(Vec<u8>),
    Maybe(Option<Box<Value>>),
    List(Vec<Value>),
    Named { one: Box<Value>, other: Option<u8> },
    Map(BTreeMap<String, Value>),
    Pair(char, (i8, String)),
}

fn try_as<T: Replay + PartialEq + Debug>(json: &str) {
    match T::decode(json) {
        Ok(value) => {
            let stored = value.encode();
            if matches!(stored, Err(InvalidValue::TooLong { .. })) {
                return;
            }
            let stored = stored.expect("what was JSON is JSON again");
            assert_eq!(T::decode(&stored).as_ref(), Ok(&value), "{stored}");
        }
        Err(fault) => assert!(!fault.to_string().is_empty()),
    }
}

fuzz_target!(|json: &str| {
    try_as::<Value>(json);
    try_as::<()>(json);
    try_as::<i64>(json);
    try_as::<Vec<Option<String>>>(json);
    try_as::<BTreeMap<u8, (char, bool)>>(json);
});
