use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprTuple};

use super::door::Door;
use super::own;
use crate::args::{Args, InFlight};
use crate::batch::Batch;

/// The statements that encode a delivery's keys and what else the arguments say of it, before a connection is taken.
pub(super) fn one(args: &Args, key: &Expr, door: &Door) -> TokenStream {
    let (private, message, consumer) = (door.path(), own("message"), &args.consumer);
    let delivery = if let Some(business_key) = &args.business_key {
        let key = key_call("optional_key", key, door);
        let business_key = key_call("key", business_key, door);
        quote!(#private::Delivery::with_business_key(#consumer, #key, #business_key))
    } else {
        let key = key_call("key", key, door);
        quote!(#private::Delivery::of(#consumer, #key))
    };
    let fingerprint = fingerprint(args, door);
    let version = args.version.as_ref().map(|version| {
        let version = call("version", &borrow(version), version.span(), door);
        quote!(.version(#version))
    });
    let gapless = args.gapless.as_ref();
    let gapless = gapless.map(|first| quote!(.gapless_from(#first)));
    let (time, options) = (time(args, door), options(args, door));
    quote!(let #message = #delivery #fingerprint #version #gapless #time #options;)
}

/// The same for each message of a batch.
pub(super) fn batch(args: &Args, key: &Expr, batch: &Batch, door: &Door) -> TokenStream {
    let (private, message, consumer) = (door.path(), own("messages"), &args.consumer);
    let key = key_call("key", key, door);
    let (fingerprint, time) = (fingerprint(args, door), time(args, door));
    let (pattern, messages) = (&batch.pattern, located(&batch.messages.ident, batch));
    let options = options(args, door);
    let options = (!options.is_empty()).then(|| quote!(let #message = #message #options;));
    let all = quote_spanned!(messages.span()=> &#messages);
    quote! {
        let mut #message = #private::Deliveries::of(#consumer);
        for #pattern in #all {
            #message.push(#key) #fingerprint #time;
        }
        #options
    }
}

/// Stands in for arguments that were reported as wrong; it only has to pass the type checker.
pub(super) fn unknown(is_batch: bool, door: &Door) -> TokenStream {
    let private = door.path();
    if is_batch {
        let messages = own("messages");
        return quote!(let #messages = #private::Deliveries::of("unknown"););
    }
    let message = own("message");
    quote!(let #message = #private::Delivery::of("unknown", #private::key("unknown"));)
}

/// The parameter with the messages, where a complaint about its type is shown: on the type.
pub(super) fn located(messages: &Ident, batch: &Batch) -> Ident {
    let span = batch.ty.span().resolved_at(messages.span());
    Ident::new(&messages.to_string(), span)
}

fn fingerprint(args: &Args, door: &Door) -> Option<TokenStream> {
    let fingerprint = args.fingerprint.as_ref()?;
    let (span, content) = (fingerprint.span(), fingerprint_call(fingerprint, door));
    Some(quote_spanned!(span=> .fingerprint(#content)))
}

fn time(args: &Args, door: &Door) -> Option<TokenStream> {
    let time = &args.time.as_ref()?.expression;
    let time = call("time", &borrow(time), time.span(), door);
    Some(quote!(.time(#time)))
}

/// What a batch can be told too.
fn options(args: &Args, door: &Door) -> TokenStream {
    let private = door.path();
    let in_flight = args
        .in_flight
        .as_ref()
        .and_then(|in_flight| match in_flight {
            InFlight::Wait => None,
            InFlight::Fail => Some(quote!(.in_flight(#private::InFlight::Fail))),
            InFlight::Within(time) => {
                let millis = proc_macro2::Literal::u128_unsuffixed(time.as_millis());
                Some(quote!(.in_flight(#private::InFlight::within_ms(#millis))))
            }
        });
    let isolation = args.isolation.as_ref().map(|level| {
        let level = Ident::new(&level.to_string(), Span::call_site());
        quote!(.isolation(#private::Isolation::#level))
    });
    let from_plain = args.has("from_plain").then(|| quote!(.from_plain()));
    quote!(#in_flight #isolation #from_plain)
}

/// `key(&event.id)`, spanned so that the type checker's complaint about the key is shown on the key.
fn key_call(function: &str, key: &Expr, door: &Door) -> TokenStream {
    encoded(function, "part", key, door)
}

/// `fingerprint(&event.amount)`, likewise.
fn fingerprint_call(fingerprint: &Expr, door: &Door) -> TokenStream {
    encoded("fingerprint", "content", fingerprint, door)
}

fn encoded(function: &str, part: &str, expression: &Expr, door: &Door) -> TokenStream {
    let expression = bare(expression);
    let value = match expression {
        Expr::Tuple(tuple) => {
            let parts = parts(part, tuple, door);
            quote_spanned!(expression.span()=> &#parts)
        }
        other => borrow(other),
    };
    call(function, &value, expression.span(), door)
}

fn call(function: &str, argument: &TokenStream, span: Span, door: &Door) -> TokenStream {
    let (private, function) = (door.at(span), format_ident!("{function}", span = span));
    quote_spanned!(span=> #private::#function(#argument))
}

/// Borrows the parts of a tuple one by one, since a tuple would move them out of the message.
fn parts(function: &str, tuple: &ExprTuple, door: &Door) -> TokenStream {
    let parts = tuple.elems.iter().map(|part| match bare(part) {
        Expr::Tuple(tuple) => parts(function, tuple, door),
        other => call(function, &borrow(other), part.span(), door),
    });
    quote_spanned!(tuple.span()=> (#(#parts,)*))
}

/// Without the parentheses around it.
fn bare(expression: &Expr) -> &Expr {
    match expression {
        Expr::Paren(paren) => bare(&paren.expr),
        Expr::Group(group) => bare(&group.expr),
        _ => expression,
    }
}

pub(super) fn borrow(expression: &Expr) -> TokenStream {
    let expression = bare(expression);
    match expression {
        Expr::Path(_)
        | Expr::Field(_)
        | Expr::MethodCall(_)
        | Expr::Call(_)
        | Expr::Index(_)
        | Expr::Macro(_)
        | Expr::Lit(_) => {
            quote_spanned!(expression.span()=> &#expression)
        }
        _ => quote_spanned!(expression.span()=> &(#expression)),
    }
}
