use std::fmt::Display;

use proc_macro2::TokenTree;
use syn::ext::IdentExt;
use syn::parse::discouraged::Speculative;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, ExprLit, Ident, Lit, LitStr, Token};

use super::written::Written;
use crate::errors::Errors;

/// An argument whose name was read, and whose value comes next. What is wrong with the value is reported, and there is none.
pub(super) struct Reader<'a, 'p> {
    name: &'a Ident,
    /// How the argument is written.
    form: &'static str,
    input: ParseStream<'p>,
    pub(super) errors: &'a mut Errors,
}

impl<'a, 'p> Reader<'a, 'p> {
    pub(super) fn new(
        name: &'a Ident,
        form: &'static str,
        input: ParseStream<'p>,
        errors: &'a mut Errors,
    ) -> Self {
        Self {
            name,
            form,
            input,
            errors,
        }
    }

    /// An argument that takes no value. `purpose` ends the sentence that says how it is written.
    pub(super) fn flag(&mut self, purpose: &str) {
        let name = self.name;
        if !self.is_at_end() {
            self.errors.at(
                name,
                format!("`{name}` takes no value; write `{name}` alone{purpose}, or leave it out"),
            );
        }
    }

    /// Whether the argument ends here, as one without a value does.
    pub(super) fn is_at_end(&self) -> bool {
        self.input.is_empty() || self.input.peek(Token![,])
    }

    pub(super) fn name(&self) -> &'a Ident {
        self.name
    }

    pub(super) fn expression(&mut self) -> Option<Expr> {
        self.value("an expression", Expr::parse)
    }

    /// An expression, with its text.
    pub(super) fn written(&mut self) -> Option<Written> {
        let (expression, quoted) = self.quoted_or_bare("an expression", Expr::parse)?;
        Some(Written::new(expression, quoted.as_ref()))
    }

    /// The value after `=`. A string holds it; anything else is it.
    pub(super) fn value<T>(
        &mut self,
        what: &str,
        parse: impl Fn(ParseStream<'_>) -> syn::Result<T>,
    ) -> Option<T> {
        self.quoted_or_bare(what, parse).map(|(value, _)| value)
    }

    /// The value, and the string that holds it, if one does.
    fn quoted_or_bare<T>(
        &mut self,
        what: &str,
        parse: impl Fn(ParseStream<'_>) -> syn::Result<T>,
    ) -> Option<(T, Option<LitStr>)> {
        self.equals()?;
        let ahead = self.input.fork();
        let quoted = ahead
            .parse::<LitStr>()
            .ok()
            .filter(|_| ahead.is_empty() || ahead.peek(Token![,]) || ahead.peek(Ident::peek_any));
        let Some(text) = quoted else {
            let parsed = parse(self.input);
            return Some((self.finish(what, parsed)?, None));
        };
        self.input.advance_to(&ahead);
        if text.value().trim().is_empty() {
            let (name, form) = (self.name, self.form);
            self.errors.at(
                text,
                format!("the value of `{name}` is empty; write `{form}`"),
            );
            return None;
        }
        let parsed = text.parse_with(parse);
        Some((self.finish(what, parsed)?, Some(text)))
    }

    /// The value after `=` as it stands, for arguments to which a string is no expression.
    pub(super) fn literal(&mut self) -> Option<Expr> {
        self.equals()?;
        // From a macro of the user's, a literal comes in a group that nobody sees.
        let parsed = self.input.parse().map(|value| match value {
            Expr::Group(group) => *group.expr,
            value => value,
        });
        self.finish("a value", parsed)
    }

    /// A string. `quoted` is what to write instead of a value that is none.
    pub(super) fn string(
        &mut self,
        reason: &str,
        quoted: impl Fn(&Expr) -> String,
    ) -> Option<LitStr> {
        let value = self.literal()?;
        if let Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) = value
        {
            return Some(text);
        }
        let form = quoted(&value);
        self.errors.at(value, format!("{reason}; write `{form}`"));
        None
    }

    fn equals(&mut self) -> Option<()> {
        let (name, form) = (self.name, self.form);
        if !self.input.peek(Token![=]) {
            self.errors.at(
                name,
                format!("`{name}` takes its value after `=`; write `{form}`"),
            );
            return None;
        }
        let equals: Token![=] = self.input.parse().ok()?;
        if self.is_at_end() {
            self.errors.at(
                equals,
                format!("the value of `{name}` is missing; write `{form}`"),
            );
            return None;
        }
        Some(())
    }

    /// A value with something behind it was most likely meant otherwise.
    fn finish<T>(&mut self, what: &str, parsed: syn::Result<T>) -> Option<T> {
        let (name, form) = (self.name, self.form);
        let value = match parsed {
            Ok(value) => value,
            Err(error) => {
                let text = format!("`{name}` is not {what} ({error}); write `{form}`");
                self.errors.push(syn::Error::new(error.span(), text));
                return None;
            }
        };
        if self.is_at_end() {
            return Some(value);
        }
        if let Some(next) = next_argument(self.input) {
            let text = format!("a comma is missing before `{next}`");
            self.errors.at(next, text);
            return Some(value);
        }
        let rest: TokenTree = self.input.parse().ok()?;
        let text = format!("the value of `{name}` ends before this; write `{form}`");
        self.errors.at(rest, text);
        None
    }

    pub(super) fn fault(&mut self, at: impl quote::ToTokens, text: impl Display) {
        self.errors.at(at, text);
    }
}

/// The name of an argument, if one comes next that has a value.
pub(super) fn next_argument(input: ParseStream<'_>) -> Option<Ident> {
    let ahead = input.fork();
    let name = ahead.call(Ident::parse_any).ok()?;
    (ahead.peek(Token![=]) && !ahead.peek(Token![==])).then_some(name)
}
