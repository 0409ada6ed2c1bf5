//! The arguments beside `key` and `consumer`, each and together.

use std::sync::Arc;

use idem::{BatchOutcome, Outcome, Tx, idempotent};
use sqlx::{Sqlite, SqliteConnection, SqlitePool};
use tracing::instrument;

use super::handlers::pool;

#[derive(Clone)]
struct Event {
    id: Option<String>,
    order: i64,
    version: i32,
    amount: i64,
}

fn event(id: &str, order: i64) -> Event {
    Event {
        id: Some(id.to_owned()),
        order,
        version: 1,
        amount: 42,
    }
}

type Answer = Result<i64, sqlx::Error>;

async fn add(conn: &mut SqliteConnection, amount: i64) -> Answer {
    sqlx::query("INSERT INTO effects VALUES (?)")
        .bind(amount)
        .execute(&mut *conn)
        .await?;
    sqlx::query_scalar("SELECT sum(amount) FROM effects")
        .fetch_one(conn)
        .await
}

#[idempotent(
    key = "event.id",
    consumer = "business",
    business_key = "(event.order, \"charge\")",
    fingerprint = "(event.amount, (event.version, \"v1\"))",
    in_flight = "1s"
)]
async fn business(tx: &mut SqliteConnection, event: &Event) -> Answer {
    add(tx, event.amount).await
}

/// With a comment.
#[idempotent(key = event.order, consumer = "replay", replay, isolation = "serializable")]
pub(crate) async fn replay(
    tx: &mut Tx<'_, Sqlite>,
    event: &Event,
) -> Result<(i64, String), sqlx::Error> {
    let total = add(&mut *tx, event.amount).await?;
    Ok((total, tx.consumer().to_owned()))
}

#[idempotent(key = "event.order", consumer = "alias", replay, retries = 2, fingerprint = event.amount)]
async fn replay_alias(tx: &mut SqliteConnection, event: Event) -> Answer {
    add(tx, event.amount).await
}

#[idempotent(
    key = "event.order",
    consumer = "version",
    version = "event.version",
    gapless = 0,
    in_flight = "fail"
)]
async fn version(tx: &mut SqliteConnection, event: &Event) -> Answer {
    add(tx, event.amount).await
}

#[idempotent(key = "event.order", consumer = "gapless", version = i64::from(event.version), gapless, retries = 1)]
async fn gapless(tx: &mut SqliteConnection, event: &Event) -> anyhow::Result<i64> {
    anyhow::ensure!(event.amount > 0, "nothing to add");
    Ok(add(tx, event.amount).await?)
}

#[idempotent(key = "event.order", consumer = "retries", retries = 3)]
#[instrument(skip_all)]
async fn retries<'e, M>(
    tx: &mut SqliteConnection,
    event: &'e Event,
    (note, count): (String, u8),
    more: M,
) -> Result<Option<&'e str>, Box<dyn std::error::Error + Send + Sync>>
where
    M: AsRef<str> + Send + Sync,
{
    if note.len() + more.as_ref().len() + usize::from(count) == 0 {
        Err("nothing to add")?;
    }
    let _ = add(tx, event.amount).await?;
    Ok(event.id.as_deref())
}

#[instrument(skip_all)]
#[idempotent(key = "event.order", consumer = "instrumented", retries = 3)]
async fn instrumented_above(tx: &mut SqliteConnection, event: &Event) -> Answer {
    add(tx, event.amount).await
}

#[idempotent(key = "event.order", consumer = "each", each = "event in events")]
async fn each(tx: &mut SqliteConnection, mut events: Vec<Event>) -> Answer {
    events.retain(|event| event.amount != 0);
    let mut sum = 0;
    for event in &events {
        sum = add(&mut *tx, event.amount).await?;
    }
    Ok(sum)
}

struct State<T>(T);

#[idempotent(
    key = "(tenant, order)",
    consumer = "pattern",
    each = "&Event { order, ref amount, .. } in events",
    fingerprint = "amount",
    in_flight = "500ms",
    isolation = "serializable",
    pool = "pool"
)]
async fn each_pattern(
    tx: &mut SqliteConnection,
    tenant: u32,
    State(pool): State<&SqlitePool>,
    State(events): State<Vec<Event>>,
) -> Result<Vec<i64>, sqlx::Error> {
    let mut sums = Vec::new();
    for event in events {
        sums.push(add(&mut *tx, event.amount + i64::from(tenant)).await?);
    }
    Ok(sums)
}

struct Service {
    pool: Arc<SqlitePool>,
}

trait Consumer {
    async fn consume(&self, event: &Event) -> Result<Outcome<i64>, sqlx::Error>;

    async fn consume_all(&mut self, events: &[Event]) -> anyhow::Result<BatchOutcome<usize>>;
}

impl Consumer for Service {
    #[idempotent(
        key = "event.order",
        consumer = "service",
        pool = "self.pool",
        retries = 3
    )]
    async fn consume(&self, tx: &mut SqliteConnection, event: &Event) -> Result<i64, sqlx::Error> {
        add(tx, event.amount).await
    }

    async fn consume_all(&mut self, events: &[Event]) -> anyhow::Result<BatchOutcome<usize>> {
        self.batch(events.iter().collect()).await
    }
}

impl Service {
    #[idempotent(
        key = "event.order",
        consumer = "service",
        pool = self.pool(),
        each = event in events
    )]
    async fn batch(
        &mut self,
        events: Vec<&Event>,
        tx: &mut SqliteConnection,
    ) -> anyhow::Result<usize> {
        for event in &events {
            let _ = add(&mut *tx, event.amount).await?;
        }
        Ok(events.len())
    }

    fn pool(&self) -> SqlitePool {
        SqlitePool::clone(&self.pool)
    }
}

mod elsewhere {
    pub(super) mod deps {
        pub(in super::super) use idem as once_only;
    }
}

#[idempotent(
    crate = "elsewhere::deps::once_only",
    key = "(event.order, event.amount)",
    consumer = "elsewhere",
    replay,
    retries = 1,
    fingerprint = "event.amount"
)]
async fn in_another_crate(tx: &mut SqliteConnection, event: &Event) -> Answer {
    add(tx, event.amount).await
}

macro_rules! handlers {
    ($($name:ident $answer:ty)*) => {$(
        #[idempotent(crate = $crate::arguments::elsewhere::deps::once_only, key = event.order, consumer = "macro", each = event in events)]
        async fn $name(tx: &mut SqliteConnection, events: Vec<Event>) -> $answer {
            let mut sum = 0;
            for event in events {
                sum = add(&mut *tx, event.amount).await?;
            }
            Ok(sum)
        }
    )*};
}

handlers! {
    of_a_macro Answer
}

#[tokio::test]
async fn they_run() -> anyhow::Result<()> {
    let pool = pool().await;
    let first = event("a", 1);
    assert_eq!(business(&pool, &first).await?, Outcome::Processed(42));
    let same = Event {
        id: None,
        ..first.clone()
    };
    assert_eq!(business(&pool, &same).await?, Outcome::Duplicate);
    let value = (84, "replay".to_owned());
    assert_eq!(
        replay(&pool, &first).await?,
        Outcome::Processed(value.clone())
    );
    assert_eq!(replay(&pool, &first).await?, Outcome::Replayed(value));
    let outcome = replay_alias(&pool, first.clone()).await?;
    assert_eq!(outcome, Outcome::Processed(126));
    let outcome = replay_alias(&pool, first.clone()).await?;
    assert_eq!(outcome, Outcome::Replayed(126));
    let early = version(&pool, &first).await;
    assert!(early.is_err_and(|error| idem::is_transient(&error)));
    assert!(gapless(&pool, &first).await?.is_processed());
    assert!(gapless(&pool, &first).await?.is_duplicate());
    let outcome = retries(&pool, &first, ("n".into(), 1), "more").await;
    assert_eq!(outcome.expect("no fault"), Outcome::Processed(Some("a")));
    assert!(instrumented_above(&pool, &first).await?.is_processed());
    Ok(())
}

#[tokio::test]
async fn batches_run() -> anyhow::Result<()> {
    let pool = pool().await;
    let events = vec![event("a", 1), event("b", 2), event("a", 1)];
    let outcome = each(&pool, events.clone()).await?;
    assert_eq!(outcome.value, Some(84));
    assert_eq!((outcome.fresh, outcome.duplicates), (vec![0, 1], vec![2]));
    let outcome = each_pattern(7, State(&pool), State(events.clone())).await?;
    assert_eq!(outcome.value, Some(vec![133, 182]));
    let mut service = Service {
        pool: Arc::new(pool.clone()),
    };
    let outcome = service.consume(&event("a", 1)).await?;
    assert!(outcome.is_processed());
    let outcome = service.consume_all(&events).await?;
    assert_eq!(outcome.value, Some(1));
    assert!(
        in_another_crate(&pool, &event("a", 1))
            .await?
            .is_processed()
    );
    assert!(of_a_macro(&pool, Vec::new()).await?.value.is_none());
    Ok(())
}

#[tokio::test]
async fn they_are_spawned() -> anyhow::Result<()> {
    let pool = pool().await;
    let task = tokio::spawn(async move {
        let first = event("a", 1);
        let mut conn = pool.acquire().await?;
        drop(retries(&mut conn, &first, (String::new(), 1), String::new()).await);
        drop(each(&mut *conn, vec![first.clone()]).await?);
        drop(conn);
        let mut service = Service {
            pool: Arc::new(pool.clone()),
        };
        drop(Box::pin(service.consume_all(&[event("b", 2)])).await?);
        let _ = service.consume(&first).await?;
        let _ = gapless(&pool, &first).await?;
        anyhow::Ok(replay_alias(&pool, first).await?.is_processed())
    });
    assert!(task.await??);
    Ok(())
}
