use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;

use super::door::Door;
use crate::args::{Args, Window, Written};

/// The call that lists a handler, with what the pruner and the doctor want to know of it.
pub(super) fn call(args: &Args, name: &Ident, key: &Written, door: &Door) -> TokenStream {
    let (private, consumer) = (door.path(), &args.consumer);
    let (name, key) = (name.unraw().to_string(), &key.text);
    let retain = args.retain.as_ref().map(|window| {
        let retain = kept(window, door);
        quote!(.retain(#retain))
    });
    let redelivery = args.redelivery.as_ref().and_then(|window| {
        let millis = milliseconds(window)?;
        Some(quote!(.redelivery_ms(#millis)))
    });
    let business_retain = args.business_retain.as_ref().map(|window| {
        let retain = kept(window, door);
        quote!(.business_retain(#retain))
    });
    let [business_key, version, each] = ["business_key", "version", "each"].map(|argument| {
        let said = Ident::new(argument, Span::call_site());
        args.has(argument).then(|| quote!(.#said()))
    });
    let time = args.time.as_ref().map(|time| {
        let text = &time.text;
        quote!(.time(#text))
    });
    quote! {
        #private::register!(
            #private::Handler::new(#consumer, #name, #key)
                #retain #redelivery #business_key #business_retain #version #each #time
        );
    }
}

/// How long claims are kept.
fn kept(window: &Window, door: &Door) -> TokenStream {
    let private = door.path();
    milliseconds(window).map_or_else(
        || quote!(#private::Retain::Forever),
        |millis| quote!(#private::Retain::for_ms(#millis)),
    )
}

fn milliseconds(window: &Window) -> Option<Literal> {
    let millis = window.length?.as_millis();
    Some(Literal::u128_unsuffixed(millis))
}
