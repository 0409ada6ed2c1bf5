use syn::Expr;

use crate::errors::Errors;
use crate::scope::Scope;

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
    /// The longest tuple that has the trait it needs.
    most_parts: usize,
}

const MANY: &str =
    "a constant makes every message a duplicate of the first, a generated id makes none";

pub(crate) const KEY: Subject = Subject {
    argument: "key",
    noun: "the key",
    field: "id",
    constant: MANY,
    most_parts: 8,
};

pub(crate) const BUSINESS_KEY: Subject = Subject {
    argument: "business_key",
    noun: "the business key",
    field: "order_id",
    constant: MANY,
    most_parts: 8,
};

pub(crate) const FINGERPRINT: Subject = Subject {
    argument: "fingerprint",
    noun: "the fingerprint",
    field: "amount",
    constant: "a constant is the same for two messages under one key, and finds out nothing",
    most_parts: 16,
};

pub(crate) const VERSION: Subject = Subject {
    argument: "version",
    noun: "the version",
    field: "version",
    constant: "a constant makes every message but the first a duplicate",
    most_parts: 1,
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
                "{noun} mentions nothing of the single message, so that it is the same for all messages of the batch; take it from {}, {example}",
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
    match expression {
        Expr::Tuple(_) if subject.most_parts == 1 => errors.at(
            expression,
            format!(
                "{noun} is one integer, by which the messages of a key are put in order; name that, as in `{argument} = \"event.version\"`"
            ),
        ),
        Expr::Tuple(tuple) => {
            if tuple.elems.len() > subject.most_parts {
                errors.at(
                    expression,
                    format!(
                        "{noun} has at most {} parts at one level, and this one has {}; nest some, as in `{argument} = \"(a, (b, c))\"`",
                        subject.most_parts,
                        tuple.elems.len()
                    ),
                );
            }
            let parts = tuple.elems.iter();
            parts.for_each(|part| check_length(subject, part, errors));
        }
        Expr::Paren(paren) => check_length(subject, &paren.expr, errors),
        Expr::Group(group) => check_length(subject, &group.expr, errors),
        _ => {}
    }
}
