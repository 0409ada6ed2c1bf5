//! The attribute, on any arguments (the first line) over any item (the rest): an error or an expansion that is Rust, and never a panic.
#![no_main]

extern crate proc_macro;

// The macro crate's own source, since a proc-macro crate exports nothing else.
#[path = "../../idem-macros/src"]
mod source {
    pub(crate) mod args;
    pub(crate) mod batch;
    pub(crate) mod check;
    pub(crate) mod combinations;
    pub(crate) mod errors;
    pub(crate) mod expand;
    pub(crate) mod handler;
    pub(crate) mod render;
    pub(crate) mod scope;
    pub(crate) mod types;
    pub(crate) mod windows;
}
use source::{
    args, batch, check, combinations, errors, expand, handler, render, scope, types, windows,
};

use libfuzzer_sys::fuzz_target;
use proc_macro2::{TokenStream, TokenTree};

const HANDLER: &str =
    "async fn add(tx: &mut PgConnection, event: &Event) -> Result<(), Error> { Ok(()) }";

/// A deeper nest is too deep for rustc's own parser, which comes first.
const DEEPEST: usize = 64;

fn depth(tokens: &TokenStream) -> usize {
    let depths = tokens.clone().into_iter().map(|token| match token {
        TokenTree::Group(group) => 1 + depth(&group.stream()),
        _ => 0,
    });
    depths.max().unwrap_or(0)
}

fn tokens(text: &str) -> Option<TokenStream> {
    let nests = text.matches(['(', '[', '{']).count();
    let tokens: TokenStream = text.parse().ok().filter(|_| nests < 1000)?;
    (depth(&tokens) < DEEPEST).then_some(tokens)
}

fuzz_target!(|text: &str| {
    let (arguments, item) = text.split_once('\n').unwrap_or((text, ""));
    // Prefix operators nest as well, and a whole text of them is one expression.
    if text.len() > 2000 {
        return;
    }
    let item = if item.trim().is_empty() {
        HANDLER
    } else {
        item
    };
    let (Some(arguments), Some(item)) = (tokens(arguments), tokens(item)) else {
        return;
    };
    let expanded = expand::idempotent(arguments, &item);
    if syn::parse2::<syn::ItemFn>(item).is_ok() {
        syn::parse2::<syn::File>(expanded).expect("a function comes out as Rust");
    } else {
        assert!(expanded.to_string().contains("compile_error"));
    }
});
