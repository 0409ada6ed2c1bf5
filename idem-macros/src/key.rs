use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprPath, Macro, PatIdent};

use crate::errors::{Errors, nearest};
use crate::handler::Handler;

/// Finds keys that cannot be right: a constant, a name that is no parameter, the transaction.
pub(crate) fn check(key: &Expr, handler: &Handler, errors: &mut Errors) {
    let mut bound = Bound::default();
    bound.visit_expr(key);
    let mut check = Check {
        handler,
        bound: bound.0,
        mentions: false,
        unknown: None,
        transaction: None,
    };
    check.visit_expr(key);
    let Check {
        mentions,
        unknown,
        transaction,
        ..
    } = check;
    let parameters = || {
        let names: Vec<String> = handler
            .parameters
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        match names.as_slice() {
            [] => "the handler has none".to_owned(),
            names => format!("they are {}", names.join(", ")),
        }
    };
    if let Some(path) = transaction {
        errors.at(
            path,
            "the key is taken from the transaction, which is new in every delivery; take it from the message, as in `key = \"event.id\"`",
        );
    } else if let Some((path, name)) = unknown {
        let hint = nearest(&name, handler.parameters.iter().map(String::as_str))
            .map_or_else(&parameters, |meant| format!("did you mean `{meant}`?"));
        errors.at(
            path,
            format!("the key names `{name}`, which is no parameter of the handler; {hint}"),
        );
    } else if !mentions {
        errors.at(
            key,
            format!(
                "the key mentions no parameter of the handler, so that it is not the message's: a constant makes every message a duplicate of the first, a generated id makes none; build it from the parameters ({})",
                parameters()
            ),
        );
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
    transaction: Option<ExprPath>,
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
        call.args.iter().for_each(|arg| self.visit_expr(arg));
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
