use crate::args::Args;
use crate::errors::Errors;
use crate::scope::Scope;

/// Two arguments that do not go together, and why, with what to write.
const CONFLICTS: [(&str, &str, &str); 11] = [
    (
        "version",
        "replay",
        "only the latest version under a key is kept, and the values of earlier ones are gone; leave `replay` out",
    ),
    (
        "version",
        "fingerprint",
        "the versions under a key differ in content, as they should; leave `fingerprint` out",
    ),
    (
        "version",
        "business_key",
        "the key already names the thing that has versions; leave `business_key` out, and let `key` name what it named",
    ),
    (
        "version",
        "each",
        "a batch is claimed in one statement, and versions are compared one by one; leave `each` out and take one message",
    ),
    (
        "version",
        "retain",
        "the row under a key is that of the thing which has versions, and is never pruned, since an old version would then be new again; leave `retain` out",
    ),
    (
        "version",
        "redelivery",
        "the row under a key is never pruned, however long the broker redelivers; leave `redelivery` out",
    ),
    (
        "version",
        "business_retain",
        "beside versions there are no business keys; leave `business_retain` out",
    ),
    (
        "version",
        "time",
        "the row under a key belongs to all versions and not to one day, and would not be found on the next; leave `time` out",
    ),
    (
        "each",
        "replay",
        "the handler returns one value for the batch, and a duplicate in it has none of its own; leave `replay` out",
    ),
    (
        "each",
        "retries",
        "the body takes the fresh messages by value, and has none left for a second run; leave `retries` out, and call the handler within `idem::retry` with a clone of the messages",
    ),
    (
        "each",
        "business_key",
        "a batch is claimed in one statement, by one key per message; make it the `key`, or leave `each` out and take one message",
    ),
];

/// An argument that says something about another one.
struct Need {
    argument: &'static str,
    other: &'static str,
    /// What is wrong without the other one.
    reason: &'static str,
    /// A field for an example of the other one.
    field: &'static str,
    /// Beside this one, the other one is not possible.
    without: Option<&'static str>,
}

const NEEDS: [Need; 3] = [
    Need {
        argument: "gapless",
        other: "version",
        reason: "says that no version is left out, and there is no version",
        field: "version",
        without: None,
    },
    Need {
        argument: "business_retain",
        other: "business_key",
        reason: "says how long business keys are kept, and there is no business key",
        field: "order_id",
        without: Some("each"),
    },
    Need {
        argument: "from_plain",
        other: "time",
        reason: "is for claims that move from the plain table into days, and nothing says which day a message is of",
        field: "time",
        without: Some("version"),
    },
];

/// Reports what makes no sense together, on the later one of the two arguments, and what makes none alone.
pub(crate) fn check(args: &Args, scope: &Scope, errors: &mut Errors) {
    let mut refused = Vec::new();
    for (one, other, reason) in CONFLICTS {
        if let Some((first, second, at)) = args.both([one, other]) {
            refused.extend([first, second]);
            errors.at(
                at,
                format!("`{second}` does not go together with `{first}`: {reason}"),
            );
        }
    }
    for need in NEEDS {
        let Need {
            argument,
            other,
            reason,
            ..
        } = need;
        let Some(at) = args.written(argument) else {
            continue;
        };
        if args.has(other) || refused.contains(&argument) {
            continue;
        }
        let advice = if need.without.is_some_and(|without| args.has(without)) {
            format!("leave `{argument}` out")
        } else {
            format!("add `{other} = \"{}\"`", scope.example(need.field))
        };
        errors.at(at, format!("`{argument}` {reason}; {advice}"));
    }
}
