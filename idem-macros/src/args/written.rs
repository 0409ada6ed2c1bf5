use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Expr, LitStr};

/// An expression, and its text as the user wrote it.
pub(crate) struct Written {
    pub(crate) expression: Expr,
    pub(crate) text: String,
}

impl Written {
    pub(super) fn new(expression: Expr, quoted: Option<&LitStr>) -> Self {
        let text = match quoted.map(LitStr::value) {
            Some(text) if text.contains('\n') => {
                text.split_whitespace().collect::<Vec<_>>().join(" ")
            }
            Some(text) => text.trim().to_owned(),
            None => {
                let mut printer = Printer::default();
                printer.print(expression.to_token_stream());
                printer.text
            }
        };
        Self { expression, text }
    }
}

/// A line and a column.
type Place = (usize, usize);

/// Prints tokens with a blank where there was one, or more.
#[derive(Default)]
struct Printer {
    text: String,
    /// Where the last token ended.
    end: Option<Place>,
}

impl Printer {
    fn print(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.print_group(&group),
                token => self.print_token(&token.to_string(), token.span()),
            }
        }
    }

    fn print_group(&mut self, group: &Group) {
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::Brace => ("{", "}"),
            // A macro of the user's put it around what it passes on.
            Delimiter::None => return self.print(group.stream()),
        };
        self.print_token(open, group.span_open());
        self.print(group.stream());
        self.print_token(close, group.span_close());
    }

    fn print_token(&mut self, token: &str, span: Span) {
        let (start, end) = places(span).unzip();
        let is_apart = start.is_none() || self.end != start;
        let is_tight = self.text.ends_with(['.', '(', '['])
            || self.text.ends_with("::")
            || [".", ",", ";", "?", ")", "]"].contains(&token);
        if is_apart && !is_tight && !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text.push_str(token);
        self.end = end;
    }
}

/// Where a token starts and ends. In a test it has no place.
fn places(span: Span) -> Option<(Place, Place)> {
    let place = |span: proc_macro::Span| (span.line(), span.column());
    proc_macro::is_available().then(|| {
        let span = span.unwrap();
        (place(span.start()), place(span.end()))
    })
}
