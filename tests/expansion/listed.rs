//! How long claims are kept, what day they are of, and that the program lists its handlers, wherever they are.

use std::time::{Duration, SystemTime};

use idem::{BatchOutcome, Handler, Outcome, Retain, Tx, idempotent};
use sqlx::{PgConnection, Postgres, Sqlite, SqliteConnection, SqlitePool, Transaction};
use tracing::instrument;

use super::handlers::pool;

const DAY: Duration = Duration::from_hours(24);

struct Event {
    id: String,
    source: String,
    order: i64,
    sent: SystemTime,
    lines: Vec<u8>,
}

fn event(id: &str) -> Event {
    Event {
        id: id.to_owned(),
        source: "shop".to_owned(),
        order: 7,
        sent: SystemTime::UNIX_EPOCH,
        lines: vec![3],
    }
}

type Answer = Result<i64, sqlx::Error>;

async fn add(conn: &mut SqliteConnection, amount: i64) -> Answer {
    sqlx::query("INSERT INTO effects VALUES (?)")
        .bind(amount)
        .execute(conn)
        .await?;
    Ok(amount)
}

const PLAIN: u32 = line!() + 3;

/// Documented.
#[idempotent(
    key = "event.id",
    consumer = "listed_plain",
    retain = "7d",
    redelivery = "4d"
)]
async fn plain(tx: &mut SqliteConnection, event: &Event) -> Answer {
    add(tx, event.order).await
}

#[instrument(skip_all)]
#[idempotent(key = (event.source, event.id), consumer = "listed_actions", business_key = event.order,
    retain = "1d12h", redelivery = "90m", business_retain = "365d", replay)]
pub(crate) async fn actions(
    tx: &mut Transaction<'_, Sqlite>,
    event: &Event,
) -> anyhow::Result<i64> {
    Ok(add(tx, event.order).await?)
}

#[idempotent(key = event.source, version = event.order, consumer = "listed_version")]
async fn version(tx: &mut SqliteConnection, event: &Event) -> Answer {
    add(tx, event.order).await
}

#[idempotent(
    key = "event.id",
    consumer = "listed_batch",
    each = "event in events",
    retain = "forever",
    redelivery = "14d"
)]
async fn batch(tx: &mut SqliteConnection, events: Vec<Event>) -> Result<usize, sqlx::Error> {
    let _ = add(tx, 1).await?;
    Ok(events.len())
}

#[idempotent(
    key = "key(event)",
    consumer = "listed_generic",
    retain = "2d",
    redelivery = "1d",
    retries = 2
)]
async fn generic<E: Sync, const N: usize>(
    tx: &mut SqliteConnection,
    event: &E,
    key: impl Fn(&E) -> String + Sync,
    _: [u8; N],
) -> Answer {
    add(tx, i64::from(!key(event).is_empty())).await
}

mod written {
    use super::{Answer, Event, SqliteConnection, add, idempotent};

    /// As a formatter would not leave it.
    #[rustfmt::skip]
    #[idempotent(key = (
        event . source,
        event.lines.iter().map(|line| line.count_ones()).max().unwrap_or(0),
        format!("{}-{}", event.id, event.order + 1),
        &event.id[..], -event.order
    ), consumer = "listed_bare")]
    pub(super) async fn bare(tx: &mut SqliteConnection, event: &Event) -> Answer {
        add(tx, event.order).await
    }
}

struct Service {
    pool: SqlitePool,
}

trait Consumer {
    async fn consume(&self, event: &Event) -> Result<Outcome<i64>, sqlx::Error>;

    async fn day_of(
        &self,
        pool: &sqlx::PgPool,
        events: Vec<&Event>,
    ) -> Result<BatchOutcome<usize>, sqlx::Error>;
}

impl Service {
    #[idempotent(
        key = "event.id",
        consumer = "listed_method",
        retain = "9d",
        redelivery = "8d"
    )]
    async fn method(&self, tx: &mut SqliteConnection, event: &Event) -> Answer {
        add(tx, event.order).await
    }
}

impl Consumer for Service {
    #[idempotent(
        key = "event.id",
        consumer = "listed_trait",
        pool = "self.pool",
        redelivery = "4d"
    )]
    async fn consume(&self, tx: &mut SqliteConnection, event: &Event) -> Answer {
        add(tx, event.order).await
    }

    #[idempotent(key = event.id, consumer = "listed_days", each = "event in events", time = "event.sent", from_plain,
        retain = "7d", redelivery = "4d", pool = pool)]
    async fn day_of(
        &self,
        tx: &mut PgConnection,
        pool: &sqlx::PgPool,
        events: Vec<&Event>,
    ) -> Result<usize, sqlx::Error> {
        let _ = tx;
        Ok(events.len())
    }
}

#[idempotent(key = "event.id", consumer = "listed_day", time = event.sent, retries = 1, in_flight = "fail")]
async fn day(tx: &mut Tx<'_, Postgres>, event: &Event) -> Answer {
    let _ = tx;
    Ok(event.order)
}

mod elsewhere {
    pub(super) use idem as once_only;
}

macro_rules! handlers {
    ($($name:ident $consumer:literal $key:expr, $event:ident;)*) => {$(
        #[idempotent(crate = $crate::listed::elsewhere::once_only, key = $key, consumer = $consumer, redelivery = "1h")]
        async fn $name(tx: &mut SqliteConnection, $event: &Event) -> Answer {
            add(tx, $event.order).await
        }
    )*};
}

handlers! {
    of_a_macro "listed_macro" (event.source, event.id), event;
}

fn listed(consumer: &str) -> &'static Handler {
    let mut handlers = idem::handlers().filter(|handler| handler.consumer == consumer);
    let handler = handlers.next().expect("it is listed");
    assert!(handlers.next().is_none(), "{consumer} is listed once");
    handler
}

#[test]
fn handlers_are_listed_whether_or_not_they_run() {
    let module = module_path!();
    let own = |handler: &&Handler| handler.module.starts_with(module);
    assert_eq!(idem::handlers().filter(own).count(), 12);
    for (consumer, name, key) in [
        ("listed_plain", "plain", "event.id"),
        ("listed_actions", "actions", "(event.source, event.id)"),
        ("listed_version", "version", "event.source"),
        ("listed_batch", "batch", "event.id"),
        ("listed_generic", "generic", "key(event)"),
        ("listed_method", "method", "event.id"),
        ("listed_trait", "consume", "event.id"),
        ("listed_days", "day_of", "event.id"),
        ("listed_day", "day", "event.id"),
        ("listed_nested", "nested", "id"),
        ("listed_macro", "of_a_macro", "(event.source, event.id)"),
        (
            "listed_bare",
            "bare",
            "(event.source, event.lines.iter().map(|line| line.count_ones()).max().unwrap_or(0), format!(\"{}-{}\", event.id, event.order + 1), &event.id[..], -event.order)",
        ),
    ] {
        let handler = listed(consumer);
        assert_eq!((handler.name, handler.key), (name, key));
        assert!(handler.module.starts_with(module), "{}", handler.module);
        assert!(
            handler.file.ends_with("expansion/listed.rs"),
            "{}",
            handler.file
        );
    }
    assert_eq!(listed("listed_plain").line, PLAIN);
    assert_eq!(listed("listed_bare").module, format!("{module}::written"));
}

#[test]
fn windows_and_forms_are_listed() {
    let plain = listed("listed_plain");
    assert_eq!(plain.retain, Some(Retain::For(7 * DAY)));
    assert_eq!(plain.redelivery, Some(4 * DAY));
    assert_eq!(plain.business_retain, None);
    assert_eq!(plain.time, None);
    assert!(!plain.has_business_key && !plain.has_version && !plain.is_batch);
    let actions = listed("listed_actions");
    assert_eq!(actions.retain, Some(Retain::For(Duration::from_hours(36))));
    assert_eq!(actions.redelivery, Some(Duration::from_mins(90)));
    assert_eq!(actions.business_retain, Some(Retain::For(365 * DAY)));
    assert!(actions.has_business_key && !actions.has_version && !actions.is_batch);
    let batch = listed("listed_batch");
    assert_eq!(batch.retain, Some(Retain::Forever));
    assert!(batch.is_batch && !batch.has_business_key);
    assert!(listed("listed_version").has_version);
    assert_eq!(listed("listed_version").retain, None);
    for (consumer, is_batch) in [("listed_day", false), ("listed_days", true)] {
        let handler = listed(consumer);
        assert_eq!(handler.time, Some("event.sent"));
        assert_eq!(handler.is_batch, is_batch);
    }
    assert_eq!(listed("listed_trait").redelivery, Some(4 * DAY));
    assert_eq!(listed("listed_trait").retain, None);
}

/// They have a test with a server in the contract; here nobody answers.
#[tokio::test]
async fn days_compile() -> anyhow::Result<()> {
    let options = sqlx::postgres::PgPoolOptions::new().acquire_timeout(Duration::from_millis(50));
    let nowhere = options.connect_lazy("postgres://postgres@127.0.0.1:1")?;
    let first = event("a");
    assert!(day(&nowhere, &first).await.is_err());
    let service = Service { pool: pool().await };
    assert!(service.day_of(&nowhere, vec![&first]).await.is_err());
    Ok(())
}

#[tokio::test]
async fn they_run() -> anyhow::Result<()> {
    #[idempotent(key = "id", consumer = "listed_nested", retain = "forever")]
    async fn nested(tx: &mut SqliteConnection, id: u8) -> Answer {
        add(tx, i64::from(id)).await
    }
    let pool = pool().await;
    let first = event("a");
    assert!(nested(&pool, 1).await?.is_processed());
    assert!(plain(&pool, &first).await?.is_processed());
    assert!(plain(&pool, &first).await?.is_duplicate());
    assert!(actions(&pool, &first).await?.is_processed());
    assert_eq!(actions(&pool, &first).await?, Outcome::Replayed(7));
    assert!(version(&pool, &first).await?.is_processed());
    assert_eq!(
        batch(&pool, vec![event("a"), event("a")]).await?.duplicates,
        [1]
    );
    let key = |event: &Event| event.id.clone();
    assert!(generic(&pool, &first, key, [0; 3]).await?.is_processed());
    assert!(written::bare(&pool, &first).await?.is_processed());
    assert!(of_a_macro(&pool, &first).await?.is_processed());
    let service = Service { pool };
    assert!(service.method(&service.pool, &first).await?.is_processed());
    assert!(service.consume(&first).await?.is_processed());
    Ok(())
}
