//! Which arguments go together.

use super::values::{BATCH, HANDLER, fail, fails_as, faults_of};

#[test]
fn combinations() {
    let arguments = [
        "business_key = event.order_id",
        "replay",
        "fingerprint = event.amount",
        "version = event.version",
        "in_flight = \"fail\"",
        "isolation = \"serializable\"",
        "retries = 3",
        "each = event in events",
        "retain = \"forever\"",
        "redelivery = \"4d\"",
        "time = event.time",
        "pool = self.pool",
        "allow_pool",
        "crate = idem",
    ];
    let name = |argument: &str| argument.split(' ').next().unwrap().to_owned();
    let mut refused = Vec::new();
    for (place, one) in arguments.iter().enumerate() {
        for other in &arguments[place + 1..] {
            for (first, second) in [(one, other), (other, one)] {
                let batch = first.starts_with("each") || second.starts_with("each");
                let handler = if batch { BATCH } else { HANDLER };
                let faults = faults_of(handler, &format!("{first}, key = event.id, {second}"));
                if faults.is_empty() {
                    continue;
                }
                let [first, second] = [first, second].map(|argument| name(argument));
                let text = format!("`{second}` does not go together with `{first}`: ");
                assert_eq!(faults.len(), 1, "{faults:?}");
                assert!(faults[0].starts_with(&text), "{}", faults[0]);
                let mut pair = [first, second];
                pair.sort();
                refused.push(pair.join(" "));
            }
        }
    }
    refused.dedup();
    assert_eq!(
        refused,
        [
            "business_key version",
            "business_key each",
            "replay version",
            "each replay",
            "fingerprint version",
            "each version",
            "retain version",
            "redelivery version",
            "time version",
            "each retries",
        ]
        .map(|pair| {
            let mut pair: Vec<&str> = pair.split(' ').collect();
            pair.sort_unstable();
            pair.join(" ")
        })
    );
}

#[test]
fn what_makes_no_sense_alone() {
    fail("gapless", "add `version = \"event.version\"`");
    // A version that is wrong, or misspelt, is not missed on top.
    fail("gapless, version = 3", "mentions no parameter");
    fail(
        "gapless, versoin = event.version",
        "did you mean `version`?",
    );
    fail(
        "business_retain = \"365d\", redelivery = \"4d\"",
        "add `business_key = \"event.order_id\"`",
    );
    fail(
        "business_retain = \"365\", redelivery = \"4d\", business_key = event.order",
        "has no unit",
    );
    // Nor is the broker's window missed on top.
    fail("business_retain = \"365d\"", "there is no business key");
    fail("from_plain", "add `time = \"event.time\"`");
    fail("from_plain, time = 3", "mentions no parameter");
    fail("from_plain, timestamp = event.time", "did you mean `time`?");
    // No advice leads into the next error.
    fails_as(
        &faults_of(
            BATCH,
            "key = event.id, each = event in events, business_retain = \"forever\"",
        ),
        "each",
        "there is no business key; leave `business_retain` out",
    );
    fail(
        "version = event.version, from_plain",
        "which day a message is of; leave `from_plain` out",
    );
    fail(
        "version = event.version, business_retain = \"365d\"",
        "`business_retain` does not go together with `version`: ",
    );
}

#[test]
fn versions_have_no_windows_and_no_days() {
    for (argument, fault) in [
        ("retain = \"1d\"", "would then be new again"),
        ("redelivery = \"1d\"", "however long the broker redelivers"),
        ("time = event.time", "would not be found on the next"),
    ] {
        fail(&format!("version = event.version, {argument}"), fault);
    }
}

#[test]
fn several_are_refused_at_once() {
    let all = faults_of(
        BATCH,
        "key = event.id, each = event in events, replay, retries = 3, version = event.version, gapless, fingerprint = event.amount",
    );
    assert_eq!(all.len(), 5, "{all:#?}");
}
