//! What can be told of a type by its tokens alone.

use quote::{ToTokens, quote};
use syn::{
    GenericArgument, PathArguments, PathSegment, Type, TypeImplTrait, TypeParamBound, TypeReference,
};

const TRANSACTIONS: [&str; 4] = [
    "Transaction",
    "PgTransaction",
    "MySqlTransaction",
    "SqliteTransaction",
];

const CONNECTIONS: [&str; 5] = [
    "PgConnection",
    "MySqlConnection",
    "SqliteConnection",
    "AnyConnection",
    "PoolConnection",
];

const DATABASES: [&str; 4] = ["Postgres", "MySql", "Sqlite", "Any"];

pub(crate) fn is_transaction(ty: &Type) -> bool {
    match ty {
        // `<Postgres as sqlx::Database>::Connection`
        Type::Path(path) if path.qself.is_some() => {
            last_segment(ty).is_some_and(|segment| segment.ident == "Connection")
        }
        _ => last_segment(ty).is_some_and(|segment| {
            CONNECTIONS.iter().any(|name| segment.ident == name)
                || TRANSACTIONS.iter().any(|name| segment.ident == name) && is_of_sqlx(segment)
                || is_tx(segment) && is_of_sqlx(segment)
        }),
    }
}

/// `idem::Tx<'_, DB>`, and not a `Tx<'_>` that may be the alias of anything.
fn is_tx(segment: &PathSegment) -> bool {
    segment.ident == "Tx" && generic_types(segment).next().is_some()
}

/// A payment may be called a `Transaction` too, but borrows no connection and has no database.
fn is_of_sqlx(transaction: &PathSegment) -> bool {
    let PathArguments::AngleBracketed(arguments) = &transaction.arguments else {
        return false;
    };
    arguments.args.iter().any(|argument| match argument {
        GenericArgument::Lifetime(_) => true,
        GenericArgument::Type(ty) => last_segment(ty)
            .is_some_and(|database| DATABASES.iter().any(|name| database.ident == name)),
        _ => false,
    })
}

pub(crate) fn unsupported(ty: &Type) -> Option<&'static str> {
    let segment = last_segment(ty)?;
    let name = &segment.ident;
    if name == "PoolConnection" {
        return Some(
            "the library takes the connection from the pool, and the handler gets it within the transaction; write `&mut PgConnection` (or `&mut MySqlConnection`, `&mut SqliteConnection`)",
        );
    }
    let is_any = name == "AnyConnection"
        || generic_types(segment)
            .filter_map(last_segment)
            .any(|database| database.ident == "Any");
    if is_any {
        return Some(
            "sqlx's `Any` is not supported, since the promises rest on each database's own error codes; write `&mut PgConnection`, `&mut MySqlConnection` or `&mut SqliteConnection`",
        );
    }
    None
}

/// A pool, also behind references and pointers, or in an extractor of a web framework.
pub(crate) fn is_pool(ty: &Type) -> bool {
    const POOLS: [&str; 5] = ["Pool", "PgPool", "MySqlPool", "SqlitePool", "AnyPool"];
    let ty = referent(ty);
    let Some(segment) = last_segment(ty) else {
        return false;
    };
    // Without its database, a `Pool` is another crate's.
    let is_bare = segment.ident == "Pool" && segment.arguments.is_none();
    POOLS.iter().any(|name| segment.ident == name) && !is_bare
        || generic_types(segment).any(is_pool)
}

/// The database of a connection or a transaction, if the type names it.
pub(crate) fn database(ty: &Type) -> Option<&'static str> {
    const DATABASES: [(&str, [&str; 3]); 3] = [
        ("Postgres", ["PgConnection", "PgTransaction", "Postgres"]),
        ("MySql", ["MySqlConnection", "MySqlTransaction", "MySql"]),
        (
            "Sqlite",
            ["SqliteConnection", "SqliteTransaction", "Sqlite"],
        ),
    ];
    let mut segment = last_segment(ty)?;
    if segment.ident == "Transaction" || segment.ident == "Tx" {
        segment = last_segment(generic_types(segment).next()?)?;
    }
    DATABASES
        .into_iter()
        .find(|(_, names)| names.iter().any(|name| segment.ident == name))
        .map(|(database, _)| database)
}

/// Types that are known not to be a `Result`. For names that may be aliases, the type checker asks the trait.
pub(crate) fn is_no_result(ty: &Type) -> bool {
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
pub(crate) fn returns_boxed_future(ty: &Type) -> bool {
    last_segment(ty).is_some_and(|pin| {
        pin.ident == "Pin"
            && generic_types(pin)
                .filter_map(last_segment)
                .any(|segment| segment.ident == "Box")
    })
}

/// `T` of `impl Future<Output = T>`.
pub(crate) fn future_output(ty: &TypeImplTrait) -> Option<&Type> {
    let arguments = ty.bounds.iter().find_map(|bound| match bound {
        TypeParamBound::Trait(bound) => match &bound.path.segments.last()?.arguments {
            PathArguments::AngleBracketed(arguments) => Some(&arguments.args),
            _ => None,
        },
        _ => None,
    })?;
    arguments.iter().find_map(|argument| match argument {
        GenericArgument::AssocType(output) => Some(&output.ty),
        _ => None,
    })
}

pub(crate) fn find_impl_trait(ty: &Type) -> Option<&Type> {
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

/// The second type argument of a path that is called `Result`: the handler's error.
pub(crate) fn error_of_result(ty: &Type) -> Option<&Type> {
    let segment = last_segment(ty)?;
    if segment.ident != "Result" {
        return None;
    }
    generic_types(segment).nth(1)
}

/// `T` of `Vec<T>`.
pub(crate) fn vec_item(ty: &Type) -> Option<&Type> {
    let segment = last_segment(ty).filter(|segment| segment.ident == "Vec")?;
    generic_types(segment).next()
}

pub(crate) fn mutable_reference(ty: &Type) -> Option<&Type> {
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

pub(crate) fn referent(ty: &Type) -> &Type {
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
pub(crate) fn text(tokens: impl ToTokens) -> String {
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
