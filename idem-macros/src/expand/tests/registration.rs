//! What the list of handlers is told, and the statements of `time`.

use super::arguments::{ALL, ONE, contains, expansion};
use super::*;

/// What is registered of a handler with these arguments beside its consumer.
fn registered(arguments: &str) -> String {
    let handler = if arguments.contains("each") { ALL } else { ONE };
    let expanded = expansion(&format!("consumer = \"billing\", {arguments}"), handler);
    let start = expanded.find("{P::register!(P::Handler::new(\"billing\",\"add\",");
    let rest = &expanded[start.expect("it comes first") + 1..];
    rest[..rest.find(");let").expect("its end")].to_owned()
}

#[test]
fn handlers_are_listed() {
    for (arguments, said) in [
        ("key = event.id", ""),
        (
            "key = event.id, retain = \"7d\", redelivery = \"4d\"",
            ".retain(P::Retain::for_ms(604800000)).redelivery_ms(345600000)",
        ),
        (
            "key = event.id, retain = \"forever\"",
            ".retain(P::Retain::Forever)",
        ),
        (
            "key = event.id, redelivery = \"1h30m\"",
            ".redelivery_ms(5400000)",
        ),
        (
            "key = event.id, version = event.version, gapless",
            ".version()",
        ),
        ("key = event.id, each = event in events", ".each()"),
        (
            "key = event.id, time = event.time, from_plain",
            ".time(\"event.time\")",
        ),
        (
            "key = event.id, time = \" event.time \"",
            ".time(\"event.time\")",
        ),
    ] {
        let text = registered(arguments);
        let text = text
            .trim_start_matches("P::register!(P::Handler::new(\"billing\",\"add\",\"event.id\")");
        assert_eq!(text, said, "{arguments}");
    }
    let all = registered(
        "time = event.time, business_retain = \"365d\", key = event.id, business_key = event.order, redelivery = \"4d\", retain = \"7d\"",
    );
    assert!(
        all.ends_with(".retain(P::Retain::for_ms(604800000)).redelivery_ms(345600000).business_key().business_retain(P::Retain::for_ms(31536000000)).time(\"event.time\")"),
        "{all}"
    );
}

#[test]
fn keys_are_listed_as_they_are_written() {
    for (key, listed) in [
        ("event.id", "event.id"),
        ("\"event.id\"", "event.id"),
        ("\" event.id \"", "event.id"),
        ("(event.source, event.id)", "(event.source, event.id)"),
        ("\"(event.source,event.id)\"", "(event.source,event.id)"),
        (
            "\"(event.source,\n    event.id)\"",
            "(event.source, event.id)",
        ),
        ("event.lines[0].id", "event.lines [0].id"),
        (
            "\"format!(\\\"{}\\\", event.id)\"",
            "format!(\"{}\", event.id)",
        ),
        ("r#\"id_of(event, \"a\")\"#", "id_of(event, \"a\")"),
    ] {
        let expanded = idempotent(
            args(&format!("consumer = \"billing\", key = {key}")),
            &ONE.parse().unwrap(),
        );
        let listed = format!("Handler :: new (\"billing\" , \"add\" , {listed:?})");
        let text = expanded.to_string();
        assert!(text.contains(&listed), "{listed} in {text}");
    }
}

#[test]
fn a_raw_name_is_listed_without_its_prefix() {
    let handler = ONE.replace("add", "r#match");
    let expanded = expansion("key = event.id, consumer = \"billing\"", &handler);
    contains(
        &expanded,
        &[quote!(P::Handler::new("billing", "match", "event.id"))],
    );
}

#[test]
fn nothing_is_listed_that_is_wrong() {
    for wrong in ["retain = \"7d\"", "kee = 3", "time = 3", "key = 7"] {
        let tokens = args(&format!("consumer = \"billing\", key = event.id, {wrong}"));
        let expanded = idempotent(tokens, &ONE.parse().unwrap()).to_string();
        assert!(!expanded.contains("register"), "{expanded}");
        assert!(!expanded.contains("by_day"), "{expanded}");
    }
}

#[test]
fn a_message_has_its_time() {
    let expanded = expansion(
        "key = event.id, consumer = \"billing\", business_key = event.order, time = (event.meta.time()), from_plain, fingerprint = event.amount, in_flight = \"fail\", replay",
        ONE,
    );
    contains(
        &expanded,
        &[
            quote!(let codec = P::replay::<i64>();),
            quote! {
                let message = P::Delivery::with_business_key("billing", P::optional_key(&event.id), P::key(&event.order))
                    .fingerprint(P::fingerprint(&event.amount))
                    .time(P::time(&event.meta.time()))
                    .in_flight(P::InFlight::Fail)
                    .from_plain();
            },
        ],
    );
    let alias = ONE.replace("tx: &mut PgConnection", "#[tx] tx: &mut Alias<'_>");
    let expanded = expansion(
        "key = event.id, consumer = \"billing\", time = event.time",
        &alias,
    );
    contains(
        &expanded,
        &[
            quote!(P::by_day::<P::DatabaseOf<Alias<'static>>>();),
            quote!(.time(P::time(&event.time)); let mut slot),
        ],
    );
    let mysql = ONE.replace("PgConnection", "MySqlConnection");
    let expanded = expansion(
        "key = event.id, consumer = \"billing\", time = event.time",
        &mysql,
    );
    contains(&expanded, &[quote!(P::by_day::<P::MySql>(); let message)]);
    // Where the type itself says PostgreSQL there is nothing to ask.
    let expanded = expansion(
        "key = event.id, consumer = \"billing\", time = event.time",
        ONE,
    );
    assert!(!expanded.contains("by_day"), "{expanded}");
    let expanded = expansion("key = event.id, consumer = \"billing\"", ONE);
    assert!(
        !expanded.contains("time") && !expanded.contains("by_day"),
        "{expanded}"
    );
}

#[test]
fn each_message_of_a_batch_has_its_time() {
    let expanded = expansion(
        "key = event.id, consumer = \"billing\", each = event in events, time = *event.time, fingerprint = event.amount, from_plain, isolation = \"serializable\"",
        ALL,
    );
    contains(
        &expanded,
        &[quote! {
            let mut messages = P::Deliveries::of("billing");
            for event in &events {
                messages
                    .push(P::key(&event.id))
                    .fingerprint(P::fingerprint(&event.amount))
                    .time(P::time(&(*event.time)));
            }
            let messages = messages.isolation(P::Isolation::Serializable).from_plain();
            let mut slot
        }],
    );
}

#[test]
fn the_list_is_in_the_library_wherever_it_is() {
    let expanded = expansion(
        "crate = deps::idem, key = event.id, consumer = \"billing\", retain = \"7d\", redelivery = \"1d\", time = event.time",
        &ONE.replace("PgConnection", "MySqlConnection"),
    );
    contains(
        &expanded,
        &[
            quote!(
                depsP::Handler::new("billing", "add", "event.id")
                    .retain(depsP::Retain::for_ms(604800000))
            ),
            quote!(depsP::by_day::<depsP::MySql>();),
        ],
    );
    let inside = expanded.replace("depsP::", "");
    assert!(!inside.contains("P::"), "{expanded}");
}
