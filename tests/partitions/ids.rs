//! P2: ids that were made from the time, which then is in the key itself.

use super::*;

#[idem::idempotent(key = "id", consumer = "billing", time = "id")]
async fn by_text(#[tx] tx: &mut Conn, id: &str) -> Result<(), Fail> {
    Ok(effect(tx, id).await?)
}

#[idem::idempotent(key = "id", consumer = "billing", time = "id")]
async fn by_uuid(#[tx] tx: &mut Conn, id: uuid::Uuid) -> Result<(), Fail> {
    Ok(effect(tx, &id.to_string()).await?)
}

fn uuid(milliseconds: u64) -> String {
    let digits = format!("{milliseconds:012x}");
    format!("{}-{}-7cc3-98c4-dc0c0c07398f", &digits[..8], &digits[8..])
}

fn ulid(milliseconds: u64) -> String {
    let digits = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let digit = |place: u32| {
        let value = (milliseconds >> (5 * place)) & 31;
        char::from(digits[usize::try_from(value).unwrap()])
    };
    let time: String = (0..10).rev().map(digit).collect();
    time + "TSV4RRFFQ69G5FAV"
}

#[tokio::test]
async fn p2_an_id_with_a_time_needs_no_other() {
    let clocked = Clocked::with_days("2026-11-30", 1, 1, 1).await;
    let noon = clocked
        .start
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis();
    let noon = u64::try_from(noon).unwrap();
    let half = 12 * 60 * 60 * 1000;
    for (milliseconds, day) in [
        (noon - half, "2026-11-30"),
        (noon + half - 1, "2026-11-30"),
        (noon + half, "2026-12-01"),
    ] {
        for id in [uuid(milliseconds), ulid(milliseconds)] {
            for expected in [Outcome::Processed(()), Outcome::Duplicate] {
                assert_eq!(
                    by_text(clocked.pool(), &id).await.unwrap(),
                    expected,
                    "{id}"
                );
            }
            let is_there = format!(
                "SELECT count(*) FROM processed_messages_by_day WHERE message_id = '{id}' AND day = '{day}'"
            );
            assert_eq!(clocked.test.number(is_there).await, 1, "{id}");
        }
        // As a `Uuid` it is the same key, and the same message.
        let id = uuid(milliseconds).parse().unwrap();
        assert_eq!(
            by_uuid(clocked.pool(), id).await.unwrap(),
            Outcome::Duplicate
        );
    }
    for id in [uuid(noon - 4 * half), ulid(noon - 4 * half)] {
        let error = by_text(clocked.pool(), &id).await;
        assert!(
            matches!(error, Err(Fail::Delivery(Error::Expired { .. }))),
            "{error:?}"
        );
    }
}

/// The pool never connects: its size stays 0.
#[tokio::test]
async fn p7_an_id_without_a_time_is_an_error_before_a_connection_is_taken() {
    let clocked = Clocked::new("2026-11-30", 1).await;
    let fixture = &clocked.test.fixture;
    let lazy = fixture.options(1).connect_lazy(&fixture.url).unwrap();
    for id in ["evt-1", "919108f7-52d1-4320-9bac-f847db4148a8"] {
        let error = by_text(&lazy, id).await.unwrap_err();
        assert!(!error.is_transient());
        let is_named = matches!(error, Fail::Delivery(Error::InvalidTime(_)));
        assert!(is_named, "{error:?}");
    }
    let id = uuid::Uuid::new_v4();
    let error = by_uuid(&lazy, id).await.unwrap_err();
    assert!(matches!(error, Fail::Delivery(Error::InvalidTime(_))));
    let before = UNIX_EPOCH - Duration::from_secs(1);
    let event = Event {
        id: "evt-1".to_owned(),
        time: before,
    };
    for way in crate::contract::by_hand::WAYS {
        let error = event.deliver(way, &lazy, Body::Panics).await.unwrap_err();
        assert!(matches!(error, Fail::Delivery(Error::InvalidTime(_))));
    }
    let mut batch = idem::Deliveries::of("billing");
    batch.push("a").time(clocked.start);
    batch.push("b").time("no time");
    let error = batch.claim(&lazy).await.err().unwrap();
    assert!(matches!(error, Error::InvalidTime(_)));
    assert_eq!(lazy.size(), 0, "no connection was taken");
}
