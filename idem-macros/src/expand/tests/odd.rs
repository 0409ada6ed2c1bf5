//! Whatever the tokens are, the macro ends, does not panic, and gives the user's function back.

use proc_macro2::TokenTree;

use super::*;

const HANDLER: &str =
    "async fn add(tx: &mut PgConnection, event: &Event) -> Result<(), Error> { Ok(()) }";

#[test]
fn odd_arguments_are_errors() {
    let odd = [
        "",
        ",",
        ",,,,",
        "=",
        "= = =",
        "key",
        "key,",
        "key =",
        "key = ,",
        "key = = event.id",
        "key = event.",
        "key = event.id.",
        "key = (",
        "key = \"(\"",
        "key = \"event.id)\"",
        "key = \"event.id; drop()\"",
        "key = \"}{\"",
        "key = \"'\"",
        "key = \"/*\"",
        "key = \"\\u{0}\"",
        "key = b\"event.id\"",
        "key = [[[[((((event))))]]]]",
        "key = |",
        "key = |a",
        "key = if",
        "key = event as",
        "key = <",
        "key = event::<",
        "key event.id",
        "key(event.id)",
        "key { event.id }",
        "key: event.id",
        "consumer",
        "consumer = 7",
        "consumer = b\"billing\"",
        "consumer = concat!(\"a\", \"b\")",
        "allow_pool, allow_pool",
        "allow_pool(true)",
        "crate::key = event.id",
        "r#key = event.id",
        "type = 3",
        "#[key] = 3",
        "#!, $, ;",
        "1, 2, 3",
        "'a, 'b",
        "((), [], {})",
        "- - - > > > .. ..=",
        "business_key = ",
        "business_key = = 3",
        "replay =",
        "replay = = replay",
        "fingerprint = ()",
        "fingerprint = (,)",
        "version = #",
        "version = \"(\"",
        "gapless = ",
        "gapless = -",
        "gapless = --1",
        "gapless = 1 1",
        "gapless = \"",
        "in_flight = ",
        "in_flight = \"\\u{0}\"",
        "in_flight = 5s5",
        "in_flight = b\"5s\"",
        "in_flight = 'a'",
        "in_flight = \"5\u{661}s\"",
        "isolation = ",
        "isolation = \"\u{130}\"",
        "retries = ",
        "retries = -",
        "retries = 1 + 1",
        "retries = 0x",
        "retries = '3'",
        "retries = 3..4",
        "each = ",
        "each = in",
        "each = in in in",
        "each = event in",
        "each = event in ,",
        "each = \"event in\"",
        "each = \"in events\"",
        "each = | in |",
        "each = event in { event }",
        "each = 1..=2 in 3",
        "each = event in event::<u8>",
        "each = ref mut event @ Some(_) in event",
        "retain = ",
        "retain = 0",
        "retain = -7",
        "retain = 7.5",
        "retain = 7dd",
        "retain = 1e5",
        "retain = \"\"",
        "retain = \"\u{0}\"",
        "retain = \"\u{130}\"",
        "retain = b\"7d\"",
        "retain = 99999999999999999999999999999999999999999",
        "redelivery = ",
        "redelivery = '4'",
        "redelivery = \"4\u{661}d\"",
        "business_retain = ",
        "business_retain = [7]",
        "time = ",
        "time = (",
        "time = ()",
        "time = now",
        "time = \"\"",
        "time = |now| now",
        "from_plain = ",
        "from_plain(true)",
        "pool = ",
        "pool = ..",
        "pool = || pool",
        "crate",
        "crate =",
        "crate = crate",
        "crate = ::",
        "crate = self::",
        "crate = \"::\"",
        "crate = a::",
        "crate = <u8>::idem",
        "crate = \"\"",
        "crate::idem",
        "super = 3",
        "Self = 3",
        "r#crate = idem",
        "_ = 3",
    ];
    for text in odd {
        let Ok(tokens) = text.parse::<TokenStream>() else {
            // An unbalanced one never reaches a macro.
            continue;
        };
        let expanded = idempotent(tokens, &HANDLER.parse().unwrap());
        assert!(expanded.to_string().contains("fn add"), "{text}");
        assert!(!messages(expanded).is_empty(), "{text}");
    }
}

#[test]
fn odd_items_are_errors() {
    let odd = [
        "",
        ";",
        ",,,",
        "fn",
        "async",
        "async fn",
        "async fn add",
        "fn add()",
        "fn add();",
        "fn add() {}",
        "fn add(..) {}",
        "async fn add(self) {}",
        "async fn add() -> {}",
        "async fn add(tx: &mut) {}",
        "async fn add(tx: &mut Transaction) -> Result<(), E> {}",
        "async fn add(tx: &mut Transaction<>) -> Result {}",
        "async fn add(_: &mut PgConnection) -> Result<> {}",
        "async fn add((a, b): &mut PgConnection) -> ! { loop {} }",
        "async fn add(#[tx] #[tx] tx: &mut [u8]) -> () {}",
        "async fn add(#[tx(3)] tx: &mut dyn Any) -> impl Sized {}",
        "async fn add(tx: &mut &mut PgConnection) -> Result<(), E> {}",
        "async fn add(tx: fn(&mut PgConnection)) -> Result<(), E> {}",
        "async fn add(tx: *mut PgConnection) -> Result<(), E> {}",
        "async fn add(tx: &mut impl Executor) -> Result<(), E> {}",
        "async fn add(tx: m!()) -> m!() {}",
        "unsafe extern \"C\" fn add(x: u8, ...) {}",
        "const async fn add<'a, T: 'a, const N: usize>() where T: Copy {}",
        "struct Event;",
        "enum Event {}",
        "impl Event {}",
        "trait Event { fn id(); }",
        "mod event {}",
        "macro_rules! add { () => {} }",
        "add!()",
        "let x = 1;",
        "|tx| async {}",
        "{ { { } } }",
        "#[a] #[b(c)] #![d]",
        "'a 'b 1 2 \"3\"",
    ];
    for text in odd {
        let tokens: TokenStream = text.parse().expect(text);
        let expanded =
            idempotent(args("key = event.id, consumer = \"billing\""), &tokens).to_string();
        assert!(expanded.contains("compile_error"), "{text}: {expanded}");
        let kept = tokens.into_iter().all(|token| match token {
            TokenTree::Ident(word) => expanded.contains(&word.to_string()),
            _ => true,
        });
        assert!(kept, "{text}: {expanded}");
    }
}

/// A deep nest is as deep for rustc's own parser, which has to come first.
#[test]
fn deep_nests_are_survived() {
    let deep = |open: &str, close: &str| format!("{}event.id{}", open.repeat(64), close.repeat(64));
    for (open, close) in [("(", ")"), ("&", ""), ("-", ""), ("f(", ")"), ("(", ",)")] {
        let key = deep(open, close);
        for argument in [format!("key = {key}"), format!("key = {key:?}")] {
            let tokens = args(&format!("{argument}, consumer = \"billing\""));
            let expanded = idempotent(tokens, &HANDLER.parse().unwrap());
            assert_eq!(messages(expanded), [""; 0], "{argument}");
        }
    }
}
