use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{FnArg, GenericParam, Generics, Lifetime, Pat, PatIdent, ReturnType, Signature, Type};

use super::Plan;
use super::door::Door;
use crate::handler::Transaction;
use crate::types;

/// The name under which callers and `#[instrument(skip(..))]` know the parameter, if it has one.
pub(super) fn source_name(transaction: &Transaction) -> Ident {
    match &transaction.pattern {
        Pat::Ident(pattern) => pattern.ident.clone(),
        _ => Ident::new("source", Span::mixed_site()),
    }
}

/// What callers see.
pub(super) fn outer(signature: &Signature, transaction: &Transaction, plan: &Plan) -> Signature {
    let mut outer = signature.clone();
    let place = transaction.index;
    if plan.has_pool {
        let inputs = std::mem::take(&mut outer.inputs).into_iter().enumerate();
        let others = inputs.filter(|(index, _)| *index != place);
        outer.inputs = others.map(|(_, input)| input).collect();
    } else if let Some(input) = outer.inputs.iter_mut().nth(place)
        && let Ok(source) = source(transaction, &plan.door)
    {
        *input = source;
    }
    if let Some(batch) = &plan.batch {
        // The body gets its `mut` from the fresh messages.
        let inputs = outer.inputs.iter_mut();
        inputs.for_each(|input| Unmutable(&batch.messages.ident).visit_fn_arg_mut(input));
    }
    if let ReturnType::Type(_, result) = &mut outer.output {
        let (span, private) = (result.span(), plan.door.at(result.span()));
        let name = if plan.is_batch {
            "BatchOutcome"
        } else {
            "Outcome"
        };
        if let Some(value) = types::value_of_result(result) {
            let name = Ident::new(name, span);
            *value = Type::Verbatim(quote_spanned!(span=> #private::#name<#value>));
        } else {
            let name = Ident::new(&format!("{name}Of"), span);
            **result = Type::Verbatim(quote_spanned!(span=> #private::#name<#result>));
        }
    }
    drop_unused_lifetimes(&mut outer);
    outer
}

fn source(transaction: &Transaction, door: &Door) -> syn::Result<FnArg> {
    let span = transaction.ty.span();
    let (name, private) = (source_name(transaction), door.at(span));
    let database = database(&transaction.ty, door);
    syn::parse2(quote_spanned!(span=> #name: impl #private::Source<'_, Database = #database>))
}

/// The database by its name where the type tells it: a missing feature is then one error, which names the feature. For an alias the type
/// checker has to find out.
pub(super) fn database(ty: &Type, door: &Door) -> TokenStream {
    database_at(ty.span(), ty, door)
}

/// The same, for a complaint that is shown elsewhere.
pub(super) fn database_at(span: Span, ty: &Type, door: &Door) -> TokenStream {
    let private = door.at(span);
    if let Some(name) = types::database(ty) {
        let name = Ident::new(name, span);
        return quote_spanned!(span=> #private::#name);
    }
    let mut ty = ty.clone();
    Lifetimes("'static").visit_type_mut(&mut ty);
    quote_spanned!(span=> #private::DatabaseOf<#ty>)
}

/// The type within the body, where its lifetimes are the delivery's.
pub(super) fn elided(ty: &Type) -> Type {
    let mut ty = ty.clone();
    Lifetimes("'_").visit_type_mut(&mut ty);
    ty
}

/// A lifetime that only the transaction had would be declared for nothing.
fn drop_unused_lifetimes(signature: &mut Signature) {
    let without_parameters = Signature {
        generics: Generics {
            params: signature
                .generics
                .params
                .iter()
                .filter(|parameter| !matches!(parameter, GenericParam::Lifetime(_)))
                .cloned()
                .collect(),
            ..signature.generics.clone()
        },
        ..signature.clone()
    };
    let used = without_parameters.to_token_stream().to_string();
    let params = std::mem::take(&mut signature.generics.params);
    signature.generics.params = params
        .into_iter()
        .filter(|parameter| match parameter {
            GenericParam::Lifetime(lifetime) => {
                used.contains(&format!("'{}", lifetime.lifetime.ident))
            }
            _ => true,
        })
        .collect();
}

/// Replaces every lifetime but `'static`.
struct Lifetimes(&'static str);

impl VisitMut for Lifetimes {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident != "static" {
            *lifetime = Lifetime::new(self.0, lifetime.span());
        }
    }
}

/// Takes the `mut` off one name.
struct Unmutable<'a>(&'a Ident);

impl VisitMut for Unmutable<'_> {
    fn visit_pat_ident_mut(&mut self, pattern: &mut PatIdent) {
        if pattern.ident == *self.0 {
            pattern.mutability = None;
        }
        visit_mut::visit_pat_ident_mut(self, pattern);
    }
}
