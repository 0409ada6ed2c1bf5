use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::visit::Visit;
use syn::{
    Attribute, FnArg, GenericArgument, ItemFn, Pat, PatIdent, PatType, PathArguments, PathSegment,
    ReturnType, Signature, TraitItemFn, Type, TypeReference,
};

use crate::errors::Errors;

/// The function under the attribute, as far as it could be understood. It is a handler if its checks added no error.
pub(crate) struct Handler {
    pub(crate) item: ItemFn,
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
        "`#[idempotent]` goes on a handler: `async fn add_credits(tx: &mut PgConnection, event: &OrderPaid) -> Result<(), Error> { .. }`",
    );
    None
}

impl Handler {
    pub(crate) fn new(mut item: ItemFn, allow_pool: bool, errors: &mut Errors) -> Self {
        check_kind(&item.sig, errors);
        let index = find_transaction(&mut item.sig, errors);
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
        errors.at(
            &signature.ident,
            "a handler returns a `Result`: `Ok` commits and lets the message be acknowledged, `Err` rolls back and lets it be redelivered; write `-> Result<(), Error>` with `Error: From<idem::Error>`",
        );
        return;
    };
    if signature.asyncness.is_none() && returns_boxed_future(ty) {
        errors.at(
            ty,
            "this function was rewritten by `#[async_trait]` before `#[idempotent]` saw it; put `#[idempotent]` on an async fn of its own and call it from the method, or use a native `async fn` in the trait",
        );
        return;
    }
    if let Type::ImplTrait(_) = &**ty {
        errors.at(
            ty,
            "a handler is an `async fn` that returns the `Result` itself; write `async fn` and put the future's output in place of the `impl Future`",
        );
        return;
    }
    require_async(signature, errors);
    if is_no_result(ty) {
        errors.at(
            ty,
            format!(
                "a handler returns a `Result`: `Ok` commits and lets the message be acknowledged, `Err` rolls back and lets it be redelivered; write `-> Result<{}, Error>` with `Error: From<idem::Error>`",
                ty.to_token_stream()
            ),
        );
    } else if let Some(hidden) = find_impl_trait(ty) {
        errors.at(
            hidden,
            "the attribute has to name the handler's result, and `impl Trait` has no name; write a concrete type or a `Box<dyn Trait>`",
        );
    }
}

fn require_async(signature: &Signature, errors: &mut Errors) {
    if signature.asyncness.is_none() {
        errors.at(
            signature.fn_token,
            "a handler is async, since it awaits its transaction; write `async fn`",
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
            let why = match &*input.ty {
                Type::Reference(_) => "a shared reference cannot write",
                _ => "the library commits the transaction, so that the handler only borrows it",
            };
            errors.at(&input.ty, format!("{why}: write `&mut {}`", text(target)));
            is_reported = true;
        }
    }
    let (first, others) = match found.split_first() {
        Some((first, others)) => (Some(*first), others),
        None => (None, &[][..]),
    };
    for other in others {
        errors.at(
            &signature.inputs[*other],
            "a handler has one transaction, which holds the claim and the effect together; remove one of the two",
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

const TRANSACTIONS: [&str; 9] = [
    "Transaction",
    "PgTransaction",
    "MySqlTransaction",
    "SqliteTransaction",
    "PgConnection",
    "MySqlConnection",
    "SqliteConnection",
    "AnyConnection",
    "PoolConnection",
];

fn is_transaction(ty: &Type) -> bool {
    match ty {
        // `<Postgres as sqlx::Database>::Connection`
        Type::Path(path) if path.qself.is_some() => {
            last_segment(ty).is_some_and(|segment| segment.ident == "Connection")
        }
        _ => last_segment(ty)
            .is_some_and(|segment| TRANSACTIONS.iter().any(|name| segment.ident == name)),
    }
}

fn unsupported(ty: &Type) -> Option<&'static str> {
    let name = &last_segment(ty)?.ident;
    if name == "PoolConnection" {
        return Some(
            "the handler gets the connection within its transaction, without its pool: write `&mut PgConnection` (or `&mut MySqlConnection`, `&mut SqliteConnection`)",
        );
    }
    if name == "AnyConnection" {
        return Some(
            "sqlx's `Any` is not supported, since the promises rest on each database's own error codes: write `&mut PgConnection`, `&mut MySqlConnection` or `&mut SqliteConnection`",
        );
    }
    None
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

/// A pool, also behind references and pointers, or in an extractor of a web framework.
fn is_pool(ty: &Type) -> bool {
    const POOLS: [&str; 5] = ["Pool", "PgPool", "MySqlPool", "SqlitePool", "AnyPool"];
    let ty = referent(ty);
    let Some(segment) = last_segment(ty) else {
        return false;
    };
    POOLS.iter().any(|name| segment.ident == name) || generic_types(segment).any(is_pool)
}

/// Types that are known not to be a `Result`. For names that may be aliases, the type checker asks the trait.
fn is_no_result(ty: &Type) -> bool {
    const OTHERS: [&str; 21] = [
        "Option", "Outcome", "Vec", "Box", "String", "str", "bool", "char", "i8", "i16", "i32",
        "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128", "usize", "f64",
    ];
    match ty {
        Type::Path(path) => {
            path.path.segments.len() == 1
                && OTHERS
                    .iter()
                    .any(|name| path.path.segments[0].ident == name)
        }
        Type::Tuple(_) | Type::Reference(_) | Type::Array(_) | Type::Slice(_) | Type::Never(_) => {
            true
        }
        _ => false,
    }
}

/// `Pin<Box<dyn Future<..> ..>>`
fn returns_boxed_future(ty: &Type) -> bool {
    last_segment(ty).is_some_and(|pin| {
        pin.ident == "Pin"
            && generic_types(pin)
                .filter_map(last_segment)
                .any(|segment| segment.ident == "Box")
    })
}

fn find_impl_trait(ty: &Type) -> Option<&Type> {
    match ty {
        Type::ImplTrait(_) => Some(ty),
        _ => generic_types(last_segment(ty)?).find_map(find_impl_trait),
    }
}

/// The first type argument of a path that is called `Result`: the handler's value.
pub(crate) fn value_of_result(ty: &mut Type) -> Option<&mut Type> {
    let Type::Path(path) = ty else { return None };
    let segment = path.path.segments.last_mut()?;
    if segment.ident != "Result" {
        return None;
    }
    let PathArguments::AngleBracketed(arguments) = &mut segment.arguments else {
        return None;
    };
    match arguments.args.first_mut()? {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    }
}

fn mutable_reference(ty: &Type) -> Option<&Type> {
    match ty {
        Type::Group(group) => mutable_reference(&group.elem),
        Type::Paren(paren) => mutable_reference(&paren.elem),
        Type::Reference(TypeReference {
            mutability: Some(_),
            elem,
            ..
        }) => Some(elem),
        _ => None,
    }
}

fn referent(ty: &Type) -> &Type {
    match ty {
        Type::Reference(reference) => referent(&reference.elem),
        Type::Group(group) => referent(&group.elem),
        Type::Paren(paren) => referent(&paren.elem),
        _ => ty,
    }
}

fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        Type::Group(group) => last_segment(&group.elem),
        _ => None,
    }
}

fn generic_types(segment: &PathSegment) -> impl Iterator<Item = &Type> {
    let arguments = match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => Some(&arguments.args),
        _ => None,
    };
    arguments
        .into_iter()
        .flatten()
        .filter_map(|argument| match argument {
            GenericArgument::Type(ty) => Some(ty),
            _ => None,
        })
}

/// Tokens as a person would write them.
fn text(tokens: impl ToTokens) -> String {
    let mut text = quote!(#tokens).to_string();
    for (spaced, tight) in [
        (" :: ", "::"),
        (" < ", "<"),
        (" >", ">"),
        ("& ", "&"),
        (" , ", ", "),
        (" : ", ": "),
    ] {
        text = text.replace(spaced, tight);
    }
    text
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
