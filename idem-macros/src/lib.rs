//! The attribute of [`idem`](https://docs.rs/idem-sqlx): use that crate, which re-exports it next to the runtime that it calls.

use proc_macro::TokenStream;

mod args;
mod errors;
mod expand;
mod handler;
mod key;
mod render;
mod types;

/// Gives a message its effect once: rewrites an async handler so that its transaction begins with the claim of (consumer, key), and
/// short-circuits duplicates.
///
/// ```text
/// #[idempotent(key = "event.id", consumer = "billing")]
/// async fn add_credits(tx: &mut PgConnection, event: &OrderPaid) -> Result<i64, BillingError> { … }
///
/// match add_credits(&pool, &event).await? {
///     Outcome::Processed(total) => …,   // ran, and is committed
///     _ => …,                           // an earlier delivery did it
/// }
/// ```
///
/// # Arguments
///
/// | argument | what it says |
/// |---|---|
/// | `key = "event.id"` | Required. An expression over the handler's parameters that is equal in all deliveries of one message and differs between messages. In quotes or bare; its type implements `idem::Key`; a tuple makes a composite key. Evaluated before a connection is taken. |
/// | `consumer = "billing"` | Required. The name of the handler's once-only scope: 1 to 255 bytes without blanks or control characters. Two handlers that share a name share their claims, and each message is processed by only one of them. |
/// | `allow_pool` | Permits a pool among the parameters, for reads: what is written through it is outside the transaction. A pool that is not a typed parameter (`self.pool`, a static) is not seen, so that it is up to you not to write through it. |
///
/// # The handler
///
/// An `async fn` with a body that returns a `Result<T, E>` (or an alias of one) with `E: From<idem::Error>`, and that has exactly one
/// transaction parameter: a `&mut` to `PgConnection`, `MySqlConnection`, `SqliteConnection` or `sqlx::Transaction<'_, DB>`, or to an
/// alias of these that is marked `#[tx]`. Methods, generics, `impl Trait` arguments, patterns, `mut`, `?` and early `return` work.
///
/// Outside, the transaction parameter becomes `impl Source` (give it `&pool`, `&mut connection` or `&mut transaction`), and the result
/// becomes `Result<Outcome<T>, E>`. `Ok`: acknowledge. `Err`: do not, the broker redelivers.
///
/// # How it expands
///
/// The attribute is a phone call to the runtime; your body stays as you wrote it.
///
#[doc = include_str!("../expansion.md")]
#[proc_macro_attribute]
pub fn idempotent(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::idempotent(args.into(), &item.into()).into()
}
