// What goes together, in generic handlers and methods, behind aliases and patterns.
use std::sync::Arc;

use idem::{Backend, Tx, idempotent};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::{PgConnection, PgPool, Postgres, Sqlite, SqlitePool, Transaction};

struct Event {
    id: Option<u64>,
    order: i64,
    version: i64,
    amount: i64,
}

/// As a web framework passes state.
struct State<T>(T);

type Answer = Result<i64, sqlx::Error>;

#[idempotent(
    key = "event.id", consumer = "all", business_key = "event.order", fingerprint = "event.amount", replay,
    in_flight = "500ms", isolation = "serializable", retries = 3, pool = "pool"
)]
async fn all_of_one(tx: &mut PgConnection, State(pool): State<PgPool>, event: Arc<Event>) -> Answer {
    sqlx::query("UPDATE accounts SET credits = credits + $1").bind(event.amount).execute(&mut *tx).await?;
    Ok(event.amount)
}

#[idempotent(
    key = "event.order", consumer = "versions", version = "event.version", gapless = 0, in_flight = "fail",
    isolation = "read committed", retries = 1, pool = "pools.main", allow_pool
)]
async fn all_of_versions(tx: &mut Transaction<'_, Sqlite>, pools: &Pools, replica: &SqlitePool, event: &Event) -> Answer {
    let _ = (tx, replica.size());
    Ok(event.amount)
}

struct Pools {
    main: Arc<SqlitePool>,
}

#[idempotent(
    key = "event.order", consumer = "batch", each = "event in events", fingerprint = "(event.amount, event.order)",
    in_flight = "2m", isolation = "read_committed", pool = "pool"
)]
async fn all_of_batches(tx: &mut PgConnection, pool: Arc<PgPool>, State(mut events): State<Vec<Event>>) -> Answer {
    let _ = tx;
    events.clear();
    Ok(0)
}

#[idempotent(key = "key(event)", consumer = "generic", replay, retries = 2)]
async fn generic<DB: Backend, E: Sync, T: Serialize + DeserializeOwned + Clone + Sync>(
    tx: &mut Tx<'_, DB>,
    event: &E,
    key: impl Fn(&E) -> u64 + Sync,
    value: T,
) -> anyhow::Result<T>
where
    DB: sqlx::Database,
{
    let _ = (tx, event, &key);
    Ok(value.clone())
}

#[idempotent(key = "message.as_ref()", consumer = "generic", each = "message in messages")]
async fn generic_batch<M: AsRef<str> + Send + Sync>(tx: &mut Tx<'_, Postgres>, messages: Vec<M>) -> Answer {
    let _ = (tx, messages.len());
    Ok(0)
}

async fn on_message(pool: &PgPool, event: Arc<Event>) -> anyhow::Result<()> {
    let _ = all_of_one(State(pool.clone()), event.clone()).await?;
    let _ = generic(pool, &*event, |event| event.order.unsigned_abs(), vec![1]).await?;
    let _ = generic_batch(pool, vec!["a", "b"]).await?;
    let _ = all_of_batches(Arc::new(pool.clone()), State(Vec::new())).await?;
    Ok(())
}

fn main() {
    let _ = (on_message, all_of_versions);
}
