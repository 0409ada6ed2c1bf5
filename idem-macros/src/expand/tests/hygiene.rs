//! The user's names and the macro's own do not meet. That they do not in rustc is tested in `tests/expansion/shadowed.rs`; this is about
//! what the macro prints.

use super::*;

#[test]
fn attributes_and_visibility_stay() {
    let expanded = expand(
        "#[idempotent(key = event.id, consumer = \"billing\")]
        /// Adds.
        #[inline]
        pub(crate) async unsafe fn add(tx: &mut PgConnection, event: &Event) -> Result<(), Error> {
            #![allow(unused)]
            Ok(())
        }",
    );
    let text = pretty(&expanded);
    for kept in [
        "/// Adds.",
        "#[inline]",
        "#[allow(unused)]",
        "pub(crate) async unsafe fn add(",
    ] {
        assert!(text.contains(kept), "{text}");
    }
}

#[test]
fn a_lifetime_of_the_transaction_alone_goes() {
    let expanded = expand(
        "#[idempotent(key = event.id, consumer = \"billing\")]
        async fn add<'t, 'e, T>(tx: &'t mut Transaction<'t, Postgres>, event: &'e T) -> Result<&'e T, Error> {
            Ok(event)
        }",
    );
    let text = pretty(&expanded);
    assert!(text.contains("fn add<'e, T>("), "{text}");
    assert!(
        text.contains("let tx: &mut Transaction<'_, Postgres>"),
        "{text}"
    );
}

#[test]
fn leading_items_stay_first() {
    let expanded = expand(
        "#[idempotent(key = event.id, consumer = \"billing\")]
        async fn add(tx: &mut PgConnection, event: &Event) -> Result<(), Error> {
            use std::fmt::Write;
            const STEP: u8 = 1;
            Ok(())
        }",
    );
    let text = pretty(&expanded);
    let [item, hint] = ["const STEP", "if false"].map(|part| text.find(part).unwrap());
    assert!(item < hint, "{text}");
}

#[test]
fn without_a_name_the_source_gets_one() {
    let expanded = expand(
        "#[idempotent(key = event.id, consumer = \"billing\")]
        async fn add(_: &mut MySqlConnection, event: &Event) -> Result<(), Error> {
            Ok(())
        }",
    );
    let text = pretty(&expanded);
    assert!(
        text.contains(
            "source: impl ::idem::__private::Source<'_, Database = ::idem::__private::MySql>"
        ),
        "{text}"
    );
    assert!(text.contains("let _: &mut MySqlConnection ="), "{text}");
}
