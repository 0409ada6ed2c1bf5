use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::Path;

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
    /// of it. The user's root stays where it is written: one that leads nowhere is then complained about there, and twice
    /// at most: rustc looks a macro up before the rest.
    pub(crate) fn at(&self, span: Span) -> TokenStream {
        let Some(root) = &self.root else {
            return quote_spanned!(span=> ::idem::__private);
        };
        // A name of the macro's in it keeps rustc from calling the path longer than the user had to write it.
        let private = Ident::new("__private", Span::call_site().located_at(span));
        quote_spanned!(span=> #root::#private)
    }

    /// The path for what nobody complains about.
    pub(crate) fn path(&self) -> TokenStream {
        self.at(Span::call_site())
    }
}
