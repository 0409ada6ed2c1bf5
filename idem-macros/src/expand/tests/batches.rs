//! What `each` accepts and refuses.

use super::values::{BATCH, fails_as, faults_of};

#[test]
fn each() {
    for good in [
        "each = event in events, key = event.id",
        "each = \"event in events\", key = \"(tenant, event.id)\"",
        "each = \"&(id, _) in events\", key = id",
        "each = Event { id, .. } in events, key = (self.prefix, id)",
        "each = events in events, key = events.id",
        "each = event in events, key = event.id, fingerprint = event.amount",
    ] {
        assert_eq!(faults_of(BATCH, good), [""; 0], "{good}");
    }
    for (bad, part) in [
        (
            "each = event in evnts, key = event.id",
            "did you mean `events`?",
        ),
        (
            "each = event in x, key = event.id",
            "name the parameter that holds the messages: `events` or `tenant`",
        ),
        (
            "each = event in tx, key = event.id",
            "names the transaction",
        ),
        (
            "each = event in self, key = event.id",
            "after `in` comes the name of a parameter",
        ),
        (
            "each = event in self.events, key = event.id",
            "after `in` comes the name of a parameter",
        ),
        (
            "each = \"event\", key = event.id",
            "write `each = \"event in events\"`",
        ),
        (
            "each = events, key = event.id",
            "write `each = \"event in events\"`",
        ),
        (
            "each = event of events, key = event.id",
            "write `each = \"event in events\"`",
        ),
        ("each, key = event.id", "write `each = \"event in events\"`"),
        (
            "each = _ in events, key = events.id",
            "`_` names no message",
        ),
        (
            "each = event in events, key = tenant",
            "mentions nothing of the single message",
        ),
        (
            "each = event in events, key = \"7\"",
            "mentions nothing of the single message",
        ),
        (
            "each = event in events, key = events[0].id",
            "`events` holds all of them; take it from `event`",
        ),
        (
            "each = event in events, key = evnt.id",
            "did you mean `event`?",
        ),
        (
            "each = event in events, key = tx.id",
            "taken from the transaction",
        ),
        (
            "each = event in events, key = event.id, fingerprint = tenant",
            "the fingerprint mentions nothing of the single message",
        ),
    ] {
        fails_as(&faults_of(BATCH, bad), bad, part);
    }
    for (ty, advice) in [
        (
            "&[Event]",
            "write `events: Vec<Event>`, or `events: Vec<&Event>`",
        ),
        ("&mut [Event]", "write `events: Vec<Event>`"),
        ("&Vec<Event>", "write `events: Vec<Event>`"),
        ("[Event; 3]", "write `events: Vec<Event>`"),
        ("&Batch", "write `events: Vec<Event>`"),
        ("impl Iterator<Item = Event>", "write `events: Vec<Event>`"),
    ] {
        let handler = BATCH.replace("Vec<Event>", ty);
        let faults = faults_of(&handler, "each = event in events, key = event.id");
        fails_as(&faults, ty, advice);
    }
    for ty in ["Batch", "std::vec::Vec<Event>", "Vec<&'static Event>"] {
        let handler = BATCH.replace("Vec<Event>", ty);
        let faults = faults_of(&handler, "each = event in events, key = event.id");
        assert_eq!(faults, [""; 0], "{ty}");
    }
}
