use std::fmt::Display;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// The faults of one use of the attribute, to be reported together.
#[derive(Default)]
pub(crate) struct Errors(Vec<syn::Error>);

impl Errors {
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(syn::Error::new_spanned(tokens, message));
    }

    /// On the attribute as a whole: for what is missing in it.
    pub(crate) fn at_attribute(&mut self, item: Span, message: impl Display) {
        // The hygiene of the user's own tokens spares the reader rustc's note that the error originates in a macro.
        let span = Span::call_site().resolved_at(item);
        self.push(syn::Error::new(span, message));
    }

    pub(crate) fn push(&mut self, error: syn::Error) {
        self.0.push(error);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn into_compile_error(self) -> TokenStream {
        self.0.iter().map(syn::Error::to_compile_error).collect()
    }
}

/// The candidate that a misspelt word most likely means, if one is near.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + word.len().min(candidate.len()) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The Levenshtein distance, by the two-row method.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substitution = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substitution.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_names() {
        let names = ["key", "consumer", "allow_pool"];
        assert_eq!(nearest("keys", names), Some("key"));
        assert_eq!(nearest("kye", names), Some("key"));
        assert_eq!(nearest("consumr", names), Some("consumer"));
        assert_eq!(nearest("custumer", names), Some("consumer"));
        assert_eq!(nearest("allowpool", names), Some("allow_pool"));
        assert_eq!(nearest("version", names), None);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
