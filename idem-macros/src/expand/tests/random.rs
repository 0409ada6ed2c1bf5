//! Valid attributes and handlers with tokens deleted, doubled, exchanged or put in at random: an error or an expansion, and never a panic.

use proc_macro2::{Group, TokenTree};
use proptest::prelude::*;
use syn::ItemFn;

use super::*;

const ARGUMENTS: [&str; 8] = [
    "key = \"event.id\", consumer = \"billing\"",
    "key = (event.source, event.id), consumer = \"billing\", replay, fingerprint = \"(event.amount, event.currency)\"",
    "key = event.id, consumer = \"billing\", business_key = \"(event.order, \\\"charge\\\")\", in_flight = \"5s\", retries = 3",
    "key = event.id, consumer = \"projection\", version = \"event.version\", gapless = 0, isolation = \"serializable\"",
    "key = event.id, consumer = \"batch\", each = \"event in events\"",
    "key = event.id, consumer = \"mail\", retain = \"14d\", redelivery = \"4d\", business_retain = \"365d\", business_key = event.order",
    "key = event.id, consumer = \"days\", time = \"event.time\", from_plain, retain = \"7d\", redelivery = \"1d\"",
    "key = event.id, consumer = \"trait\", pool = \"self.pool\", allow_pool, crate = \"my_crate::idem\"",
];

const HANDLERS: [&str; 6] = [
    "async fn add(tx: &mut PgConnection, event: &Event) -> Result<i64, Error> { Ok(event.id) }",
    "async fn add(tx: &mut Transaction<'_, Sqlite>, events: Vec<Event>) -> Result<(), Error> { Ok(()) }",
    "pub(crate) async fn add<'a, T: Id + 'a, const N: usize>(&self, #[tx] tx: &'a mut Conn, event: &T) -> anyhow::Result<[u8; N]> where T: Send { todo!() }",
    "async fn add(event: impl AsRef<Event>, tx: &mut Tx<'_, MySql>, pool: &MySqlPool) -> Result<(), Box<dyn Error>> { Ok(()) }",
    "#[instrument] async fn add(&self, tx: &mut idem::Tx<'_, sqlx::Postgres>, Event { id, .. }: Event, mut n: u8) -> Result<(), E> { Ok(()) }",
    "async fn add(tx: &mut sqlx::SqliteConnection, event: Option<Event>) -> Result<Outcome<()>, Error> { let Some(event) = event else { return Ok(()) }; Ok(()) }",
];

/// What is put in: the attribute's own words, what stands beside them, and what should not be there.
const TOKENS: [&str; 44] = [
    "key",
    "consumer",
    "business_key",
    "replay",
    "fingerprint",
    "version",
    "gapless",
    "in_flight",
    "retries",
    "isolation",
    "each",
    "retain",
    "redelivery",
    "time",
    "pool",
    "crate",
    "event",
    "tx",
    "self",
    "in",
    "=",
    ",",
    ".",
    ":",
    "&",
    "mut",
    "async",
    "fn",
    "->",
    "<",
    ">",
    "'a",
    "..",
    "#",
    "|",
    "3",
    "-1",
    "\"7d\"",
    "\"event in events\"",
    "\"event.id\"",
    "\"\"",
    "()",
    "(event, id)",
    "{ }",
];

#[derive(Debug, Clone)]
enum Edit {
    Delete,
    Double,
    ExchangeWithNext,
    Replace(&'static str),
    PutBefore(&'static str),
}

/// Which token, counted through all groups, and what becomes of it.
fn edits() -> impl Strategy<Value = Vec<(prop::sample::Index, Edit)>> {
    let token = prop::sample::select(&TOKENS[..]);
    let edit = prop_oneof![
        Just(Edit::Delete),
        Just(Edit::Double),
        Just(Edit::ExchangeWithNext),
        token.clone().prop_map(Edit::Replace),
        token.prop_map(Edit::PutBefore),
    ];
    prop::collection::vec((any::<prop::sample::Index>(), edit), 0..6)
}

fn count(tokens: &TokenStream) -> usize {
    let inner = |token| match token {
        TokenTree::Group(group) => 1 + count(&group.stream()),
        _ => 1,
    };
    tokens.clone().into_iter().map(inner).sum()
}

fn edited(tokens: &TokenStream, edits: &[(prop::sample::Index, Edit)]) -> TokenStream {
    edits
        .iter()
        .fold(tokens.clone(), |tokens, (at, edit)| match count(&tokens) {
            0 => tokens,
            tokens_in_all => edit_at(tokens, &mut at.index(tokens_in_all), edit),
        })
}

/// `left` is how many tokens there are before the one that is meant; `usize::MAX` when that is done.
fn edit_at(tokens: TokenStream, left: &mut usize, edit: &Edit) -> TokenStream {
    let mut result: Vec<TokenTree> = Vec::new();
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        if *left == 0 {
            *left = usize::MAX;
            let put = |text: &str| text.parse::<TokenStream>().expect("tokens");
            match edit {
                Edit::Delete => {}
                Edit::Double => result.extend([token.clone(), token]),
                Edit::ExchangeWithNext => result.extend(tokens.next().into_iter().chain([token])),
                Edit::Replace(text) => result.extend(put(text)),
                Edit::PutBefore(text) => result.extend(put(text).into_iter().chain([token])),
            }
            continue;
        }
        if *left != usize::MAX {
            *left -= 1;
        }
        result.push(match token {
            TokenTree::Group(group) if *left != usize::MAX => {
                let inner = edit_at(group.stream(), left, edit);
                TokenTree::Group(Group::new(group.delimiter(), inner))
            }
            token => token,
        });
    }
    result.into_iter().collect()
}

/// An item that is a function, as rustc hands over, comes out as Rust; and any other with its error.
fn holds(args: TokenStream, item: &TokenStream) -> Result<(), TestCaseError> {
    let said = args.to_string();
    let expanded = idempotent(args, item);
    let is_error = expanded.to_string().contains("compile_error");
    match syn::parse2::<ItemFn>(item.clone()) {
        Ok(function) => {
            let file = syn::parse2::<File>(expanded);
            prop_assert!(file.is_ok(), "#[idempotent({})] {}", said, item);
            let is_there = file.is_ok_and(|file| {
                file.items.iter().any(
                    |item| matches!(item, Item::Fn(item) if item.sig.ident == function.sig.ident),
                )
            });
            prop_assert!(is_there, "#[idempotent({})] {}", said, item);
        }
        Err(_) => prop_assert!(is_error, "#[idempotent({})] {}", said, item),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn nearly_valid_attributes_and_handlers(
        arguments in prop::sample::select(&ARGUMENTS[..]),
        handler in prop::sample::select(&HANDLERS[..]),
        of_arguments in edits(),
        of_handler in edits(),
    ) {
        let arguments = edited(&args(arguments), &of_arguments);
        // Half of the handlers stay as they are.
        let of_handler = if of_handler.len() < 3 { &[] } else { &of_handler[3..] };
        let handler = edited(&handler.parse().expect("tokens"), of_handler);
        holds(arguments, &handler)?;
    }

    #[test]
    fn any_tokens(
        arguments in prop::collection::vec(prop::sample::select(&TOKENS[..]), 0..12),
        text in "\\PC{0,24}",
        handler in prop::sample::select(&HANDLERS[..]),
    ) {
        let handler = handler.parse().expect("tokens");
        holds(arguments.join(" ").parse().expect("tokens"), &handler)?;
        let literal = format!("key = {text:?}, consumer = {text:?}, retain = {text:?}, in_flight = {text:?}, each = {text:?}");
        if let Ok(tokens) = literal.parse() {
            holds(tokens, &handler)?;
        }
        if let Ok(tokens) = text.parse() {
            holds(tokens, &handler)?;
        }
    }
}
