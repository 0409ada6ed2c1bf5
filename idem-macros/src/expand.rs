use proc_macro2::TokenStream;
use quote::quote;
use syn::{Expr, ItemFn, ReturnType, Type};

use crate::args::{self, Args};
use crate::batch::Batch;
use crate::check::{self, Subject};
use crate::combinations;
use crate::errors::Errors;
use crate::handler::{self, Handler};
use crate::render::{self, Plan};
use crate::scope::Scope;
use crate::types;
use crate::windows;

/// The whole attribute, on tokens that tests can make too.
pub(crate) fn idempotent(args: TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = args::parse(args, &mut errors);
    let Some(function) = handler::parse(item, &mut errors) else {
        let errors = errors.into_compile_error();
        return quote!(#errors #item);
    };
    let handler = Handler::new(function, &mut errors);
    let batch = check(&args, &handler, &mut errors);
    let plan = Plan::new(args, &handler.item.sig.ident, batch, errors.is_empty());
    let errors = errors.into_compile_error();
    // Whatever is wrong with the arguments, callers of a sound handler see the signature that it will have.
    let function = match handler.transaction.as_ref().filter(|_| handler.is_sound) {
        Some(transaction) => render::handler(&handler.item, transaction, &plan),
        None => repaired(handler.item),
    };
    quote!(#errors #function)
}

/// Compares the arguments with the handler, and with each other.
fn check(args: &Args, handler: &Handler, errors: &mut Errors) -> Option<Batch> {
    let of_handler = Scope::of_handler(handler);
    check_pools(args, handler, &of_handler, errors);
    let each = args.each.as_ref();
    let batch = each.and_then(|each| Batch::find(each, handler, errors));
    let of_message = Scope::of_message(handler, batch.as_ref());
    let start = handler.item.sig.fn_token.span;
    args.check_present(&of_message.example("id"), start, errors);
    let subjects: [(&Subject, Option<&Expr>); 4] = [
        (&check::KEY, args.key.as_ref().map(|key| &key.expression)),
        (&check::BUSINESS_KEY, args.business_key.as_ref()),
        (&check::FINGERPRINT, args.fingerprint.as_ref()),
        (&check::VERSION, args.version.as_ref()),
    ];
    // What the names of a message are is not known if `each` is wrong.
    if batch.is_some() || !args.has("each") {
        for (subject, expression) in subjects {
            if let Some(expression) = expression {
                check::check(subject, expression, &of_message, errors);
            }
        }
        if let Some(time) = &args.time {
            check::check_time(&time.expression, &of_message, errors);
        }
    }
    if args.has("retries") {
        handler.refuse_mutable(errors);
    }
    combinations::check(args, &of_message, errors);
    windows::check(args, errors);
    batch
}

/// A pool among the parameters is fine where the transaction comes from it, and where `allow_pool` says so.
fn check_pools(args: &Args, handler: &Handler, scope: &Scope, errors: &mut Errors) {
    let mut sources = Vec::new();
    let faults = errors.count();
    if let Some(pool) = &args.pool {
        check::check_pool(pool, scope, errors);
        sources = check::names(pool);
    }
    // Which one is meant is not known if `pool` is wrong.
    let is_wrong = args.has("pool") && args.pool.is_none() || errors.count() > faults;
    if !args.has("allow_pool") && !is_wrong {
        handler.refuse_pools(&sources, errors);
    }
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
