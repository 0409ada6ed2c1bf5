use crate::args::Args;
use crate::errors::Errors;

/// Two arguments that do not go together, and why, with what to write.
const CONFLICTS: [(&str, &str, &str); 7] = [
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

/// Reports what makes no sense together, on the later one of the two arguments.
pub(crate) fn check(args: &Args, example: &str, errors: &mut Errors) {
    for (one, other, reason) in CONFLICTS {
        if let Some((first, second, at)) = args.both([one, other]) {
            errors.at(
                at,
                format!("`{second}` does not go together with `{first}`: {reason}"),
            );
        }
    }
    if let Some(gapless) = args.written("gapless")
        && !args.has("version")
    {
        errors.at(
            gapless,
            format!(
                "`gapless` says that no version is left out, and there is no version; add `version = \"{example}\"`"
            ),
        );
    }
}
