use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::visit::Visit;
use syn::{
    FnArg, Ident, ItemFn, Pat, PatIdent, PatType, ReturnType, Signature, Token, TraitItemFn, Type,
};

use crate::errors::Errors;
use crate::types::{
    find_impl_trait, future_output, is_no_result, is_pool, mutable_reference, returns_boxed_future,
    text,
};

mod transaction;

use transaction::find_transaction;

/// The function under the attribute, as far as it could be understood.
pub(crate) struct Handler {
    pub(crate) item: ItemFn,
    /// Whether its signature can be rewritten, whatever else was reported.
    pub(crate) is_sound: bool,
    /// The transaction parameter, without its `#[tx]`.
    pub(crate) transaction: Option<Transaction>,
    /// The name of the transaction, which is no part of a message.
    pub(crate) transaction_name: Option<String>,
    /// The names that the other parameters bind, `self` included.
    pub(crate) parameters: Vec<String>,
}

/// `tx: &mut PgConnection`
pub(crate) struct Transaction {
    pub(crate) index: usize,
    pub(crate) pattern: Pat,
    /// What stands behind the `&mut`.
    pub(crate) ty: Type,
}

/// Parses what stands under the attribute; `None` if it is no function with a body, which is then reported.
pub(crate) fn parse(item: &TokenStream, errors: &mut Errors) -> Option<ItemFn> {
    if let Ok(function) = syn::parse2(item.clone()) {
        return Some(function);
    }
    if let Ok(declaration) = syn::parse2::<TraitItemFn>(item.clone()) {
        errors.at(
            &declaration.sig,
            "a handler needs a body, for the attribute to put into a transaction; place `#[idempotent]` on the implementation instead of this declaration",
        );
        return None;
    }
    errors.at(
        item.clone().into_iter().next().map_or_else(TokenStream::new, ToTokens::into_token_stream),
        "`#[idempotent]` goes on a function or method, whose body it puts into a transaction; write it above `async fn add_credits(tx: &mut PgConnection, event: &OrderPaid) -> Result<(), sqlx::Error> { .. }`",
    );
    None
}

impl Handler {
    pub(crate) fn new(mut item: ItemFn, errors: &mut Errors) -> Self {
        let before = errors.count();
        check_kind(&item.sig, errors);
        let index = find_transaction(&mut item.sig, errors);
        let is_sound = errors.count() == before;
        let mut parameters = Vec::new();
        let mut transaction = None;
        let mut transaction_name = None;
        for (place, input) in item.sig.inputs.iter().enumerate() {
            let mut names = Names::default();
            names.visit_fn_arg(input);
            match input {
                FnArg::Typed(input) if Some(place) == index => {
                    transaction_name = names.0.pop();
                    transaction = mutable_reference(&input.ty).map(|ty| Transaction {
                        index: place,
                        pattern: (*input.pat).clone(),
                        ty: ty.clone(),
                    });
                }
                _ => parameters.append(&mut names.0),
            }
        }
        Self {
            item,
            is_sound,
            transaction,
            transaction_name,
            parameters,
        }
    }

    /// Refuses pools among the parameters, except where the transaction comes from.
    pub(crate) fn refuse_pools(&self, sources: &[String], errors: &mut Errors) {
        for input in &self.item.sig.inputs {
            if let FnArg::Typed(PatType { pat, ty, .. }) = input
                && is_pool(ty)
                && !Names::of(pat).iter().any(|name| sources.contains(name))
            {
                errors.at(
                    ty,
                    "what is written through a pool escapes the transaction: it stays when the transaction rolls back, and is written again on redelivery; use the transaction parameter, or permit it for reads with `allow_pool` in `#[idempotent(..)]`",
                );
            }
        }
    }

    /// Refuses parameters that a body can change in its first run, for the second to find.
    pub(crate) fn refuse_mutable(&self, errors: &mut Errors) {
        let transaction = self.transaction.as_ref().map(|tx| tx.index);
        for (place, input) in self.item.sig.inputs.iter().enumerate() {
            if Some(place) != transaction {
                Mutable(errors).visit_fn_arg(input);
            }
        }
    }
}

/// `async`, and a `Result`.
fn check_kind(signature: &Signature, errors: &mut Errors) {
    let ReturnType::Type(_, ty) = &signature.output else {
        require_async(signature, errors);
        errors.at(&signature.ident, no_result("()"));
        return;
    };
    if signature.asyncness.is_none() && returns_boxed_future(ty) {
        errors.at(
            &signature.ident,
            "`#[async_trait]` rewrote this method before `#[idempotent]` saw it; put `#[idempotent]` on an async fn of its own and call that from the method, or use a native `async fn` in the trait",
        );
        return;
    }
    if let Type::ImplTrait(future) = &**ty {
        let output =
            future_output(future).map_or_else(|| "Result<(), sqlx::Error>".to_owned(), text);
        errors.at(
            ty,
            format!("a handler is an `async fn`, for its body to run within the transaction; write `async fn {}(..) -> {output}`", signature.ident),
        );
        return;
    }
    require_async(signature, errors);
    if is_no_result(ty) {
        errors.at(ty, no_result(&text(ty)));
    } else if let Some(hidden) = find_impl_trait(ty) {
        errors.at(
            hidden,
            "the attribute has to name the handler's result, and `impl Trait` has no name; write the concrete type or `Box<dyn Trait>`",
        );
    }
}

fn no_result(value: &str) -> String {
    format!(
        "a handler returns a `Result`: `Ok` commits and lets the message be acknowledged, `Err` rolls back and lets it be redelivered; write `-> Result<{value}, sqlx::Error>`, or with an error type of yours that has `From<idem::Error>`"
    )
}

fn require_async(signature: &Signature, errors: &mut Errors) {
    if signature.asyncness.is_none() {
        errors.at(
            signature.fn_token,
            format!(
                "a handler is async, since its transaction is awaited; write `async fn {}(..)`",
                signature.ident
            ),
        );
    }
}

/// The names that a parameter binds.
#[derive(Default)]
pub(crate) struct Names(Vec<String>);

impl Names {
    pub(crate) fn of(pattern: &Pat) -> Vec<String> {
        let mut names = Self::default();
        names.visit_pat(pattern);
        names.0
    }
}

impl Visit<'_> for Names {
    fn visit_receiver(&mut self, _: &syn::Receiver) {
        self.0.push("self".to_owned());
    }

    fn visit_pat_ident(&mut self, pattern: &PatIdent) {
        self.0.push(pattern.ident.to_string());
        syn::visit::visit_pat_ident(self, pattern);
    }
}

/// Complains about every `mut` in a parameter.
struct Mutable<'a>(&'a mut Errors);

impl Mutable<'_> {
    fn complain(&mut self, mutability: Token![mut], name: &Ident) {
        let text = format!(
            "with `retries` the body may run again, and would find `{name}` as the run before left it; remove this `mut`, and begin the body with `let mut {name} = {name}.clone();`"
        );
        self.0.at(mutability, text);
    }
}

impl Visit<'_> for Mutable<'_> {
    fn visit_receiver(&mut self, receiver: &syn::Receiver) {
        if let Some(mutability) = receiver.mutability {
            self.complain(mutability, &Ident::from(receiver.self_token));
        }
    }

    fn visit_pat_ident(&mut self, pattern: &PatIdent) {
        if let Some(mutability) = pattern.mutability {
            self.complain(mutability, &pattern.ident);
        }
        syn::visit::visit_pat_ident(self, pattern);
    }
}
