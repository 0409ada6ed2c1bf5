//! Which arguments go together.

use super::values::{BATCH, HANDLER, fail, faults_of};

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
            "each retries",
        ]
        .map(|pair| {
            let mut pair: Vec<&str> = pair.split(' ').collect();
            pair.sort_unstable();
            pair.join(" ")
        })
    );
    fail("gapless", "add `version = \"event.version\"`");
    // A version that is wrong, or misspelt, is not missed on top.
    fail("gapless, version = 3", "mentions no parameter");
    fail(
        "gapless, versoin = event.version",
        "did you mean `version`?",
    );
    let all = faults_of(
        BATCH,
        "key = event.id, each = event in events, replay, retries = 3, version = event.version, gapless, fingerprint = event.amount",
    );
    assert_eq!(all.len(), 5, "{all:#?}");
}
