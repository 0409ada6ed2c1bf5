use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::visit::Visit;
use syn::{
    Attribute, FnArg, ItemFn, Pat, PatIdent, PatType, ReturnType, Signature, TraitItemFn, Type,
};

use crate::errors::Errors;
use crate::types::{
    find_impl_trait, future_output, is_no_result, is_pool, is_transaction, mutable_reference,
    referent, returns_boxed_future, text, unsupported,
};

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
    pub(crate) fn new(mut item: ItemFn, allow_pool: bool, errors: &mut Errors) -> Self {
        let before = errors.count();
        check_kind(&item.sig, errors);
        let index = find_transaction(&mut item.sig, errors);
        let is_sound = errors.count() == before;
        if !allow_pool {
            refuse_pools(&item.sig, errors);
        }
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

    /// A key to show in a message: over the first parameter, if there is one.
    pub(crate) fn example_key(&self) -> String {
        let first = self.parameters.iter().find(|name| *name != "self");
        format!("{}.id", first.map_or("event", String::as_str))
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

/// Finds the one transaction parameter, and takes the `#[tx]` off.
fn find_transaction(signature: &mut Signature, errors: &mut Errors) -> Option<usize> {
    let mut found = Vec::new();
    let mut is_reported = false;
    for (index, input) in signature.inputs.iter_mut().enumerate() {
        let FnArg::Typed(input) = input else { continue };
        let marked = take_mark(&mut input.attrs);
        let target = referent(&input.ty);
        if !marked && !is_transaction(target) {
            continue;
        }
        if let Some(advice) = unsupported(target) {
            errors.at(&input.ty, advice);
            is_reported = true;
        } else if mutable_reference(&input.ty).is_some() {
            found.push(index);
        } else {
            if marked && !matches!(&*input.ty, Type::Reference(_)) && !is_transaction(target) {
                errors.at(
                    &input.ty,
                    format!(
                        "the handler borrows its transaction, and `{}` shows no reference; let the alias name what stands behind the `&mut`, and write `#[tx] {}: &mut {}`",
                        text(target),
                        text(&input.pat).trim_start_matches("mut "),
                        text(target)
                    ),
                );
                is_reported = true;
                continue;
            }
            let (parameter, target) = (text(&input.pat), text(target));
            let parameter = parameter.trim_start_matches("mut ");
            let advice = match &*input.ty {
                Type::Reference(_) => format!(
                    "a shared reference cannot write, and the transaction is there for the handler's writes; write `{parameter}: &mut {target}`"
                ),
                _ => format!(
                    "the library begins and commits the transaction, so that claim and effect are one; the handler only borrows it: write `{parameter}: &mut {target}` and no `commit()`"
                ),
            };
            errors.at(&input.ty, advice);
            is_reported = true;
        }
    }
    let (first, others) = match found.split_first() {
        Some((first, others)) => (Some(*first), others),
        None => (None, &[][..]),
    };
    for other in others {
        let kept = match first.map(|first| &signature.inputs[first]) {
            Some(FnArg::Typed(kept)) => text(&kept.pat),
            _ => "tx".to_owned(),
        };
        errors.at(
            &signature.inputs[*other],
            format!(
                "a handler has one transaction, which holds the claim and every effect together; write through `{kept}` and remove this parameter"
            ),
        );
    }
    if first.is_none() && !is_reported {
        let alias = signature.inputs.iter().find_map(|input| match input {
            FnArg::Typed(input) if mutable_reference(&input.ty).is_some() => Some(text(input)),
            _ => None,
        });
        errors.at(
            &signature.ident,
            match alias {
                Some(alias) => format!(
                    "which parameter is the transaction? If the type is an alias, mark it: `#[tx] {alias}`; otherwise add `tx: &mut PgConnection`"
                ),
                None => "the handler has no transaction to write to; add a parameter `tx: &mut PgConnection` (or `&mut MySqlConnection`, `&mut SqliteConnection`, `&mut sqlx::Transaction<'_, DB>`)".to_owned(),
            },
        );
    }
    first
}

fn take_mark(attributes: &mut Vec<Attribute>) -> bool {
    let before = attributes.len();
    attributes.retain(|attribute| !attribute.path().is_ident("tx"));
    attributes.len() < before
}

fn refuse_pools(signature: &Signature, errors: &mut Errors) {
    for input in &signature.inputs {
        if let FnArg::Typed(PatType { ty, .. }) = input
            && is_pool(ty)
        {
            errors.at(
                ty,
                "what is written through a pool escapes the transaction: it stays when the transaction rolls back, and is written again on redelivery; use the transaction parameter, or permit it for reads with `allow_pool` in `#[idempotent(..)]`",
            );
        }
    }
}

/// The names that a parameter binds.
#[derive(Default)]
struct Names(Vec<String>);

impl Visit<'_> for Names {
    fn visit_receiver(&mut self, _: &syn::Receiver) {
        self.0.push("self".to_owned());
    }

    fn visit_pat_ident(&mut self, pattern: &PatIdent) {
        self.0.push(pattern.ident.to_string());
        syn::visit::visit_pat_ident(self, pattern);
    }
}
