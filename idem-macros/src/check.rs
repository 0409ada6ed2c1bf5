use syn::Expr;

use crate::errors::Errors;
use crate::scope::Scope;
use crate::types::text;

mod arrival;
mod found;

use found::Found;
pub(crate) use found::names;

/// An argument that is an expression over the handler's parameters.
pub(crate) struct Subject {
    argument: &'static str,
    /// What a message calls it.
    noun: &'static str,
    /// A field for examples.
    field: &'static str,
    /// Why it has to depend on the message.
    constant: &'static str,
    /// What is wrong in a batch whose messages share one, as the rest of a sentence.
    shared: &'static str,
    parts: Parts,
}

enum Parts {
    /// The longest tuple that has the trait it needs.
    AtMost(usize),
    /// None. What it is, and what for.
    One(&'static str),
}

const MANY: &str =
    "a constant makes every message a duplicate of the first, a generated id makes none";

/// It speaks for itself.
const SAME: &str = "";

pub(crate) const KEY: Subject = Subject {
    argument: "key",
    noun: "the key",
    field: "id",
    constant: MANY,
    shared: SAME,
    parts: Parts::AtMost(8),
};

pub(crate) const BUSINESS_KEY: Subject = Subject {
    argument: "business_key",
    noun: "the business key",
    field: "order_id",
    constant: MANY,
    shared: SAME,
    parts: Parts::AtMost(8),
};

pub(crate) const FINGERPRINT: Subject = Subject {
    argument: "fingerprint",
    noun: "the fingerprint",
    field: "amount",
    constant: "a constant is the same for two messages under one key, and finds out nothing",
    shared: SAME,
    parts: Parts::AtMost(16),
};

pub(crate) const VERSION: Subject = Subject {
    argument: "version",
    noun: "the version",
    field: "version",
    constant: "a constant makes every message but the first a duplicate",
    shared: SAME,
    parts: Parts::One("integer, by which the messages of a key are put in order"),
};

const TIME: Subject = Subject {
    argument: "time",
    noun: "the time",
    field: "time",
    constant: "a fixed one puts all messages in one day, and a time of arrival such as `now()` is another one in each delivery, so that a redelivery on the next day would run again",
    shared: ", and another one for a message that comes again in another batch",
    parts: Parts::One("point in time, whose day is where the message is remembered"),
};

/// Finds what cannot be right: a constant, a name that is no parameter, the transaction.
pub(crate) fn check(subject: &Subject, expression: &Expr, scope: &Scope, errors: &mut Errors) {
    let faults = errors.count();
    check_length(subject, expression, errors);
    if errors.count() > faults {
        return;
    }
    let found = Found::of(expression, scope);
    let unknown = found.unknown.or(found.argument.filter(|_| !found.mentions));
    let Subject { argument, noun, .. } = subject;
    let example = scope.example(subject.field);
    let example = format!("as in `{argument} = \"{example}\"`");
    if let Some(path) = found.transaction {
        errors.at(
            path,
            format!(
                "{noun} is taken from the transaction, which is a new one in every delivery; take it from the message, {example}"
            ),
        );
    } else if let Some((path, name)) = found.batch {
        errors.at(
            path,
            format!(
                "{noun} belongs to one message, and `{name}` holds all of them; take it from {}, {example}",
                scope.list()
            ),
        );
    } else if let Some((path, name)) = unknown {
        let hint = scope.nearest(&name).map_or_else(
            || format!("take it from {}, {example}", scope.list()),
            |meant| format!("did you mean `{meant}`?"),
        );
        errors.at(
            path,
            format!(
                "{noun} names `{name}`, which is {}; {hint}",
                scope.stranger()
            ),
        );
    } else if !found.mentions && scope.is_batch() {
        errors.at(
            expression,
            format!(
                "{noun} mentions nothing of the single message, so that it is the same for all messages of the batch{}; take it from {}, {example}",
                subject.shared,
                scope.list()
            ),
        );
    } else if !found.mentions {
        errors.at(
            expression,
            format!(
                "{noun} mentions no parameter of the handler, so that it does not depend on the message: {}; build it from {}, {example}",
                subject.constant,
                scope.list()
            ),
        );
    }
}

/// The time is checked as the rest is, and for the hole that a clock would open.
pub(crate) fn check_time(time: &Expr, scope: &Scope, errors: &mut Errors) {
    let Some(clock) = arrival::find(time) else {
        return check(&TIME, time, scope, errors);
    };
    let text = text(&clock);
    errors.at(
        clock,
        format!(
            "`{text}` is the time of arrival, another one in each delivery: a redelivery on the next day would look for its message there, not find it, and run again; take the time from the message, as in `time = \"{}\"`",
            scope.example("time")
        ),
    );
}

/// A pool may be a static, or come from a function; a misspelt name and the transaction are wrong all the same.
pub(crate) fn check_pool(pool: &Expr, scope: &Scope, errors: &mut Errors) {
    let found = Found::of(pool, scope);
    if let Some(path) = found.transaction {
        errors.at(
            path,
            "the transaction is begun on the pool, and has none itself; name a pool, as in `pool = \"self.pool\"`",
        );
    } else if let Some((path, name)) = found.unknown {
        let hint = scope.nearest(&name).map_or_else(
            || format!("take it from {} or a static", scope.list()),
            |meant| format!("did you mean `{meant}`?"),
        );
        errors.at(
            path,
            format!("the pool is `{name}`, which is no parameter of the handler; {hint}"),
        );
    }
}

/// A longer tuple implements no traits.
fn check_length(subject: &Subject, expression: &Expr, errors: &mut Errors) {
    let Subject { argument, noun, .. } = subject;
    match (expression, &subject.parts) {
        (Expr::Tuple(_), Parts::One(what)) => errors.at(
            expression,
            format!(
                "{noun} is one {what}; name that, as in `{argument} = \"event.{}\"`",
                subject.field
            ),
        ),
        (Expr::Tuple(tuple), Parts::AtMost(most)) => {
            if tuple.elems.len() > *most {
                errors.at(
                    expression,
                    format!(
                        "{noun} has at most {most} parts at one level, and this one has {}; nest some, as in `{argument} = \"(a, (b, c))\"`",
                        tuple.elems.len()
                    ),
                );
            }
            let parts = tuple.elems.iter();
            parts.for_each(|part| check_length(subject, part, errors));
        }
        (Expr::Paren(paren), _) => check_length(subject, &paren.expr, errors),
        (Expr::Group(group), _) => check_length(subject, &group.expr, errors),
        _ => {}
    }
}
