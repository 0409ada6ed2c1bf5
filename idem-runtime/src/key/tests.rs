use super::*;
use std::collections::HashMap;

fn stored<K: Key>(key: K) -> Result<String, InvalidKey> {
    EncodedKey::new(&key).map(|key| key.0)
}

#[test]
fn simple_keys_are_stored_as_they_read() {
    assert_eq!(stored("evt-1").as_deref(), Ok("evt-1"));
    assert_eq!(stored(String::from("a b ")).as_deref(), Ok("a b "));
    assert_eq!(stored(-5_i64).as_deref(), Ok("-5"));
    assert_eq!(
        stored(u128::MAX).as_deref(),
        Ok("340282366920938463463374607431768211455")
    );
    assert_eq!(stored([0_u8, 255, 16]).as_deref(), Ok("00ff10"));
    assert_eq!(stored(Cow::Borrowed("evt")).as_deref(), Ok("evt"));
    assert_eq!(stored(Arc::<str>::from("evt")).as_deref(), Ok("evt"));
    let kafka = KafkaKey {
        topic: "orders",
        partition: 3,
        offset: 42,
    };
    assert_eq!(stored(kafka).as_deref(), Ok("orders|3|42"));
}

#[cfg(feature = "uuid")]
#[test]
fn a_uuid_is_stored_hyphenated() {
    let id = uuid::Uuid::from_u128(0xA1A2_A3A4_B1B2_C1C2_D1D2_D3D4_D5D6_D7D8);
    assert_eq!(
        stored(id).as_deref(),
        Ok("a1a2a3a4-b1b2-c1c2-d1d2-d3d4d5d6d7d8")
    );
}

/// All lists of up to three parts over an alphabet that holds the separator and the escape: no two are stored alike.
#[test]
fn p7_composite_keys_are_injective() {
    const PARTS: [&str; 9] = ["a", "|", "\\", "a|", "|a", "\\|", "|\\", "\\\\", "a\\"];
    let mut seen: HashMap<String, Vec<&str>> = HashMap::new();
    let mut check = |parts: Vec<&'static str>| {
        let mut writer = KeyWriter::default();
        for part in &parts {
            writer.part(part);
        }
        let text = writer.finish().map(|key| key.0).unwrap_or_default();
        assert!(!text.is_empty(), "{parts:?} is a key");
        if let Some(other) = seen.insert(text.clone(), parts.clone()) {
            assert_eq!(other, parts, "both are stored as {text}");
        }
    };
    for a in PARTS {
        check(vec![a]);
        for b in PARTS {
            check(vec![a, b]);
            for c in PARTS {
                check(vec![a, b, c]);
            }
        }
    }
    assert_eq!(seen.len(), 9 + 81 + 729);
    assert_ne!(stored(("a", "bc")), stored(("ab", "c")));
    assert_ne!(stored("a|bc"), stored(("a", "bc")));
}

#[test]
fn p7_bad_keys_are_clear_errors() {
    assert_eq!(stored(""), Err(InvalidKey::Empty { part: 1 }));
    assert_eq!(stored([0_u8; 0]), Err(InvalidKey::Empty { part: 1 }));
    assert_eq!(stored(("tenant", "")), Err(InvalidKey::Empty { part: 2 }));
    assert_eq!(stored("a\0b"), Err(InvalidKey::Nul { at: 1 }));
    assert_eq!(
        stored("é".repeat(512)).as_deref(),
        Ok(&*"é".repeat(512)),
        "the limit counts bytes and includes the last one"
    );
    assert_eq!(
        stored(format!("{}x", "é".repeat(512))),
        Err(InvalidKey::TooLong { bytes: 1025 })
    );
    assert_eq!(
        stored("|".repeat(513)),
        Err(InvalidKey::TooLong { bytes: 1026 }),
        "what counts is the stored form"
    );
    let mut nothing = KeyWriter::default();
    nothing.text.clear();
    assert_eq!(
        nothing.finish().map(|key| key.0),
        Err(InvalidKey::Empty { part: 1 })
    );
}
