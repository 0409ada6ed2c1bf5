use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprMethodCall, ExprPath, Ident};

/// As the standard library, `chrono`, `time` and `uuid` call theirs.
const CLOCKS: [&str; 7] = [
    "now",
    "today",
    "now_utc",
    "now_local",
    "now_v1",
    "now_v6",
    "now_v7",
];

/// The first thing in an expression that is asked of a clock, as in `event.time.unwrap_or_else(Utc::now)`.
pub(super) fn find(expression: &Expr) -> Option<TokenStream> {
    let mut clock = Clock::default();
    clock.visit_expr(expression);
    clock.0
}

#[derive(Default)]
struct Clock(Option<TokenStream>);

impl Clock {
    fn note(&mut self, name: &Ident, tokens: impl ToTokens) {
        if CLOCKS.iter().any(|clock| name == clock) {
            self.0.get_or_insert_with(|| tokens.into_token_stream());
        }
    }
}

impl Visit<'_> for Clock {
    /// A path of one name is a variable, which may hold anything.
    fn visit_expr_path(&mut self, path: &ExprPath) {
        let segments = &path.path.segments;
        if let Some(last) = segments.last().filter(|_| segments.len() > 1) {
            self.note(&last.ident, path);
        }
    }

    fn visit_expr_call(&mut self, call: &ExprCall) {
        if let Expr::Path(path) = &*call.func
            && let Some(name) = path.path.get_ident()
        {
            self.note(name, path);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &ExprMethodCall) {
        visit::visit_expr_method_call(self, call);
        self.note(&call.method, &call.method);
    }
}
