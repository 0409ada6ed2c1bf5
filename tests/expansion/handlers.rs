//! Every shape of handler that must compile.

use std::error::Error;
use std::fmt::Display;

use idem::{Outcome, idempotent};
use sqlx::{Postgres, Sqlite, SqliteConnection, SqlitePool, Transaction};
use tracing::instrument;

struct Event {
    id: String,
    tenant: u32,
    amount: i64,
}

pub(crate) async fn pool() -> SqlitePool {
    let options = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1);
    let pool = options.connect("sqlite::memory:").await.expect("in memory");
    idem::migrate(&pool).await.expect("a table");
    sqlx::query("CREATE TABLE effects (amount integer NOT NULL)")
        .execute(&pool)
        .await
        .expect("a table");
    pool
}

fn event() -> Event {
    Event {
        id: "evt-1".into(),
        tenant: 7,
        amount: 42,
    }
}

async fn add(conn: &mut SqliteConnection, amount: i64) -> Result<i64, sqlx::Error> {
    sqlx::query("INSERT INTO effects VALUES (?)")
        .bind(amount)
        .execute(&mut *conn)
        .await?;
    sqlx::query_scalar("SELECT sum(amount) FROM effects")
        .fetch_one(conn)
        .await
}

/// The plain one, with a documentation comment.
#[idempotent(key = "event.id", consumer = "plain")]
pub(crate) async fn plain(tx: &mut SqliteConnection, event: &Event) -> Result<i64, sqlx::Error> {
    add(tx, event.amount).await
}

#[idempotent(key = event.id, consumer = "bare")]
async fn bare(tx: &mut SqliteConnection, event: &Event) -> Result<i64, idem::Error> {
    let _ = (tx, event);
    Ok(1)
}

#[idempotent(key = "(event.tenant, event.id)", consumer = "composite")]
async fn transaction(
    event: &Event,
    tx: &mut Transaction<'_, Sqlite>,
) -> Result<i64, Box<dyn Error + Send + Sync>> {
    if event.amount == 0 {
        return Err("nothing to add".into());
    }
    Ok(add(tx, event.amount).await?)
}

#[idempotent(key = "id", consumer = "patterns")]
async fn patterns(
    tx: &mut SqliteConnection,
    Event { id: _, amount, .. }: Event,
    (id, mut count): (u64, i64),
    mut note: String,
) -> anyhow::Result<String> {
    count += add(tx, amount).await?;
    note.push_str(&count.to_string());
    Ok(note)
}

#[idempotent(key = "event.id()", consumer = "generic")]
async fn generic<E, const N: usize>(
    tx: &mut SqliteConnection,
    event: &E,
    extra: [u8; N],
    label: impl Display + Send + Sync,
) -> anyhow::Result<usize>
where
    E: AsId + Sync + ?Sized,
{
    add(tx, 1).await?;
    Ok(N + extra.len() + label.to_string().len() + event.id().len())
}

#[idempotent(key = "event.id()", consumer = "generic_call")]
async fn generic_call<E: AsId + Sync>(tx: &mut SqliteConnection, event: &E) -> anyhow::Result<()> {
    add(tx, 1).await?;
    let _ = event.id();
    Ok(())
}

trait AsId {
    fn id(&self) -> &str;
}

impl AsId for Event {
    fn id(&self) -> &str {
        &self.id
    }
}

mod domain {
    /// Called as sqlx's own.
    pub(super) struct Transaction<C = u8> {
        pub(super) id: u64,
        pub(super) amount: i64,
        pub(super) currency: C,
    }
}

#[idempotent(key = "(payment.id, other.id)", consumer = "domain")]
async fn domain_names(
    tx: &mut SqliteConnection,
    payment: &domain::Transaction,
    other: domain::Transaction<&'static str>,
) -> Answer {
    let amount = payment.amount + other.amount + i64::from(payment.currency);
    add(tx, amount + i64::from(other.currency == "EUR")).await
}

type Answer = Result<i64, sqlx::Error>;
type Tx<'t> = Transaction<'t, Sqlite>;

#[idempotent(key = "event.id", consumer = "aliases")]
async fn aliases(#[tx] tx: &mut Tx<'_>, event: &Event) -> Answer {
    add(tx, event.amount).await
}

#[idempotent(key = "event.id", consumer = "lifetimes")]
async fn lifetimes<'a, 'e>(
    tx: &'a mut Transaction<'a, Sqlite>,
    event: &'e Event,
    other: &'e str,
) -> Result<&'e str, sqlx::Error> {
    add(tx, event.amount).await?;
    Ok(if event.amount == 0 { other } else { &event.id })
}

#[instrument(skip_all)]
#[idempotent(key = "event.id", consumer = "above")]
async fn instrumented_above(tx: &mut SqliteConnection, event: &Event) -> Answer {
    add(tx, event.amount).await
}

#[idempotent(key = "event.id", consumer = "below")]
#[instrument(skip(tx, event), fields(id = event.id))]
async fn instrumented_below(tx: &mut SqliteConnection, event: &Event) -> Answer {
    add(tx, event.amount).await
}

#[cfg(false)]
#[idempotent(key = "event.id", consumer = "absent")]
async fn absent(tx: &mut SqliteConnection, event: &Missing) -> Answer {
    add(tx, event.amount).await
}

struct Service {
    prefix: &'static str,
    pool: SqlitePool,
}

impl Service {
    #[idempotent(key = "(self.prefix, event.id)", consumer = "method")]
    async fn method(&self, tx: &mut SqliteConnection, event: &Event) -> Answer {
        let _ = self.pool.size();
        add(tx, event.amount).await
    }

    #[idempotent(key = "format!(\"{}/{id}\", self.prefix)", consumer = "method_mut")]
    async fn method_mut(&mut self, id: u64, tx: &mut SqliteConnection) -> Answer {
        self.prefix = "changed";
        add(tx, i64::try_from(id).unwrap_or_default()).await
    }
}

trait Consumer {
    async fn consume(&self, event: &Event) -> anyhow::Result<bool>;
}

impl Consumer for Service {
    async fn consume(&self, event: &Event) -> anyhow::Result<bool> {
        Ok(self.method(&self.pool, event).await?.is_processed())
    }
}

#[async_trait::async_trait]
trait Boxed {
    async fn consume_boxed(&self, event: &Event) -> anyhow::Result<bool>;
}

#[async_trait::async_trait]
impl Boxed for Service {
    async fn consume_boxed(&self, event: &Event) -> anyhow::Result<bool> {
        Ok(plain(&self.pool, event).await?.is_duplicate())
    }
}

#[idempotent(key = "event.id", consumer = "connection")]
async fn projected(
    tx: &mut <Postgres as sqlx::Database>::Connection,
    event: &Event,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query("UPDATE accounts SET credits = credits + $1").bind(event.amount);
    Ok(done.execute(tx).await?.rows_affected())
}

#[idempotent(key = "event.id", consumer = "reads", allow_pool)]
async fn reads(tx: &mut SqliteConnection, pool: &SqlitePool, event: &Event) -> Answer {
    let _ = pool.size();
    add(tx, event.amount).await
}

async fn through_a_generic_caller<'c, S>(source: S, event: &Event) -> Answer
where
    S: idem::Source<'c, Database = Sqlite>,
{
    plain(source, event)
        .await
        .map(|outcome| outcome.value().unwrap_or_default())
}

#[tokio::test]
async fn they_run() -> anyhow::Result<()> {
    let pool = pool().await;
    let event = event();
    assert_eq!(plain(&pool, &event).await?, Outcome::Processed(42));
    assert_eq!(plain(&pool, &event).await?, Outcome::Duplicate);
    assert_eq!(bare(&pool, &event).await?, Outcome::Processed(1));
    let outcome = transaction(&event, &pool)
        .await
        .map_err(anyhow::Error::from_boxed)?;
    assert_eq!(outcome, Outcome::Processed(84));
    let note = patterns(&pool, self::event(), (9, 1), "n".into()).await?;
    assert_eq!(note, Outcome::Processed("n127".into()));
    assert_eq!(
        generic(&pool, &event, [0; 3], "abc").await?,
        Outcome::Processed(14)
    );
    assert!(generic_call(&pool, &event).await?.is_processed());
    assert!(aliases(&pool, &event).await?.is_processed());
    assert_eq!(
        lifetimes(&pool, &event, "other").await?,
        Outcome::Processed("evt-1")
    );
    assert!(instrumented_above(&pool, &event).await?.is_processed());
    assert!(instrumented_below(&pool, &event).await?.is_processed());
    let payment = domain::Transaction {
        id: 1,
        amount: 2,
        currency: 3,
    };
    let other = domain::Transaction {
        id: 4,
        amount: 5,
        currency: "EUR",
    };
    assert!(domain_names(&pool, &payment, other).await?.is_processed());
    assert!(reads(&pool, &pool, &event).await?.is_processed());
    let mut service = Service {
        prefix: "p",
        pool: pool.clone(),
    };
    assert!(service.consume(&event).await?);
    assert!(!service.consume(&event).await?);
    assert!(service.consume_boxed(&event).await?);
    assert!(service.method_mut(3, &pool).await?.is_processed());
    assert_eq!(service.prefix, "changed");
    assert_eq!(through_a_generic_caller(&pool, &event).await?, 0);
    Ok(())
}

#[tokio::test]
async fn they_are_spawned() -> anyhow::Result<()> {
    let pool = pool().await;
    let mut tasks = tokio::task::JoinSet::new();
    for id in 0..3_u8 {
        let pool = pool.clone();
        let event = Event {
            id: id.to_string(),
            ..event()
        };
        tasks.spawn(async move {
            let mut processed = 0;
            processed += i32::from(plain(&pool, &event).await?.is_processed());
            let mut conn = pool.acquire().await?;
            processed += i32::from(transaction(&event, &mut conn).await.is_ok());
            processed += i32::from(instrumented_above(&mut *conn, &event).await?.is_processed());
            let mut outer = sqlx::Connection::begin(&mut *conn).await?;
            processed += i32::from(aliases(&mut outer, &event).await?.is_processed());
            processed += i32::from(instrumented_below(&mut outer, &event).await?.is_processed());
            idem::commit(outer).await?;
            drop(conn);
            let service = Service {
                prefix: "p",
                pool: pool.clone(),
            };
            processed += i32::from(
                Box::pin(service.method(&pool, &event))
                    .await?
                    .is_processed(),
            );
            let captured = &event;
            let once = idem::once(&pool, "once", &event.id, async |tx| {
                add(tx, captured.amount).await
            });
            processed += i32::from(once.await?.is_processed());
            processed += i32::from(service.consume_boxed(&event).await?);
            anyhow::Ok(processed)
        });
    }
    while let Some(processed) = tasks.join_next().await {
        assert_eq!(processed??, 8);
    }
    Ok(())
}
