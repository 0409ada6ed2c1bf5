//! Keys: two lists of parts are stored alike if and only if they are equal, and a bad one is an error.
#![no_main]

use idem_runtime::{InvalidKey, KafkaKey, Key, KeyWriter, MAX_KEY_BYTES, OptionalKey};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
enum Part<'a> {
    Text(&'a str),
    Number(i128),
    Bytes(&'a [u8]),
    Id(u128),
    Kafka(&'a str, i32, i64),
    Pair(Box<(Part<'a>, Part<'a>)>),
}

impl Key for Part<'_> {
    fn write(&self, key: &mut KeyWriter) {
        match self {
            Self::Text(text) => text.write(key),
            Self::Number(number) => number.write(key),
            Self::Bytes(bytes) => bytes.write(key),
            Self::Id(id) => uuid::Uuid::from_u128(*id).write(key),
            Self::Kafka(topic, partition, offset) => KafkaKey {
                topic,
                partition: *partition,
                offset: *offset,
            }
            .write(key),
            Self::Pair(pair) => pair.write(key),
        }
    }
}

impl Part<'_> {
    /// As people read them.
    fn texts(&self) -> Vec<String> {
        match self {
            Self::Text(text) => vec![(*text).to_owned()],
            Self::Number(number) => vec![number.to_string()],
            Self::Bytes(bytes) => vec![bytes.iter().map(|byte| format!("{byte:02x}")).collect()],
            Self::Id(id) => vec![uuid::Uuid::from_u128(*id).hyphenated().to_string()],
            Self::Kafka(topic, partition, offset) => {
                vec![
                    (*topic).to_owned(),
                    partition.to_string(),
                    offset.to_string(),
                ]
            }
            Self::Pair(pair) => [pair.0.texts(), pair.1.texts()].concat(),
        }
    }
}

fuzz_target!(|keys: (Part<'_>, Part<'_>)| {
    let (one, other) = keys;
    let (first, second) = (one.encode(), other.encode());
    for (part, encoded) in [(&one, &first), (&other, &second)] {
        let texts = part.texts();
        match encoded {
            Ok(encoded) => {
                assert!(encoded.is_some());
                assert!(
                    texts
                        .iter()
                        .all(|text| !text.is_empty() && !text.contains('\0'))
                );
            }
            Err(InvalidKey::Empty { part }) => assert!(texts[part - 1].is_empty()),
            Err(InvalidKey::Nul { at }) => {
                assert!(texts.iter().any(|text| text.find('\0') == Some(*at)));
            }
            Err(InvalidKey::TooLong { bytes }) => assert!(*bytes > MAX_KEY_BYTES),
            Err(_) => panic!("an error that is not known here"),
        }
    }
    if let (Ok(first), Ok(second)) = (first, second) {
        assert_eq!(first == second, one.texts() == other.texts());
    }
});
