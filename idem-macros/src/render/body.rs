use proc_macro2::{Delimiter, Group, Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Block, Stmt, Type};

use super::door::Door;
use crate::types;

/// The body as an async block, which starts by telling the type checker what it returns. An async closure could say it in its signature,
/// but then a wrong `Ok(..)` is reported as a mismatch of two async blocks. A body that may run again
/// only borrows the parameters.
pub(super) fn body(block: &Block, result: &Type, runs_again: bool, door: &Door) -> TokenStream {
    let private = door.path();
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
    if runs_again {
        // Here the type checker shows what a second run would miss.
        let start = block.brace_token.span.open();
        return quote_spanned!(start=> async #body);
    }
    quote!(async move #body)
}

/// A call that is about the error type, as in `failed::<E>()`, spanned so that the complaint about the bound of `E` is shown on `E`.
pub(super) fn about_error(
    function: &str,
    others: &TokenStream,
    result: &Type,
    door: &Door,
) -> TokenStream {
    let error = types::error_of_result(result).map_or_else(
        || {
            let (span, private) = (result.span(), door.at(result.span()));
            quote_spanned!(span=> #private::ErrorOf<#result>)
        },
        ToTokens::to_token_stream,
    );
    let (span, private) = (error.span(), door.at(error.span()));
    let function = Ident::new(function, span);
    quote_spanned!(span=> #private::#function::<#error #others>())
}

/// The type of the handler's value.
pub(super) fn value_type(result: &Type, door: &Door) -> TokenStream {
    let mut named = result.clone();
    if let Some(value) = types::value_of_result(&mut named) {
        return value.to_token_stream();
    }
    let (span, private) = (result.span(), door.at(result.span()));
    quote_spanned!(span=> #private::ValueOf<#result>)
}

/// The value as a `Result`. Only behind an alias is there something to ask the type checker for.
pub(super) fn as_result(value: &Ident, result: &Type, door: &Door) -> TokenStream {
    if types::error_of_result(result).is_some() {
        return value.to_token_stream();
    }
    let (span, private) = (result.span(), door.at(result.span()));
    quote_spanned!(span=> #private::HandlerResult::into_result(#value))
}
