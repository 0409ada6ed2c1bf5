//! What the arguments beside `key` and `consumer` refuse, in more variety than trybuild has time for.

use super::*;

pub(super) const HANDLER: &str =
    "async fn add(&self, tx: &mut PgConnection, event: &Event) -> Result<i64, Error> { Ok(1) }";
pub(super) const BATCH: &str = "async fn add(&self, tx: &mut PgConnection, events: Vec<Event>, tenant: u32) -> Result<i64, Error> { Ok(1) }";

pub(super) fn faults_of(handler: &str, arguments: &str) -> Vec<String> {
    let arguments = args(&format!("consumer = \"billing\", {arguments}"));
    messages(idempotent(arguments, &handler.parse().unwrap()))
}

pub(super) fn faults(arguments: &str) -> Vec<String> {
    faults_of(HANDLER, &format!("key = event.id, {arguments}"))
}

fn pass(arguments: &str) {
    assert_eq!(faults(arguments), [""; 0], "{arguments}");
}

pub(super) fn fail(arguments: &str, part: &str) {
    fails_as(&faults(arguments), arguments, part);
}

pub(super) fn fails_as(faults: &[String], arguments: &str, part: &str) {
    assert_eq!(faults.len(), 1, "{arguments}: {faults:?}");
    assert!(faults[0].contains(part), "{arguments}: {}", faults[0]);
}

#[test]
fn expressions() {
    pass("business_key = \"(event.order_id, \\\"charge\\\")\"");
    pass("business_key = event.order_id()");
    pass("fingerprint = event");
    pass("fingerprint = \"(event.amount, VERSION)\"");
    pass("fingerprint = (event.a, event.b, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)");
    pass("version = i64::from(event.version)");
    pass("version = event.version as i64");
    pass("time = event.time");
    pass("time = \"event.id\"");
    pass("time = event.time.with_timezone(&Utc)");
    for argument in ["business_key", "fingerprint", "version", "time"] {
        fail(&format!("{argument} = \"3\""), "mentions no parameter");
        fail(&format!("{argument} = 3"), "mentions no parameter");
        fail(&format!("{argument} = evnt.id"), "did you mean `event`?");
        fail(
            &format!("{argument} = tx.id()"),
            "taken from the transaction",
        );
        fail(&format!("{argument} = \"\""), "is empty");
        fail(&format!("{argument} = "), "is missing; write `");
        fail(argument, "takes its value after `=`");
        fail(&format!("{argument} = event.id event"), "ends before this");
    }
    fail(
        "business_key = (event, 2, 3, 4, 5, 6, 7, 8, 9)",
        "the business key has at most 8 parts",
    );
    fail(
        "fingerprint = (event, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17)",
        "the fingerprint has at most 16 parts",
    );
    fail("version = (event.major, event.minor)", "is one integer");
    fail("version = \"(event.major, 0)\"", "is one integer");
    fail("version = \"\\\"1.0\\\"\"", "mentions no parameter");
}

#[test]
fn flags() {
    pass("replay");
    pass("version = event.version, gapless");
    pass("time = event.time, from_plain");
    fail(
        "time = event.time, from_plain = true",
        "`from_plain` takes no value",
    );
    fail(
        "replay = true",
        "`replay` takes no value; write `replay` alone",
    );
    fail("replay(true)", "`replay` takes no value");
    fail("allow_pool(true)", "`allow_pool` takes no value");
}

#[test]
fn first_versions() {
    for first in [
        "0",
        "1",
        "-1",
        "9_223_372_036_854_775_807",
        "-9223372036854775808",
        "0x10",
    ] {
        pass(&format!("version = event.version, gapless = {first}"));
    }
    for first in [
        "\"0\"",
        "event.first",
        "1.5",
        "1u8",
        "- -1",
        "9223372036854775808",
        "true",
    ] {
        fail(
            &format!("version = event.version, gapless = {first}"),
            "write `gapless = 0`, or `gapless` alone",
        );
    }
}

#[test]
fn retries() {
    pass("retries = 1");
    pass("retries = 10");
    fail("retries = 0", "leave `retries` out");
    fail("retries = 11", "let the broker redeliver");
    fail(
        "retries = 99999999999999999999999",
        "let the broker redeliver",
    );
    for value in ["\"3\"", "3u8", "-3", "3.0", "many", "RETRIES"] {
        fail(&format!("retries = {value}"), "a number from 1 to 10");
    }
    fail("retries", "write `retries = 3`");
    for (parameter, name) in [
        ("mut count: u32", "count"),
        ("(_, mut count): (u8, u8)", "count"),
    ] {
        let handler = HANDLER.replace("event: &Event", &format!("event: &Event, {parameter}"));
        let faults = faults_of(&handler, "key = event.id, retries = 3");
        fails_as(
            &faults,
            parameter,
            &format!("let mut {name} = {name}.clone();"),
        );
    }
    let handler = HANDLER.replace("&self", "mut self");
    fails_as(
        &faults_of(&handler, "key = event.id, retries = 3"),
        "mut self",
        "would find `self` as the run before left it",
    );
    let handler = HANDLER.replace("&self, tx", "&mut self, mut tx");
    assert_eq!(faults_of(&handler, "key = event.id, retries = 3"), [""; 0]);
}

#[test]
fn in_flight() {
    for good in [
        "wait", "fail", "1ms", "500ms", "5s", "2m", "1m30s", "1h", "3600s",
    ] {
        pass(&format!("in_flight = {good:?}"));
    }
    for (bad, part) in [
        ("\"5\"", "`5` has no unit; write `in_flight = \"5s\"`"),
        (
            "\"5 sec\"",
            "there is no unit `sec`: a time is in `ms`, `s`, `m`, `h` or `d`; write `in_flight = \"5s\"`",
        ),
        ("\"0s\"", "write `in_flight = \"fail\"`"),
        ("\"2h\"", "one hour at most"),
        ("\"1d\"", "one hour at most"),
        ("\"99999999999999999999h\"", "one hour at most"),
        ("\"fial\"", "did you mean `in_flight = \"fail\"`?"),
        ("\"Wait\"", "did you mean `in_flight = \"wait\"`?"),
        ("\"-5s\"", "write `\"fail\"` to fail at once"),
        ("\"\"", "write `\"fail\"` to fail at once"),
        ("\"skip\"", "to fail at once, write `in_flight = \"fail\"`"),
        ("\"perhaps\"", "write `\"fail\"` to fail at once"),
        ("5", "in quotes; write `in_flight = \"5s\"`"),
        ("5s", "in quotes; write `in_flight = \"5s\"`"),
        ("1m30s", "in quotes; write `in_flight = \"1m30s\"`"),
        ("fail", "in quotes; write `in_flight = \"fail\"`"),
        (
            "Duration::from_secs(5)",
            "in quotes; write `in_flight = \"5s\"`",
        ),
        ("fial", "in quotes; write `in_flight = \"fail\"`"),
        ("fail_fast", "in quotes; write `in_flight = \"fail\"`"),
    ] {
        fail(&format!("in_flight = {bad}"), part);
    }
}

#[test]
fn other_libraries_names_are_known() {
    fail("retry = 3", "did you mean `retries`?");
    fail("timeout = \"5s\"", "did you mean `in_flight`?");
    fail("batch = \"event in events\"", "did you mean `each`?");
    for name in [
        "ttl",
        "expire",
        "expires",
        "retention",
        "keep",
        "retian",
        "retan",
        "retains",
    ] {
        fail(&format!("{name} = \"7d\""), "did you mean `retain`?");
    }
    for name in ["timestamp", "occurred_at", "tiem", "times"] {
        fail(&format!("{name} = event.time"), "did you mean `time`?");
    }
    fail("redeliver = \"4d\"", "did you mean `redelivery`?");
    fail(
        "from_plane, time = event.time",
        "did you mean `from_plain`?",
    );
    fail(
        "businessretain = \"1d\", business_key = event.order",
        "did you mean `business_retain`?",
    );
}

#[test]
fn isolation() {
    for good in [
        "serializable",
        "repeatable read",
        "repeatable_read",
        "SERIALIZABLE",
        "Read Committed",
        "read committed",
        "read_uncommitted",
    ] {
        pass(&format!("isolation = {good:?}"));
    }
    for (bad, part) in [
        ("\"Serialisable\"", "write `isolation = \"serializable\"`"),
        (
            "\"READ-COMMITTED\"",
            "write `isolation = \"read committed\"`",
        ),
        ("\"repeatable\"", "there are `read uncommitted`, "),
        (
            "\"repeatableread\"",
            "write `isolation = \"repeatable read\"`",
        ),
        ("\"snapshot\"", "there are `read uncommitted`, "),
        ("\"\"", "there are `read uncommitted`, "),
        (
            "serializable",
            "in quotes; write `isolation = \"serializable\"`",
        ),
        (
            "IsolationLevel::Serializable",
            "in quotes; write `isolation = \"serializable\"`",
        ),
        ("4", "in quotes; write `isolation = \"serializable\"`"),
    ] {
        fail(&format!("isolation = {bad}"), part);
    }
}

#[test]
fn pools() {
    for good in [
        "self.pool",
        "\"self.pools.main()\"",
        "POOL",
        "POOL.get().unwrap()",
        "pools::main()",
        "pool_of(event)",
    ] {
        pass(&format!("pool = {good}"));
    }
    fail("pool = tx", "name a pool");
    fail("pool = slf.pool", "did you mean `self`?");
    fail(
        "pool = pool",
        "which is no parameter of the handler; take it from `self` or `event` or a static",
    );
    fail("pool", "write `pool = \"self.pool\"`");
    let handler = HANDLER.replace("&self", "pool: &PgPool");
    fails_as(
        &faults_of(&handler, "key = event.id, pool = pol"),
        "pol",
        "did you mean `pool`?",
    );
}

#[test]
fn roots() {
    for good in [
        "idem",
        "\"::idem\"",
        "crate::deps::idem",
        "\"super::idem\"",
        "r#idem",
    ] {
        pass(&format!("crate = {good}"));
    }
    for bad in ["5", "\"5\"", "a.b", "\"a b\"", "idem::<u8>", "idem!()"] {
        let faults = faults(&format!("crate = {bad}"));
        assert_eq!(faults.len(), 1, "{bad}: {faults:?}");
        assert!(
            faults[0].contains("write `crate = \"my_crate::idem\"`"),
            "{bad}: {}",
            faults[0]
        );
    }
}
