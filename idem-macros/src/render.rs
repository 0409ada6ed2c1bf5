use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{
    AttrStyle, Block, Expr, ExprTuple, FnArg, ItemFn, Lifetime, LitStr, Pat, ReturnType, Signature,
    Stmt, Type,
};

use crate::handler::Transaction;
use crate::types;

/// What the arguments say, as the expansion passes it on.
pub(crate) struct Call {
    key: TokenStream,
    consumer: TokenStream,
}

impl Call {
    pub(crate) fn of(key: &Expr, consumer: &LitStr) -> Self {
        Self {
            key: key_call(key),
            consumer: consumer.to_token_stream(),
        }
    }

    /// Stands in for arguments that were reported as wrong; it only has to pass the type checker.
    pub(crate) fn unknown() -> Self {
        let private = private(Span::call_site());
        Self {
            key: quote!(#private::key("unknown")),
            consumer: quote!("unknown"),
        }
    }
}

/// `async fn f(tx: &mut C, ..) -> Result<T, E> { body }` becomes `async fn f(tx: impl Source<..>, ..) -> Result<Outcome<T>, E>` around the
/// body, as `expansion.md` shows.
pub(crate) fn handler(item: &ItemFn, transaction: &Transaction, call: &Call) -> TokenStream {
    let ItemFn {
        attrs,
        vis,
        sig,
        block,
        ..
    } = item;
    let attrs = attrs.iter().map(|attribute| {
        // An inner attribute cannot stay where it is printed.
        let mut attribute = attribute.clone();
        attribute.style = AttrStyle::Outer;
        attribute
    });
    let private = private(Span::call_site());
    let source = source_name(transaction);
    let outer = outer_signature(sig, transaction, &source);
    let unit = Type::Verbatim(quote!(()));
    let result = match &sig.output {
        ReturnType::Type(_, result) => result,
        ReturnType::Default => &unit,
    };
    let (pattern, ty) = (&transaction.pattern, elided(&transaction.ty));
    let (convert, body) = (convert(result), body(block, result));
    let Call { key, consumer } = call;
    // The names below are the macro's own: they neither see nor hide the user's.
    let [slot, id, failed, delivery, outcome, span, value] = [
        "slot", "key", "failed", "delivery", "outcome", "span", "result",
    ]
    .map(|name| Ident::new(name, Span::mixed_site()));
    let returned = as_result(&value, result);
    quote! {
        #(#attrs)* #vis #outer {
            let #failed = #convert;
            let #id = #key;
            let mut #slot = #private::Slot::new();
            let mut #delivery = match #private::begin(&mut #slot, #source, #consumer, #id, #failed).await {
                #private::Begun::Fresh(#delivery) => #delivery,
                #private::Begun::Ended(#outcome) => return #outcome,
            };
            let #span = #delivery.span();
            let #pattern: &mut #ty = #delivery.transaction();
            let #value = #span.within(#body).await;
            #delivery.finish(#returned, #failed).await
        }
    }
}

/// The runtime's door. Its tokens take the span too, since a complaint about a path is shown on all of it.
fn private(span: Span) -> TokenStream {
    quote_spanned!(span=> ::idem::__private)
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
    let span = transaction.ty.span();
    let (private, database) = (private(span), database(&transaction.ty));
    let parameter = quote_spanned!(span=> #source: impl #private::Source<'_, Database = #database>);
    if let (Some(input), Ok(parameter)) = (
        outer.inputs.iter_mut().nth(transaction.index),
        syn::parse2::<FnArg>(parameter),
    ) {
        *input = parameter;
    }
    if let ReturnType::Type(_, result) = &mut outer.output {
        let (span, private) = (result.span(), self::private(result.span()));
        if let Some(value) = types::value_of_result(result) {
            *value = Type::Verbatim(quote_spanned!(span=> #private::Outcome<#value>));
        } else {
            **result = Type::Verbatim(quote_spanned!(span=> #private::OutcomeOf<#result>));
        }
    }
    drop_unused_lifetimes(&mut outer);
    outer
}

/// The database by its name where the type tells it: a missing feature is then one error, which names the feature. For an alias the type
/// checker has to find out.
fn database(ty: &Type) -> TokenStream {
    let (span, private) = (ty.span(), private(ty.span()));
    if let Some(name) = types::database(ty) {
        let name = Ident::new(name, span);
        return quote_spanned!(span=> #private::#name);
    }
    let mut ty = ty.clone();
    Lifetimes("'static").visit_type_mut(&mut ty);
    quote_spanned!(span=> #private::DatabaseOf<#ty>)
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

/// `failed::<E>()`, spanned so that the complaint about the bound of `E` is shown on `E`.
fn convert(result: &Type) -> TokenStream {
    let error = types::error_of_result(result).map_or_else(
        || {
            let (span, private) = (result.span(), private(result.span()));
            quote_spanned!(span=> #private::ErrorOf<#result>)
        },
        ToTokens::to_token_stream,
    );
    let (span, private) = (error.span(), private(error.span()));
    quote_spanned!(span=> #private::failed::<#error>())
}

/// The value as a `Result`. Only behind an alias is there something to ask the type checker for.
fn as_result(value: &Ident, result: &Type) -> TokenStream {
    if types::error_of_result(result).is_some() {
        return value.to_token_stream();
    }
    let (span, private) = (result.span(), private(result.span()));
    quote_spanned!(span=> #private::HandlerResult::into_result(#value))
}

/// The body as an async block, which starts by telling the type checker what it returns. An async closure could say it in its signature,
/// but then a wrong `Ok(..)` is reported as a mismatch of two async blocks.
fn body(block: &Block, result: &Type) -> TokenStream {
    let private = private(Span::call_site());
    let items = block
        .stmts
        .iter()
        .take_while(|statement| matches!(statement, Stmt::Item(_)))
        .count();
    // After the user's items, since clippy wants these to come first.
    let (items, statements) = block.stmts.split_at(items);
    let mut body = Group::new(
        Delimiter::Brace,
        quote! {
            #(#items)*
            if false {
                return #private::returns::<#result>();
            }
            #(#statements)*
        },
    );
    body.set_span(block.brace_token.span.join());
    quote!(async move #body)
}

/// `key(&event.id)`, spanned so that the type checker's complaint about the key is shown on the key.
fn key_call(key: &Expr) -> TokenStream {
    let (span, private) = (key.span(), private(key.span()));
    let key = match key {
        Expr::Tuple(tuple) => parts(tuple),
        Expr::Paren(paren) => return key_call(&paren.expr),
        Expr::Group(group) => return key_call(&group.expr),
        _ => borrow(key),
    };
    quote_spanned!(span=> #private::key(#key))
}

/// Borrows the parts of a tuple one by one, since a tuple would move them out of the message.
fn parts(tuple: &ExprTuple) -> TokenStream {
    let parts = tuple.elems.iter().map(|part| {
        if let Expr::Tuple(tuple) = part {
            return parts(tuple);
        }
        let (span, private, part) = (part.span(), private(part.span()), borrow(part));
        quote_spanned!(span=> #private::part(#part))
    });
    quote_spanned!(tuple.span()=> &(#(#parts,)*))
}

fn borrow(key: &Expr) -> TokenStream {
    match key {
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
