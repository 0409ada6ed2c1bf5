//! Which key is refused and which is not, in more variety than trybuild has time for.

use super::*;

fn faults(attribute: &str, parameters: &str) -> Vec<String> {
    let item = format!("async fn add({parameters}) -> Result<(), Error> {{ Ok(()) }}");
    messages(idempotent(args(attribute), &item.parse().unwrap()))
}

fn key(key: &str) -> Vec<String> {
    faults(
        &format!("key = {key:?}, consumer = \"billing\""),
        "&self, tx: &mut PgConnection, event: &Event, Meta { id, part: (number, _), .. }: Meta",
    )
}

#[test]
fn keys_from_the_message_pass() {
    for good in [
        "event.id",
        "id",
        "number",
        "self.prefix(id)",
        "(self.prefix, event.id)",
        "(event.tenant, (id, number))",
        "event.ids[0]",
        "event.id.as_str()",
        "id_of(event)",
        "Id::of(event)",
        "format!(\"{id}\")",
        "format!(\"{}-{}\", event.id, VERSION)",
        "{ let text = event.id.to_string(); text }",
        "event.lines.iter().map(|line| line.id).max().unwrap_or(event.first)",
        "match event { Event::Paid(paid) => paid.id, Event::Void(void) => void.id }",
        "if let Some(found) = event.id { found } else { id }",
        "event.lines.iter().map(line_id).max().unwrap_or_else(nothing)",
        "event.id()?",
        "*event.id",
        "event.id as u64",
        "KafkaKey { topic: TOPIC, partition: event.partition, offset: event.offset }",
    ] {
        assert_eq!(key(good), [""; 0], "{good}");
    }
}

#[test]
fn other_keys_do_not() {
    for (bad, part) in [
        ("\"paid\"", "mentions no parameter"),
        ("42", "mentions no parameter"),
        ("()", "mentions no parameter"),
        ("TOPIC", "mentions no parameter"),
        ("Uuid::new_v4()", "mentions no parameter"),
        ("format!(\"paid\")", "mentions no parameter"),
        ("evnt.id", "did you mean `event`?"),
        ("(event.tenant, evnt.id)", "did you mean `event`?"),
        ("ids", "did you mean `id`?"),
        ("id_of(evnt)", "did you mean `event`?"),
        ("id_of(&evnt)", "did you mean `event`?"),
        (
            "message.id",
            "take it from `self` or `event` or `id` or `number`",
        ),
        ("tx.id()", "taken from the transaction"),
        ("(event.id, tx.id())", "taken from the transaction"),
        ("event.id, id", "is not an expression"),
        ("event id", "is not an expression"),
        ("", "is empty"),
        (" ", "is empty"),
        ("(id, id, id, id, id, id, id, id, id)", "at most 8 parts"),
    ] {
        let faults = key(bad);
        assert_eq!(faults.len(), 1, "{bad}: {faults:?}");
        assert!(faults[0].contains(part), "{bad}: {}", faults[0]);
    }
}

#[test]
fn the_example_names_a_parameter_of_the_handler() {
    let faults = faults(
        "consumer = \"billing\"",
        "&self, tx: &mut PgConnection, paid: OrderPaid",
    );
    assert_eq!(faults.len(), 1);
    assert!(
        faults[0].contains("add `key = \"paid.id\"`"),
        "{}",
        faults[0]
    );
}

#[test]
fn every_fault_is_reported_at_once() {
    let found = faults(
        "kye = event.id, consumer = \"\", allow_pol, retian = 3",
        "tx: PgTransaction<'_>, pool: PgPool",
    );
    assert_eq!(found.len(), 5, "{found:#?}");
}

#[test]
fn any_is_refused() {
    for ty in [
        "AnyConnection",
        "Transaction<'_, Any>",
        "sqlx::Transaction<'_, sqlx::Any>",
    ] {
        let faults = faults(
            "key = event.id, consumer = \"billing\"",
            &format!("tx: &mut {ty}, event: &Event"),
        );
        assert_eq!(faults.len(), 1, "{ty}");
        assert!(
            faults[0].contains("`Any` is not supported"),
            "{}",
            faults[0]
        );
    }
}

#[test]
fn advice_is_printed_as_one_would_write_it() {
    for (parameter, advice) in [
        (
            "mut tx: Transaction<'_, Postgres>",
            "write `tx: &mut Transaction<'_, Postgres>` and no",
        ),
        (
            "tx: &sqlx::Transaction<'_, sqlx::Postgres>",
            "write `tx: &mut sqlx::Transaction<'_, sqlx::Postgres>`",
        ),
        ("tx: &mut Tx<'_>", "mark it: `#[tx] tx: &mut Tx<'_>`"),
    ] {
        let faults = faults(
            "key = event.id, consumer = \"billing\"",
            &format!("{parameter}, event: &Event"),
        );
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains(advice), "{}", faults[0]);
    }
}
