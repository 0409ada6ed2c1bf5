use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Path;
use syn::spanned::Spanned;

/// The runtime's door: the one path that the expansion knows.
pub(crate) struct Door {
    /// Where the library is, if the user says so.
    root: Option<Path>,
}

impl Door {
    pub(crate) fn new(root: Option<Path>) -> Self {
        Self { root }
    }

    /// The path for a call whose complaints belong to `span`. Its tokens take the span too, since a complaint about a path is shown on all
    /// of it.
    pub(crate) fn at(&self, span: Span) -> TokenStream {
        let Some(root) = &self.root else {
            return quote_spanned!(span=> ::idem::__private);
        };
        // The user's names keep their meaning wherever the complaint is shown.
        let root = root.to_token_stream().into_iter().map(|mut token| {
            token.set_span(span.resolved_at(token.span()));
            token
        });
        let private = quote_spanned!(span=> ::__private);
        quote!(#(#root)* #private)
    }

    /// For what nobody complains about: a root that leads nowhere is then shown where it is written.
    pub(crate) fn path(&self) -> TokenStream {
        self.at(self
            .root
            .as_ref()
            .map_or_else(Span::call_site, Spanned::span))
    }
}
