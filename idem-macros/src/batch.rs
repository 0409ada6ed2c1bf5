use syn::visit::Visit;
use syn::{FnArg, Ident, Pat, PatIdent, PatType, Type};

use crate::args::Each;
use crate::errors::{Errors, nearest};
use crate::handler::{Handler, Names};
use crate::types::{text, vec_item};

/// What `each` names, found in the handler.
pub(crate) struct Batch {
    /// What names one message.
    pub(crate) pattern: Pat,
    /// The names that it binds.
    pub(crate) names: Vec<String>,
    /// The parameter's own pattern for the messages.
    pub(crate) messages: PatIdent,
    /// The type around it: of the messages, or of what they are taken from.
    pub(crate) ty: Type,
}

impl Batch {
    /// Finds the parameter, and refuses what cannot hold the fresh ones of its messages.
    pub(crate) fn find(each: &Each, handler: &Handler, errors: &mut Errors) -> Option<Self> {
        let names = Names::of(&each.pattern);
        if names.is_empty() {
            let pattern = &each.pattern;
            errors.at(
                pattern,
                format!(
                    "`{}` names no message, and the key is taken from one; write `each = \"event in {}\"`",
                    text(pattern),
                    each.messages
                ),
            );
            return None;
        }
        let Some((messages, PatType { pat, ty, .. })) = parameter(each, handler) else {
            report_missing(each, handler, errors);
            return None;
        };
        // A name inside a pattern has another type than the parameter.
        let is_whole = matches!(&**pat, Pat::Ident(_));
        if is_whole && is_no_vec(ty) {
            let (name, item) = (&messages.ident, item(ty));
            errors.at(
                ty,
                format!(
                    "the handler takes the messages by value, since it gets those that are fresh: write `{name}: Vec<{item}>`, or `{name}: Vec<&{item}>` for the messages of a slice, which callers make with `.iter().collect()`"
                ),
            );
            return None;
        }
        Some(Self {
            pattern: each.pattern.clone(),
            names,
            messages: messages.clone(),
            ty: (**ty).clone(),
        })
    }
}

fn parameter<'h>(each: &'h Each, handler: &'h Handler) -> Option<(&'h PatIdent, &'h PatType)> {
    let transaction = handler.transaction.as_ref().map(|tx| tx.index);
    let inputs = handler.item.sig.inputs.iter().enumerate();
    let mut others = inputs.filter(|(place, _)| Some(*place) != transaction);
    others.find_map(|(_, input)| {
        let FnArg::Typed(input) = input else {
            return None;
        };
        let mut finder = Finder {
            name: &each.messages,
            found: None,
        };
        finder.visit_pat(&input.pat);
        Some((finder.found?, input))
    })
}

/// Finds the place in a parameter's pattern where a name is bound.
struct Finder<'a> {
    name: &'a Ident,
    found: Option<&'a PatIdent>,
}

impl<'a> Visit<'a> for Finder<'a> {
    fn visit_pat_ident(&mut self, pattern: &'a PatIdent) {
        if pattern.ident == *self.name {
            self.found = Some(pattern);
        }
        syn::visit::visit_pat_ident(self, pattern);
    }
}

fn report_missing(each: &Each, handler: &Handler, errors: &mut Errors) {
    let name = each.messages.to_string();
    let parameters = handler.parameters.iter().map(String::as_str);
    let candidates: Vec<&str> = parameters.filter(|name| *name != "self").collect();
    let fault = if handler.transaction_name.as_ref() == Some(&name) {
        "`each` names the transaction, which holds no messages".to_owned()
    } else {
        format!("`each` names `{name}`, which is no parameter of the handler")
    };
    let hint = match nearest(&name, candidates.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if candidates.is_empty() => {
            "add the messages as a parameter, `events: Vec<Event>`".to_owned()
        }
        None => format!(
            "name the parameter that holds the messages: `{}`",
            candidates.join("` or `")
        ),
    };
    errors.at(&each.messages, format!("{fault}; {hint}"));
}

/// A type that holds messages which the handler does not own, or holds them otherwise than in a `Vec`. An alias may be one.
fn is_no_vec(ty: &Type) -> bool {
    match ty {
        Type::Reference(_) | Type::Slice(_) | Type::Array(_) | Type::ImplTrait(_) => true,
        Type::Group(group) => is_no_vec(&group.elem),
        Type::Paren(paren) => is_no_vec(&paren.elem),
        _ => false,
    }
}

/// The type of one message, as it should stand in the `Vec`.
fn item(ty: &Type) -> String {
    match ty {
        Type::Reference(reference) => item(&reference.elem),
        Type::Group(group) => item(&group.elem),
        Type::Paren(paren) => item(&paren.elem),
        Type::Slice(slice) => text(&slice.elem),
        Type::Array(array) => text(&array.elem),
        _ => vec_item(ty).map_or_else(|| "Event".to_owned(), text),
    }
}
