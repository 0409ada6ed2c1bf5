//! Keys of any shape, and what is to become of them.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use idem::{InvalidKey, KafkaKey, Key, KeyWriter, MAX_KEY_BYTES};
use proptest::prelude::*;

use crate::text;

/// A key, made of the library's own ones.
#[derive(Debug, Clone)]
pub(crate) enum Tree {
    Text(String),
    Signed(i128),
    Unsigned(u64),
    Bytes(Vec<u8>),
    Id(u128),
    Kafka(String, i32, i64),
    Pair(Box<(Tree, Tree)>),
    Triple(Box<(Tree, Tree, Tree)>),
    Behind(u8, Arc<Tree>),
}

impl Key for Tree {
    fn write(&self, key: &mut KeyWriter) {
        match self {
            Self::Text(text) => text.write(key),
            Self::Signed(number) => number.write(key),
            Self::Unsigned(number) => number.write(key),
            Self::Bytes(bytes) => bytes.write(key),
            Self::Id(id) => uuid::Uuid::from_u128(*id).write(key),
            Self::Kafka(topic, partition, offset) => KafkaKey {
                topic,
                partition: *partition,
                offset: *offset,
            }
            .write(key),
            Self::Pair(pair) => pair.write(key),
            Self::Triple(triple) => triple.write(key),
            Self::Behind(0, tree) => tree.write(key),
            Self::Behind(1, tree) => Cow::Borrowed(&**tree).write(key),
            Self::Behind(2, tree) => Rc::new(&**tree).write(key),
            Self::Behind(_, tree) => (Box::new(&**tree),).write(key),
        }
    }
}

impl Tree {
    /// What identifies the message: the parts as people read them, written here without the library.
    pub(crate) fn parts(&self) -> Vec<String> {
        match self {
            Self::Text(text) => vec![text.clone()],
            Self::Signed(number) => vec![format!("{number}")],
            Self::Unsigned(number) => vec![format!("{number}")],
            Self::Bytes(bytes) => {
                let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                vec![digits.concat()]
            }
            Self::Id(id) => {
                let digits = format!("{id:032x}");
                let (a, b, c) = (&digits[..8], &digits[8..12], &digits[12..16]);
                vec![format!("{a}-{b}-{c}-{}-{}", &digits[16..20], &digits[20..])]
            }
            Self::Kafka(topic, partition, offset) => {
                vec![topic.clone(), format!("{partition}"), format!("{offset}")]
            }
            Self::Pair(pair) => [pair.0.parts(), pair.1.parts()].concat(),
            Self::Triple(triple) => [triple.0.parts(), triple.1.parts(), triple.2.parts()].concat(),
            Self::Behind(_, tree) => tree.parts(),
        }
    }
}

/// Why parts are no key, if they are none.
pub(crate) fn fault(parts: &[String]) -> Option<InvalidKey> {
    let of_a_part = parts.iter().zip(1..).find_map(|(part, number)| {
        if part.is_empty() {
            return Some(InvalidKey::Empty { part: number });
        }
        let at = part.find('\0')?;
        Some(InvalidKey::Nul { at })
    });
    let escapes = |part: &String| part.matches(['|', '\\']).count();
    let bytes = parts
        .iter()
        .map(|part| part.len() + escapes(part) + 1)
        .sum::<usize>()
        .saturating_sub(1);
    of_a_part.or((bytes > MAX_KEY_BYTES).then_some(InvalidKey::TooLong { bytes }))
}

/// Reads a stored key back. That this can be done at all is what makes two keys two.
pub(crate) fn read(stored: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = stored.chars();
    while let Some(c) = characters.next() {
        if c == '|' {
            parts.push(String::new());
            continue;
        }
        let c = if c == '\\' {
            characters.next().expect("an escape escapes something")
        } else {
            c
        };
        parts.last_mut().unwrap().push(c);
    }
    parts
}

/// A key of any shape; mostly a valid one.
pub(crate) fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        8 => text(12).prop_map(Tree::Text),
        1 => text(600).prop_map(Tree::Text),
        1 => any::<i128>().prop_map(Tree::Signed),
        2 => (-12_i128..12).prop_map(Tree::Signed),
        2 => any::<u64>().prop_map(Tree::Unsigned),
        2 => prop::collection::vec(any::<u8>(), 0..20).prop_map(Tree::Bytes),
        1 => any::<u128>().prop_map(Tree::Id),
        1 => (text(8), any::<i32>(), any::<i64>()).prop_map(|(t, p, o)| Tree::Kafka(t, p, o)),
    ];
    leaf.prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|pair| Tree::Pair(Box::new(pair))),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|triple| Tree::Triple(Box::new(triple))),
            (0_u8..4, inner).prop_map(|(how, tree)| Tree::Behind(how, Arc::new(tree))),
        ]
    })
}

/// Two lists of short parts over few characters, which an encoding that is not injective would take for each other.
pub(crate) fn near() -> impl Strategy<Value = [Vec<String>; 2]> {
    let part = prop::collection::vec(prop::sample::select(vec!['|', '\\', 'a']), 1..4)
        .prop_map(String::from_iter);
    let parts = prop::collection::vec(part, 1..4);
    [parts.clone(), parts]
}
