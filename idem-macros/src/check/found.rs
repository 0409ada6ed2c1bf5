use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprMethodCall, ExprPath, Macro, PatIdent};

use crate::scope::Scope;

/// What an expression names: the first of each kind.
pub(super) struct Found<'a> {
    scope: &'a Scope,
    /// The names that patterns within the expression bind: closures, `match`, `let`.
    bound: BTreeSet<String>,
    /// Whether it depends on the message.
    pub(super) mentions: bool,
    pub(super) unknown: Option<(ExprPath, String)>,
    /// An unknown name that may be a function.
    pub(super) argument: Option<(ExprPath, String)>,
    pub(super) batch: Option<(ExprPath, String)>,
    pub(super) transaction: Option<ExprPath>,
}

impl<'a> Found<'a> {
    pub(super) fn of(expression: &Expr, scope: &'a Scope) -> Self {
        let mut bound = Bound::default();
        bound.visit_expr(expression);
        let mut found = Self {
            scope,
            bound: bound.0,
            mentions: false,
            unknown: None,
            argument: None,
            batch: None,
            transaction: None,
        };
        found.visit_expr(expression);
        found
    }

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

impl Visit<'_> for Found<'_> {
    fn visit_expr_path(&mut self, path: &ExprPath) {
        let Some(name) = path.path.get_ident() else {
            return;
        };
        let name = name.to_string();
        let is_variable = !name.starts_with(char::is_uppercase);
        if self.scope.message.contains(&name) {
            self.mentions = true;
        } else if self.scope.batch.as_ref() == Some(&name) {
            self.batch.get_or_insert_with(|| (path.clone(), name));
        } else if self.scope.transaction.as_ref() == Some(&name) {
            self.transaction.get_or_insert_with(|| path.clone());
        } else if is_variable && !self.bound.contains(&name) && !self.scope.others.contains(&name) {
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
        self.mentions |= mentions(mac.tokens.clone(), &self.scope.message);
    }
}

#[derive(Default)]
struct Bound(BTreeSet<String>);

impl Visit<'_> for Bound {
    fn visit_pat_ident(&mut self, pattern: &PatIdent) {
        self.0.insert(pattern.ident.to_string());
        visit::visit_pat_ident(self, pattern);
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

/// The names in an expression, without what follows them.
pub(crate) fn names(expression: &Expr) -> Vec<String> {
    let mut names = Paths::default();
    names.visit_expr(expression);
    names.0
}

#[derive(Default)]
struct Paths(Vec<String>);

impl Visit<'_> for Paths {
    fn visit_expr_path(&mut self, path: &ExprPath) {
        self.0
            .extend(path.path.get_ident().map(ToString::to_string));
    }
}
