//! How long claims are kept, and what day a message is of.

use super::values::{BATCH, HANDLER, fail, fails_as, faults, faults_of};

const LIMIT: &str = "redelivery = \"4d\"";

fn retain(value: &str) -> Vec<String> {
    faults(&format!("retain = {value}, {LIMIT}"))
}

#[test]
fn windows() {
    for good in ["7d", "4d1ms", "97h", "4d1h", "5760m1s", "36500d", "forever"] {
        assert_eq!(retain(&format!("{good:?}")), [""; 0], "{good}");
        let business = format!("business_retain = {good:?}, business_key = event.order, {LIMIT}");
        assert_eq!(faults(&business), [""; 0], "{good}");
    }
    for good in ["1ms", "4d", "36500d"] {
        assert_eq!(faults(&format!("redelivery = {good:?}")), [""; 0], "{good}");
    }
    for alone in [
        "retain = \"forever\"",
        "business_retain = \"forever\", business_key = event.order",
    ] {
        assert_eq!(faults(alone), [""; 0], "{alone}");
    }
}

#[test]
fn windows_that_are_none() {
    for (bad, part) in [
        ("\"7\"", "`7` has no unit; write `retain = \"7d\"`"),
        (
            "\"604800\"",
            "`604800` has no unit; write `retain = \"7d\"`",
        ),
        ("\"1d12\"", "`1d12` has no unit; write `retain = \""),
        (
            "\"7 days\"",
            "there is no unit `days`: a time is in `ms`, `s`, `m`, `h` or `d`; write `retain = \"7d\"`",
        ),
        (
            "\"2w\"",
            "there is no unit `w`: a time is in `ms`, `s`, `m`, `h` or `d`; write `retain = \"14d\"`",
        ),
        ("\"1.5d\"", "whole numbers with their units"),
        ("\"-7d\"", "whole numbers with their units"),
        ("\"a week\"", "`a week` is no span of time"),
        ("\"\"", "is no span of time"),
        ("\"0\"", "has no unit; write `retain = \"7d\"`"),
        (
            "\"0s\"",
            "a claim that is kept for no time stops no redelivery; write `retain = \"7d\"`",
        ),
        ("\"0d0h\"", "kept for no time"),
        (
            "\"36501d\"",
            "longer than a century; to keep claims for ever, write `retain = \"forever\"`",
        ),
        ("\"99999999999999999999d\"", "longer than a century"),
        ("\"Forever\"", "did you mean `retain = \"forever\"`?"),
        ("\"for ever\"", "did you mean `retain = \"forever\"`?"),
        (
            "\"never\"",
            "to keep claims for ever, write `retain = \"forever\"`",
        ),
        (
            "\"infinity\"",
            "to keep claims for ever, write `retain = \"forever\"`",
        ),
        ("7", "stands in quotes; write `retain = \"7d\"`"),
        ("7d", "stands in quotes; write `retain = \"7d\"`"),
        ("1d12h", "stands in quotes; write `retain = \"1d12h\"`"),
        ("2weeks", "stands in quotes; write `retain = \"14d\"`"),
        ("3parsecs", "stands in quotes; write `retain = \"7d\"`"),
        ("604_800", "stands in quotes; write `retain = \"7d\"`"),
        ("7.0", "stands in quotes; write `retain = \"7d\"`"),
        ("forever", "stands in quotes; write `retain = \"forever\"`"),
        (
            "Retain::Forever",
            "stands in quotes; write `retain = \"forever\"`",
        ),
        (
            "Duration::from_days(7)",
            "stands in quotes; write `retain = \"7d\"`",
        ),
        ("WEEK", "stands in quotes; write `retain = \"7d\"`"),
        ("", "is missing; write `retain = \"7d\"`"),
    ] {
        fails_as(&retain(bad), bad, part);
        let bad = format!("business_retain = {bad}, {LIMIT}, business_key = event.order");
        fails_as(&faults(&bad), &bad, "`business_retain");
    }
    fail(
        "business_retain = \"a year\", business_key = event.order",
        "write `business_retain = \"365d\"`",
    );
    for (bad, part) in [
        ("\"4\"", "`4` has no unit; write `redelivery = \"4d\"`"),
        ("4", "stands in quotes; write `redelivery = \"4d\"`"),
        ("\"4 days\"", "write `redelivery = \"4d\"`"),
        (
            "\"0s\"",
            "there would be nothing to remember; write how long",
        ),
        (
            "\"forever\"",
            "write `retain = \"forever\"`, and leave `redelivery` out",
        ),
        (
            "\"Forever\"",
            "write `retain = \"forever\"`, and leave `redelivery` out",
        ),
        (
            "\"40000d\"",
            "write `retain = \"forever\"`, and leave `redelivery` out",
        ),
        ("forever", "stands in quotes"),
    ] {
        fail(&format!("redelivery = {bad}"), part);
        // A window that is there but wrong is not missed on top.
        fail(&format!("redelivery = {bad}, retain = \"1d\""), part);
    }
}

#[test]
fn a_window_that_the_broker_outlasts_is_refused() {
    for (retain, redelivery, longer) in [
        ("3d", "4d", "8d"),
        ("4d", "4d", "8d"),
        ("96h", "4d", "8d"),
        ("1ms", "12h", "1d"),
        ("1d", "36h", "3d"),
        ("30000d", "36500d", "forever"),
    ] {
        let fault = "runs a second time; keep them longer than the broker redelivers, as in";
        fail(
            &format!("retain = {retain:?}, redelivery = {redelivery:?}"),
            &format!("{fault} `retain = \"{longer}\"`"),
        );
        fail(
            &format!(
                "redelivery = {redelivery:?}, business_retain = {retain:?}, business_key = event.order"
            ),
            &format!("{fault} `business_retain = \"{longer}\"`"),
        );
    }
    fail(
        "retain = \"3d\", redelivery = \"4d\"",
        "claims are gone after 3d, and the broker may redeliver for 4d: ",
    );
    let both = "retain = \"1d\", business_retain = \"2d\", business_key = event.order, redelivery = \"4d\"";
    assert_eq!(faults(both).len(), 2, "{:?}", faults(both));
}

#[test]
fn without_the_brokers_window_nobody_can_tell() {
    let part = "add your broker's limit, as in `redelivery = \"4d\"`";
    fail("retain = \"7d\"", part);
    fail(
        "business_retain = \"365d\", business_key = event.order",
        part,
    );
    fail(
        "retain = \"7d\", business_retain = \"365d\", business_key = event.order",
        part,
    );
    // Its example is one that passes.
    fail("retain = \"4d\"", "as in `redelivery = \"2d\"`");
    fail(
        "retain = \"7d\", redelvery = \"4d\"",
        "did you mean `redelivery`?",
    );
}

#[test]
fn times_of_arrival_are_refused() {
    for clock in [
        "now()",
        "SystemTime::now()",
        "chrono::Utc::now()",
        "OffsetDateTime::now_utc()",
        "Uuid::now_v7()",
        "event.time.unwrap_or_else(Utc::now)",
        "event.time.unwrap_or(now())",
        "self.clock.now()",
        "Local::today()",
        "(Utc::now() - event.age)",
    ] {
        fail(
            &format!("time = {clock}"),
            "another one in each delivery: a redelivery on the next day would look for its message there, not find it, and run again; take the time from the message, as in `time = \"event.time\"`",
        );
        fail(&format!("time = {clock:?}"), "is the time of arrival");
    }
    fail("time = Utc::now()", "`Utc::now` is the time of arrival");
    fail("time = self.clock.now()", "`now` is the time of arrival");
    fail(
        "time = EPOCH",
        "a time of arrival such as `now()` is another one in each delivery",
    );
    fail("time = (event.day, event.hour)", "is one point in time");
    for good in [
        "event.known",
        "event.now",
        "event.nowhere()",
        "now_and_then(event)",
    ] {
        assert_eq!(faults(&format!("time = {good}")), [""; 0], "{good}");
    }
}

/// It may hold a day from the message. What a caller puts there is not seen.
#[test]
fn a_parameter_that_is_called_as_a_clock_is_none() {
    let handler = HANDLER.replace("event: &Event", "event: &Event, today: Day");
    assert_eq!(faults_of(&handler, "key = event.id, time = today"), [""; 0]);
}

#[test]
fn the_time_of_a_message_in_a_batch() {
    for good in ["event.time", "(event.time)", "self.time_of(event, tenant)"] {
        let arguments =
            format!("each = event in events, key = event.id, time = {good}, from_plain");
        assert_eq!(faults_of(BATCH, &arguments), [""; 0], "{good}");
    }
    for (bad, part) in [
        (
            "events[0].time",
            "`events` holds all of them; take it from `event`",
        ),
        (
            "tenant",
            "the same for all messages of the batch, and another one for a message that comes again",
        ),
        ("Utc::now()", "as in `time = \"event.time\"`"),
        ("evnt.time", "did you mean `event`?"),
    ] {
        let arguments = format!("each = event in events, key = event.id, time = {bad}");
        fails_as(&faults_of(BATCH, &arguments), bad, part);
    }
}
