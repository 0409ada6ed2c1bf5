use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{AttrStyle, Expr, FnArg, ItemFn, Lifetime, Pat, ReturnType, Signature, Type};

use crate::args::{self, Args};
use crate::errors::Errors;
use crate::handler::{self, Handler, Transaction};
use crate::key;

/// The whole attribute, on tokens that tests can make too.
pub(crate) fn idempotent(args: TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = args::parse(args, &mut errors);
    let Some(function) = handler::parse(item, &mut errors) else {
        let errors = errors.into_compile_error();
        return quote!(#errors #item);
    };
    let handler = Handler::new(function, args.allow_pool.given().is_some(), &mut errors);
    args.check_present(&handler.example_key(), &mut errors);
    if let Some(expression) = args.key.given() {
        key::check(expression, &handler, &mut errors);
    }
    if errors.is_empty()
        && let Some(expanded) = render(&handler, &args)
    {
        return expanded;
    }
    let errors = errors.into_compile_error();
    let function = repaired(handler.item);
    quote!(#errors #function)
}

/// The user's function for editors to go on with, without a second error for what was reported.
fn repaired(mut function: ItemFn) -> ItemFn {
    if !matches!(&function.sig.output, ReturnType::Type(_, ty) if matches!(**ty, Type::ImplTrait(_)))
    {
        function.sig.asyncness.get_or_insert_with(Default::default);
    }
    function
}

/// `async fn f(tx: &mut C, ..) -> Result<T, E> { body }` becomes `async fn f(tx: impl Source<..>, ..) -> Result<Outcome<T>, E>` around the
/// body, as `expansion.md` shows. `None` only if an argument is missing, which was reported.
fn render(handler: &Handler, args: &Args) -> Option<TokenStream> {
    let (key, consumer) = (args.key.given()?, args.consumer.given()?);
    let transaction = handler.transaction.as_ref()?;
    let private = quote!(::idem::__private);
    let ItemFn {
        attrs,
        vis,
        sig,
        block,
        ..
    } = &handler.item;
    let attrs = attrs.iter().map(|attribute| {
        // An inner attribute cannot stay where it is printed.
        let mut attribute = attribute.clone();
        attribute.style = AttrStyle::Outer;
        attribute
    });
    let source = source_name(transaction);
    let outer = outer_signature(sig, transaction, &source);
    let ReturnType::Type(_, result) = &sig.output else {
        return None;
    };
    let key = key_call(&private, key);
    let (pattern, ty) = (&transaction.pattern, elided(&transaction.ty));
    // The names below are the macro's own: they neither see nor hide the user's.
    let [slot, id, delivery, outcome, span, value] =
        ["slot", "key", "delivery", "outcome", "span", "result"]
            .map(|name| Ident::new(name, Span::mixed_site()));
    Some(quote! {
        #(#attrs)* #vis #outer {
            let #id = #key;
            let mut #slot = #private::Slot::new();
            let mut #delivery = match #private::begin::<_, _, #result>(&mut #slot, #source, #consumer, #id).await {
                #private::Begun::Fresh(#delivery) => #delivery,
                #private::Begun::Ended(#outcome) => return #outcome,
            };
            let #span = #delivery.span();
            let #pattern: &mut #ty = #delivery.transaction();
            let #value = #span.within((async move || -> #result #block)()).await;
            #delivery.finish(#value).await
        }
    })
}

/// The name under which callers and `#[instrument(skip(..))]` know the parameter, if it has one.
fn source_name(transaction: &Transaction) -> Ident {
    match &transaction.pattern {
        Pat::Ident(pattern) => pattern.ident.clone(),
        _ => Ident::new("source", Span::mixed_site()),
    }
}

/// What callers see.
fn outer_signature(signature: &Signature, transaction: &Transaction, source: &Ident) -> Signature {
    let mut outer = signature.clone();
    let mut ty = transaction.ty.clone();
    Lifetimes("'static").visit_type_mut(&mut ty);
    let span = transaction.ty.span();
    let parameter = quote_spanned!(span=> #source: impl ::idem::__private::Source<'_, Database = ::idem::__private::DatabaseOf<#ty>>);
    if let (Some(input), Ok(parameter)) = (
        outer.inputs.iter_mut().nth(transaction.index),
        syn::parse2::<FnArg>(parameter),
    ) {
        *input = parameter;
    }
    if let ReturnType::Type(_, result) = &mut outer.output {
        if let Some(value) = handler::value_of_result(result) {
            *value = Type::Verbatim(quote!(::idem::__private::Outcome<#value>));
        } else {
            **result = Type::Verbatim(
                quote_spanned!(result.span()=> ::idem::__private::OutcomeOf<#result>),
            );
        }
    }
    drop_unused_lifetimes(&mut outer);
    outer
}

/// A lifetime that only the transaction had would be declared for nothing.
fn drop_unused_lifetimes(signature: &mut Signature) {
    let without_parameters = Signature {
        generics: syn::Generics {
            params: signature
                .generics
                .params
                .iter()
                .filter(|parameter| !matches!(parameter, syn::GenericParam::Lifetime(_)))
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
            syn::GenericParam::Lifetime(lifetime) => {
                used.contains(&format!("'{}", lifetime.lifetime.ident))
            }
            _ => true,
        })
        .collect();
}

/// The type within the body, where its lifetimes are the delivery's.
fn elided(ty: &Type) -> Type {
    let mut ty = ty.clone();
    Lifetimes("'_").visit_type_mut(&mut ty);
    ty
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

/// `key(&event.id)`, spanned so that the type checker's complaint about the key is shown on the key.
fn key_call(private: &TokenStream, key: &Expr) -> TokenStream {
    let borrowed = borrow(key);
    quote_spanned!(key.span()=> #private::key(#borrowed))
}

/// Borrows the expression. The parts of a tuple are borrowed one by one, since a tuple would move them out of the message.
fn borrow(key: &Expr) -> TokenStream {
    match key {
        Expr::Tuple(tuple) => {
            let parts = tuple.elems.iter().map(borrow);
            quote_spanned!(key.span()=> &(#(#parts,)*))
        }
        Expr::Paren(paren) => borrow(&paren.expr),
        Expr::Group(group) => borrow(&group.expr),
        Expr::Path(_)
        | Expr::Field(_)
        | Expr::MethodCall(_)
        | Expr::Call(_)
        | Expr::Index(_)
        | Expr::Macro(_)
        | Expr::Lit(_) => {
            quote_spanned!(key.span()=> &#key)
        }
        _ => quote_spanned!(key.span()=> &(#key)),
    }
}

#[cfg(test)]
mod tests;
