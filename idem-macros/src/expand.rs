use proc_macro2::TokenStream;
use quote::quote;
use syn::{ItemFn, ReturnType, Type};

use crate::args;
use crate::errors::Errors;
use crate::handler::{self, Handler};
use crate::key;
use crate::render::{self, Call};
use crate::types;

/// The whole attribute, on tokens that tests can make too.
pub(crate) fn idempotent(args: TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = args::parse(args, &mut errors);
    let Some(function) = handler::parse(item, &mut errors) else {
        let errors = errors.into_compile_error();
        return quote!(#errors #item);
    };
    let handler = Handler::new(function, args.allow_pool.given().is_some(), &mut errors);
    args.check_present(
        &handler.example_key(),
        handler.item.sig.fn_token.span,
        &mut errors,
    );
    if let Some(expression) = args.key.given() {
        key::check(expression, &handler, &mut errors);
    }
    let call = match (args.key.given(), args.consumer.given()) {
        (Some(key), Some(consumer)) if errors.is_empty() => Call::of(key, consumer),
        _ => Call::unknown(),
    };
    let errors = errors.into_compile_error();
    // Whatever is wrong with the arguments, callers of a sound handler see the signature that it will have.
    let function = match handler.transaction.as_ref().filter(|_| handler.is_sound) {
        Some(transaction) => render::handler(&handler.item, transaction, &call),
        None => repaired(handler.item),
    };
    quote!(#errors #function)
}

/// The user's function for editors to go on with, without a second error for what was reported.
fn repaired(mut function: ItemFn) -> TokenStream {
    let returns_future = matches!(&function.sig.output, ReturnType::Type(_, ty)
        if matches!(**ty, Type::ImplTrait(_)) || types::returns_boxed_future(ty));
    if !returns_future {
        function.sig.asyncness.get_or_insert_with(Default::default);
    }
    quote!(#function)
}

#[cfg(test)]
mod tests;
