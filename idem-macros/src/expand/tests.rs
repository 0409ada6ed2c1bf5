#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail"
)]

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::Parser;
use syn::{Attribute, File, Item};

use super::idempotent;

mod arguments;
mod batches;
mod combinations;
mod faults;
mod hygiene;
mod odd;
mod random;
mod registration;
mod values;
mod windows;

const SNAPSHOT: &str = include_str!("../../expansion.md");

/// The docs show an input and an output. The output has comments, which are whole lines, so that the rest can be compared exactly.
#[test]
fn the_documented_expansion_is_the_real_one() {
    let blocks: Vec<&str> = SNAPSHOT
        .split("```rust,ignore\n")
        .skip(1)
        .map(|block| block.split("```").next().unwrap())
        .collect();
    let [input, output] = blocks.as_slice() else {
        panic!(
            "expansion.md has {} code blocks instead of two",
            blocks.len()
        );
    };
    let documented: Vec<&str> = output
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let real = pretty(&expand(input));
    let real: Vec<&str> = real.lines().collect();
    if documented == real {
        return;
    }
    let line = documented
        .iter()
        .zip(&real)
        .take_while(|(a, b)| a == b)
        .count();
    let at = |lines: &[&str]| {
        lines
            .get(line)
            .map_or("(its end)".to_owned(), ToString::to_string)
    };
    panic!(
        "idem-macros/expansion.md differs from the real expansion in line {} of its second block, comments not counted:\n\n\
         - {}\n+ {}\n\nIf the change is meant, put this there, and the comments back in:\n\n{}\n",
        line + 1,
        at(&documented),
        at(&real),
        real.join("\n"),
    );
}

/// Expands the first item of a source text, which carries the attribute.
fn expand(source: &str) -> TokenStream {
    let mut item = syn::parse_str::<File>(source)
        .expect("Rust")
        .items
        .remove(0);
    let Item::Fn(function) = &mut item else {
        panic!("a function");
    };
    let attribute = function.attrs.remove(0);
    let args = match &attribute.meta {
        syn::Meta::List(list) => list.tokens.clone(),
        _ => TokenStream::new(),
    };
    idempotent(args, &item.to_token_stream())
}

fn pretty(tokens: &TokenStream) -> String {
    prettyplease::unparse(&syn::parse2(tokens.clone()).expect("Rust"))
}

/// The messages of the `compile_error!`s in an expansion.
fn messages(tokens: TokenStream) -> Vec<String> {
    let file: File = syn::parse2(tokens).expect("the expansion is Rust");
    file.items
        .into_iter()
        .filter_map(|item| match item {
            Item::Macro(item) if item.mac.path.segments.last()?.ident == "compile_error" => {
                let text: syn::LitStr = item.mac.parse_body().expect("a message");
                Some(text.value())
            }
            _ => None,
        })
        .collect()
}

/// The tokens between the parentheses of `#[idempotent(..)]`.
fn args(text: &str) -> TokenStream {
    let attributes = Attribute::parse_outer
        .parse_str(&format!("#[idempotent({text})]"))
        .unwrap();
    match &attributes[0].meta {
        syn::Meta::List(list) => list.tokens.clone(),
        _ => quote!(),
    }
}
