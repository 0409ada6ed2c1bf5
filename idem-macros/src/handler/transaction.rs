use syn::{Attribute, FnArg, Signature, Type};

use crate::errors::Errors;
use crate::types::{is_transaction, mutable_reference, referent, text, unsupported};

/// Finds the one transaction parameter, and takes the `#[tx]` off.
pub(super) fn find_transaction(signature: &mut Signature, errors: &mut Errors) -> Option<usize> {
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
                None => "the handler has no transaction to write to; add a parameter `tx: &mut PgConnection` (or `&mut MySqlConnection`, `&mut SqliteConnection`, `&mut sqlx::Transaction<'_, DB>`, `&mut idem::Tx<'_, DB>`)".to_owned(),
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
