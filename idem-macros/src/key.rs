use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprMethodCall, ExprPath, Macro, PatIdent};

use crate::errors::{Errors, nearest};
use crate::handler::Handler;

/// The longest tuple that the runtime implements `Key` for.
const MAX_PARTS: usize = 8;

/// Finds keys that cannot be right: a constant, a name that is no parameter, the transaction.
pub(crate) fn check(key: &Expr, handler: &Handler, errors: &mut Errors) {
    let mut bound = Bound::default();
    bound.visit_expr(key);
    let mut check = Check {
        handler,
        bound: bound.0,
        mentions: false,
        unknown: None,
        argument: None,
        transaction: None,
    };
    check.visit_expr(key);
    let Check {
        mentions,
        unknown,
        argument,
        transaction,
        ..
    } = check;
    let unknown = unknown.or(argument.filter(|_| !mentions));
    let example = handler.example_key();
    if let Some(path) = transaction {
        errors.at(
            path,
            format!(
                "the key is taken from the transaction, which is a new one in every delivery; take it from the message, as in `key = \"{example}\"`"
            ),
        );
    } else if let Some((path, name)) = unknown {
        let hint = nearest(&name, handler.parameters.iter().map(String::as_str)).map_or_else(
            || {
                format!(
                    "take it from {}, as in `key = \"{example}\"`",
                    list(handler)
                )
            },
            |meant| format!("did you mean `{meant}`?"),
        );
        errors.at(
            path,
            format!("the key names `{name}`, which is no parameter of the handler; {hint}"),
        );
    } else if !mentions {
        errors.at(
            key,
            format!(
                "the key mentions no parameter of the handler, so that it does not depend on the message: a constant makes every message a duplicate of the first, a generated id makes none; build it from {}, as in `key = \"{example}\"`",
                list(handler)
            ),
        );
    }
    check_length(key, errors);
}

/// The parameters, as part of a sentence.
fn list(handler: &Handler) -> String {
    let names: Vec<String> = handler
        .parameters
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    match names.as_slice() {
        [] => "a parameter for the message, which the handler lacks".to_owned(),
        names => names.join(" or "),
    }
}

/// A longer tuple implements no traits.
fn check_length(key: &Expr, errors: &mut Errors) {
    match key {
        Expr::Tuple(tuple) => {
            if tuple.elems.len() > MAX_PARTS {
                errors.at(
                    key,
                    format!(
                        "a key has at most {MAX_PARTS} parts at one level, and this one has {}; nest some, as in `key = \"(a, (b, c))\"`",
                        tuple.elems.len()
                    ),
                );
            }
            tuple
                .elems
                .iter()
                .for_each(|part| check_length(part, errors));
        }
        Expr::Paren(paren) => check_length(&paren.expr, errors),
        Expr::Group(group) => check_length(&group.expr, errors),
        _ => {}
    }
}

/// The names that patterns within the expression bind: closures, `match`, `let`.
#[derive(Default)]
struct Bound(BTreeSet<String>);

impl Visit<'_> for Bound {
    fn visit_pat_ident(&mut self, pattern: &PatIdent) {
        self.0.insert(pattern.ident.to_string());
        visit::visit_pat_ident(self, pattern);
    }
}

struct Check<'a> {
    handler: &'a Handler,
    bound: BTreeSet<String>,
    mentions: bool,
    unknown: Option<(ExprPath, String)>,
    argument: Option<(ExprPath, String)>,
    transaction: Option<ExprPath>,
}

impl Check<'_> {
    /// An argument may be a function, as in `.map(line_id)`: an unknown name is held against the key only if there is no parameter in it.
    fn visit_argument(&mut self, argument: &Expr) {
        let before = self.unknown.take();
        self.visit_expr(argument);
        if let Expr::Path(_) = argument {
            self.argument = self.argument.take().or(self.unknown.take());
        }
        self.unknown = before.or(self.unknown.take());
    }
}

impl Visit<'_> for Check<'_> {
    fn visit_expr_path(&mut self, path: &ExprPath) {
        let Some(name) = path.path.get_ident() else {
            return;
        };
        let name = name.to_string();
        let is_variable = !name.starts_with(char::is_uppercase);
        if self.handler.parameters.contains(&name) {
            self.mentions = true;
        } else if self.handler.transaction_name.as_deref() == Some(&name) {
            self.transaction.get_or_insert_with(|| path.clone());
        } else if is_variable && !self.bound.contains(&name) {
            self.unknown.get_or_insert_with(|| (path.clone(), name));
        }
    }

    fn visit_expr_call(&mut self, call: &ExprCall) {
        // What is called by its name is a function, and no parameter.
        if !matches!(&*call.func, Expr::Path(_)) {
            self.visit_expr(&call.func);
        }
        call.args.iter().for_each(|arg| self.visit_argument(arg));
    }

    fn visit_expr_method_call(&mut self, call: &ExprMethodCall) {
        self.visit_expr(&call.receiver);
        call.args.iter().for_each(|arg| self.visit_argument(arg));
    }

    fn visit_macro(&mut self, mac: &Macro) {
        self.mentions |= mentions(mac.tokens.clone(), &self.handler.parameters);
    }
}

/// Whether the tokens of a macro name a parameter, also as `{name` in a format string.
fn mentions(tokens: TokenStream, parameters: &[String]) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(name) => parameters.contains(&name.to_string()),
        TokenTree::Group(group) => mentions(group.stream(), parameters),
        TokenTree::Literal(literal) => {
            let text = literal.to_string();
            parameters
                .iter()
                .any(|name| text.contains(&format!("{{{name}")))
        }
        TokenTree::Punct(_) => false,
    })
}
