//! draft
use proc_macro::TokenStream;
/// draft
#[proc_macro_attribute]
pub fn idempotent(_: TokenStream, item: TokenStream) -> TokenStream { item }
