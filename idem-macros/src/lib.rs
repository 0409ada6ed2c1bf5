//! The attribute of [`idem`](https://docs.rs/idem-sqlx): use that crate, which re-exports it next to the runtime that it calls.

use proc_macro::TokenStream;

mod args;
mod batch;
mod check;
mod combinations;
mod errors;
mod expand;
mod handler;
mod render;
mod scope;
mod types;
mod windows;

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
/// An expression may stand in quotes or bare: `key = "event.id"` or `key = event.id`.
///
/// | argument | what it says |
/// |---|---|
/// | `key = "event.id"` | Required. An expression over the handler's parameters that is equal in all deliveries of one message and differs between messages. Its type implements `idem::Key`; a tuple makes a composite key, of 8 parts at most per level. Evaluated before a connection is taken. |
/// | `consumer = "billing"` | Required. The name of the handler's once-only scope: 1 to 255 bytes without blanks or control characters. Two handlers that share a name share their claims, and each message is processed by only one of them. |
/// | `business_key = "event.order_id"` | A second key, for messages that are the same although their `key` differs or is missing: a delivery is a duplicate if either was seen. An expression as in `key`; `key` may then be an `Option`. |
/// | `fingerprint = "event.amount"` | What has to be equal in all deliveries of a message: a duplicate with another one is an error, since two messages share a key. An expression over the parameters that is `serde::Serialize`; a tuple has 16 parts at most per level. Needs the feature `fingerprint`. |
/// | `replay` | A duplicate returns `Outcome::Replayed` with the value that the first delivery returned, which is kept with the claim as JSON, of `idem::MAX_VALUE_BYTES` at most. The value's type is `Serialize` and `DeserializeOwned`. Needs the feature `replay`. |
/// | `version = "event.version"` | For messages that carry a state: the key names the thing, and only a version above the latest one that was processed is new; an equal one is a duplicate, an older one `Outcome::Stale`. An expression that is an integer. |
/// | `gapless`, `gapless = 0` | Beside `version`: the versions of a key follow each other without a gap, from 1 or from the number given. One that comes too early is a transient error. |
/// | `in_flight = "fail"` | What a delivery does while another one of the same message runs. `"wait"`, as without the argument: waits for its verdict, as long as the database lets it. `"5s"`: no longer than that, from `1ms` to `1h`, in `ms`, `s`, `m`, `h` (whole seconds on MySQL and MariaDB). `"fail"`: not at all. Then the delivery fails with a transient error. |
/// | `isolation = "serializable"` | The transaction's isolation level, or `"repeatable read"`, `"read committed"`, `"read uncommitted"`. Without it, the session's. A delivery that joins a transaction of the caller's cannot choose, and fails on PostgreSQL and MySQL. |
/// | `retries = 3` | Runs the whole delivery again, in a new transaction, up to that many times (1 to 10) when it lost a conflict of transactions (deadlock, serialization failure). The body may run several times, so that it borrows its parameters and must not use them up; what it changes through a `&mut` parameter, or outside of the database, is changed each time. In a transaction of the caller's it runs once. Put `#[instrument]` below, since above it moves the parameters into the body. |
/// | `each = "event in events"` | The handler takes a batch: `events` is a parameter of type `Vec<_>`, `event` a pattern for a reference to one of its messages, which `key` and `fingerprint` are taken from. All are claimed in one transaction, and the body gets those that are fresh. The result is `Result<BatchOutcome<T>, E>`. |
/// | `retain = "7d"` | How long the consumer's claims are kept, for `idem::Pruner` to know: whole numbers in `d`, `h`, `m`, `s`, `ms`, from large to small, or `"forever"`. Longer than `redelivery`, which has to be there too unless it is for ever: a message that comes again after its claim is gone runs a second time. Without the argument nothing is pruned, unless the pruner is told otherwise. |
/// | `redelivery = "4d"` | How long the broker may deliver a message again, at most: its retention, or its limit of attempts times the pause between them. Every window of the pruner for this consumer has to exceed it. |
/// | `business_retain = "365d"` | How long business keys are kept, which is for ever without it: two messages that ask for one action may come months apart. Longer than `redelivery`, too. |
/// | `time = "event.time"` | When the message was made, by the producer's clock, equal in all its deliveries: its claim is then kept in the table of that day, which is dropped as a whole when it has expired (PostgreSQL). An expression whose type implements `idem::Time`; a `UUIDv7` or a ULID holds its time. Never the time of arrival. |
/// | `from_plain` | Beside `time`, while claims move from the plain table to the one by days: a message that the plain table knows is a duplicate, and new claims are made in both. |
/// | `pool = "self.pool"` | Where the transaction comes from: the transaction parameter is no longer one for callers, so that the function fits a trait or a framework. An expression for a pool, or a reference to one. |
/// | `allow_pool` | Permits a pool among the parameters, for reads: what is written through it is outside the transaction. The one that `pool` names needs no permission. A pool that is not a typed parameter (`self.pool`, a static) is not seen, so that it is up to you not to write through it. |
/// | `crate = "my_crate::idem"` | The path of the library, where it is not `::idem`: renamed, or re-exported by a crate of yours. |
///
/// These do not go together: `version` with `replay`, `fingerprint`, `business_key`, `each`, `retain`, `redelivery`, `business_retain` or
/// `time`; `each` with `replay`, `retries` or `business_key`.
///
/// # The handler
///
/// An `async fn` with a body that returns a `Result<T, E>` (or an alias of one) with `E: From<idem::Error>`, and that has exactly one
/// transaction parameter: a `&mut` to `PgConnection`, `MySqlConnection`, `SqliteConnection`, `sqlx::Transaction<'_, DB>` or
/// `idem::Tx<'_, DB>`, or to an alias of these that is marked `#[tx]`. Methods, generics, `impl Trait` arguments, patterns, `mut`, `?` and early `return` work.
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
