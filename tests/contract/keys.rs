//! P7: keys are byte-exact, and bad keys are found before a connection is taken.

use idem::{Error, InvalidConsumer, InvalidKey, MAX_CONSUMER_BYTES, MAX_KEY_BYTES};

use super::*;

/// Strings that some collation, normalization or trimming takes for equal.
const DIFFERENT: [&str; 25] = [
    "a",
    "A",
    "a ",
    " a",
    "a\t",
    "a\n",
    "á",
    "a\u{301}",
    "Á",
    "ä",
    "ae",
    "æ",
    "ß",
    "ss",
    "ẞ",
    "i",
    "I",
    "ı",
    "İ",
    "ﬁ",
    "fi",
    "\u{1F600}",
    "\u{1F601}",
    "0",
    "00",
];

#[tokio::test]
async fn p7_keys_are_byte_exact() {
    let test = Test::new(2).await;
    for key in DIFFERENT {
        let outcome = on_connection(&test.pool, key, Body::Succeeds).await;
        assert_eq!(outcome.unwrap(), Outcome::Processed(7), "{key:?}");
    }
    for key in DIFFERENT {
        let outcome = on_connection(&test.pool, key, Body::Panics).await;
        assert_eq!(outcome.unwrap(), Outcome::Duplicate, "{key:?}");
    }
    assert_eq!(test.claims().await, 25);
}

#[tokio::test]
async fn p8_consumers_are_byte_exact() {
    let test = Test::new(2).await;
    for consumer in ["billing", "Billing", "bílling", "billing."] {
        let claimed = db::claim(&test.pool, consumer, "evt-1").await.unwrap();
        let Claimed::Fresh(claim) = claimed else {
            panic!("{consumer} is another consumer");
        };
        claim.commit().await.unwrap();
    }
    assert_eq!(test.claims().await, 4);
}

#[idempotent(key = "(tenant, order, 7_u8)", consumer = "composite")]
async fn composite(#[tx] tx: &mut Conn, tenant: &str, order: &str) -> Result<u64, Fail> {
    effect(tx, "composite").await?;
    Ok(7)
}

#[tokio::test]
async fn p7_composite_keys_are_injective() {
    let test = Test::new(2).await;
    let keys = [
        ("a", "bc"),
        ("ab", "c"),
        ("a|b", "c"),
        ("a", "b|c"),
        ("a\\", "|b"),
        ("a\\|", "b"),
    ];
    for (tenant, order) in keys {
        let outcome = composite(&test.pool, tenant, order).await;
        assert_eq!(outcome.unwrap(), Outcome::Processed(7), "{tenant}, {order}");
        let outcome = composite(&test.pool, tenant, order).await;
        assert_eq!(outcome.unwrap(), Outcome::Duplicate, "{tenant}, {order}");
    }
    assert_eq!(test.claims().await, 6);
}

#[tokio::test]
async fn p7_the_longest_key_is_kept_whole() {
    let test = Test::new(2).await;
    let consumer = "c".repeat(MAX_CONSUMER_BYTES);
    // Random, since a database may compress what its index holds.
    let mut key = String::new();
    while key.len() < MAX_KEY_BYTES {
        key.push_str(&uuid::Uuid::new_v4().simple().to_string());
    }
    let mut other = key.clone();
    other.replace_range(MAX_KEY_BYTES - 1.., "x");
    for key in [&key, &other] {
        let Claimed::Fresh(claim) = db::claim(&test.pool, &consumer, key).await.unwrap() else {
            panic!("the keys differ in their last byte");
        };
        claim.commit().await.unwrap();
        let again = db::claim(&test.pool, &consumer, key).await.unwrap();
        assert!(matches!(again, Claimed::Duplicate));
    }
}

/// The pool never connects: its size stays 0.
#[tokio::test]
async fn p7_bad_keys_are_errors_before_a_connection_is_taken() {
    let test = Test::new(1).await;
    let lazy = test
        .fixture
        .options(1)
        .connect_lazy(&test.fixture.url)
        .unwrap();
    let long = "k".repeat(MAX_KEY_BYTES + 1);
    for (key, expected) in [
        ("", InvalidKey::Empty { part: 1 }),
        ("a\0b", InvalidKey::Nul { at: 1 }),
        (&long, InvalidKey::TooLong { bytes: long.len() }),
    ] {
        for form in FORMS {
            let error = deliver(form, &lazy, key, Body::Panics).await.unwrap_err();
            assert!(!error.is_transient(), "{error}");
            assert!(
                matches!(error, Fail::Delivery(Error::InvalidKey(fault)) if fault == expected),
                "{form:?}: {error:?}"
            );
        }
    }
    let outcome = composite(&lazy, "tenant", "").await;
    assert!(
        matches!(
            outcome,
            Err(Fail::Delivery(Error::InvalidKey(InvalidKey::Empty {
                part: 2
            })))
        ),
        "{outcome:?}"
    );
    let outcome = db::claim(&lazy, "two words", "evt-1").await;
    assert!(matches!(
        outcome.err(),
        Some(Error::InvalidConsumer(InvalidConsumer::Character {
            found: ' '
        }))
    ));
    assert_eq!(lazy.size(), 0, "no connection was taken");
    assert_eq!(test.claims().await, 0);
}
