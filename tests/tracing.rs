//! Every delivery opens a span with consumer, key, outcome and duration; a duplicate logs at debug level.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use idem::{Claimed, idempotent};
use idem_tests::Fixture;
use sqlx::{Sqlite, SqliteConnection, SqlitePool};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

type Fields = BTreeMap<&'static str, String>;

/// The fields of each delivery's span, and what was logged in it.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<BTreeMap<u64, Fields>>>);

struct Visitor<'f>(&'f mut Fields);

impl Visit for Visitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = format!("{value:?}");
        self.0
            .insert(field.name(), value.trim_matches('"').to_owned());
    }
}

impl<S: Subscriber> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        if attributes.metadata().name() == "delivery" {
            let mut spans = self.0.lock().unwrap();
            attributes.record(&mut Visitor(spans.entry(id.into_u64()).or_default()));
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, _: Context<'_, S>) {
        if let Some(fields) = self.0.lock().unwrap().get_mut(&id.into_u64()) {
            record.record(&mut Visitor(fields));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let parent = event.parent().cloned();
        let Some(id) = parent.or_else(|| context.current_span().id().cloned()) else {
            return;
        };
        if let Some(fields) = self.0.lock().unwrap().get_mut(&id.into_u64())
            && event.metadata().target().starts_with("idem")
            && *event.metadata().level() == Level::DEBUG
        {
            let mut logged = Fields::new();
            event.record(&mut Visitor(&mut logged));
            fields.insert("logged", logged.remove("message").unwrap_or_default());
        }
    }
}

impl Recorder {
    /// The spans since the last call, in their order.
    fn take(&self) -> Vec<Fields> {
        std::mem::take(&mut *self.0.lock().unwrap())
            .into_values()
            .collect()
    }

    fn take_one(&self) -> Fields {
        let mut spans = self.take();
        assert_eq!(spans.len(), 1, "{spans:?}");
        spans.remove(0)
    }
}

#[idempotent(key = "id", consumer = "billing")]
async fn handler(tx: &mut SqliteConnection, id: u32, fails: bool) -> anyhow::Result<()> {
    let _ = (tx, id);
    // The body runs in the span.
    let name = tracing::Span::current()
        .metadata()
        .map(tracing::Metadata::name);
    assert_eq!(name, Some("delivery"));
    tokio::task::yield_now().await;
    anyhow::ensure!(!fails, "the body fails");
    Ok(())
}

async fn set_up() -> (
    Fixture<Sqlite>,
    SqlitePool,
    Recorder,
    tracing::subscriber::DefaultGuard,
) {
    let fixture: Fixture<Sqlite> = Fixture::new().await;
    let pool = fixture.pool(1).await;
    idem::migrate(&pool).await.unwrap();
    let recorder = Recorder::default();
    let registry = tracing_subscriber::registry().with(recorder.clone());
    (
        fixture,
        pool,
        recorder,
        tracing::subscriber::set_default(registry),
    )
}

#[track_caller]
fn assert_span(fields: &Fields, key: &str, outcome: &str) {
    assert_eq!(fields["consumer"], "billing");
    assert_eq!(fields["key"], key);
    assert_eq!(fields["outcome"], outcome, "{fields:?}");
    let duration: f64 = fields["duration_ms"].parse().expect("milliseconds");
    assert!(duration > 0.0);
    assert_eq!(
        fields.contains_key("logged"),
        matches!(outcome, "duplicate" | "replayed" | "stale"),
        "{fields:?}"
    );
}

#[tokio::test]
async fn a_span_says_what_came_of_the_delivery() {
    let (_fixture, pool, recorder, _guard) = set_up().await;
    handler(&pool, 1, true).await.unwrap_err();
    assert_span(&recorder.take_one(), "1", "failed");
    let _ = handler(&pool, 1, false).await.unwrap();
    assert_span(&recorder.take_one(), "1", "processed");
    let _ = handler(&pool, 1, false).await.unwrap();
    assert_span(&recorder.take_one(), "1", "duplicate");
    assert!(
        idem_tests::cancelled_after(1, handler(&pool, 2, false))
            .await
            .is_none()
    );
    assert_span(&recorder.take_one(), "2", "cancelled");
    pool.close().await;
    handler(&pool, 3, false).await.unwrap_err();
    assert_span(&recorder.take_one(), "3", "failed");
}

#[idempotent(key = "id", consumer = "billing", replay)]
async fn replays(tx: &mut SqliteConnection, id: u32) -> anyhow::Result<u32> {
    let _ = tx;
    Ok(id)
}

#[idempotent(key = "id", consumer = "billing", version = "version")]
async fn latest(tx: &mut SqliteConnection, id: u32, version: u32) -> anyhow::Result<()> {
    let _ = (tx, id, version);
    Ok(())
}

#[idempotent(key = "id", consumer = "billing", business_key = "(order, \"charge\")")]
async fn charges(tx: &mut SqliteConnection, id: Option<u32>, order: u32) -> anyhow::Result<()> {
    let _ = (tx, id, order);
    Ok(())
}

#[idempotent(key = "id", consumer = "billing", each = "id in ids")]
async fn each(tx: &mut SqliteConnection, ids: Vec<u32>) -> anyhow::Result<()> {
    let _ = (tx, ids);
    Ok(())
}

#[idempotent(key = "id", consumer = "billing", retries = 2)]
async fn retried(tx: &mut SqliteConnection, id: u32) -> anyhow::Result<()> {
    let _ = (tx, id);
    Ok(())
}

#[tokio::test]
async fn the_arguments_have_outcomes_of_their_own() {
    let (_fixture, pool, recorder, _guard) = set_up().await;
    for outcome in ["processed", "replayed", "replayed"] {
        let _ = replays(&pool, 1).await.unwrap();
        assert_span(&recorder.take_one(), "1", outcome);
        let claimed = idem::Delivery::of("billing", "by hand").replaying();
        if let Claimed::Fresh(claim) = claimed.claim(&pool).await.unwrap() {
            claim.commit_with(&1).await.unwrap();
        }
        assert_span(&recorder.take_one(), "by hand", outcome);
    }
    for (version, outcome) in [
        (5, "processed"),
        (5, "duplicate"),
        (4, "stale"),
        (6, "processed"),
    ] {
        let _ = latest(&pool, 2, version).await.unwrap();
        assert_span(&recorder.take_one(), "2", outcome);
        let once = idem::Delivery::of("billing", "once")
            .version(version)
            .once(&pool, async |_: &mut SqliteConnection| {
                Ok::<_, idem::Error>(())
            });
        let _ = once.await.unwrap();
        assert_span(&recorder.take_one(), "once", outcome);
    }
    // The message is named by its key, and without one by its action.
    for (id, name, outcome) in [
        (Some(4), "4", "processed"),
        (None, "1|charge", "duplicate"),
        (Some(5), "5", "duplicate"),
    ] {
        let _ = charges(&pool, id, 1).await.unwrap();
        assert_span(&recorder.take_one(), name, outcome);
    }
    for outcome in ["processed", "duplicate"] {
        let _ = retried(&pool, 3).await.unwrap();
        assert_span(&recorder.take_one(), "3", outcome);
    }
}

/// A batch has one span, which names its first message.
#[tokio::test]
async fn a_batch_has_one_span() {
    let (_fixture, pool, recorder, _guard) = set_up().await;
    for (ids, name, outcome) in [
        (vec![7, 8, 9], "7 and 2 more", "processed"),
        (vec![9, 10], "9 and 1 more", "processed"),
        (vec![8, 7], "8 and 1 more", "duplicate"),
        (vec![10], "10", "duplicate"),
    ] {
        let _ = each(&pool, ids).await.unwrap();
        assert_span(&recorder.take_one(), name, outcome);
    }
    let _ = each(&pool, Vec::new()).await.unwrap();
    assert!(recorder.take().is_empty(), "of an empty one there is none");
}

#[tokio::test]
async fn so_do_the_other_forms() {
    let (_fixture, pool, recorder, _guard) = set_up().await;
    for outcome in ["processed", "duplicate"] {
        let once = idem::once(
            &pool,
            "billing",
            "once",
            async |_: &mut SqliteConnection| Ok::<_, idem::Error>(()),
        );
        let _ = once.await.unwrap();
        assert_span(&recorder.take_one(), "once", outcome);
    }
    let claim = async || match idem::claim(&pool, "billing", "claim").await.unwrap() {
        Claimed::Fresh(claim) => Some(claim),
        _ => None,
    };
    drop(claim().await);
    assert_span(&recorder.take_one(), "claim", "cancelled");
    claim().await.unwrap().rollback().await;
    assert_span(&recorder.take_one(), "claim", "failed");
    claim().await.unwrap().commit().await.unwrap();
    assert_span(&recorder.take_one(), "claim", "processed");
    assert!(claim().await.is_none());
    assert_span(&recorder.take_one(), "claim", "duplicate");
}
