//! How the contract's messages are claimed: in the table by days. All are of one day.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idem::{
    AsyncFunc, Claimed, Days, Deliveries, Delivery, Error, Key, OptionalKey, Outcome, Pushed,
    Source,
};
use sqlx::{PgConnection, PgPool, Postgres};

use crate::db::FROM_PLAIN;

pub(crate) const A_DAY: Duration = Duration::from_hours(24);
pub(crate) const FORGET: &str =
    "DELETE FROM processed_messages; DELETE FROM processed_messages_by_day";

/// Of all messages: midnight may come in between.
static NOW: LazyLock<SystemTime> = LazyLock::new(SystemTime::now);

/// The time of a message, whichever it is.
pub(crate) fn time_of<T: ?Sized>(_: &T) -> SystemTime {
    *NOW
}

/// Both tables.
pub(crate) async fn migrate(pool: &PgPool) -> Result<(), Error> {
    idem::migrate(pool).await?;
    let days = Days::new(pool).retain(7 * A_DAY).ahead(2);
    days.create().await.map(drop)
}

fn by_day(delivery: Delivery<'_>) -> Delivery<'_> {
    let delivery = delivery.time(*NOW);
    if FROM_PLAIN {
        delivery.from_plain()
    } else {
        delivery
    }
}

pub(crate) fn of(consumer: &str, key: impl Key) -> Delivery<'_> {
    by_day(Delivery::of(consumer, key))
}

pub(crate) fn with_business_key(
    consumer: &str,
    key: impl OptionalKey,
    business_key: impl Key,
) -> Delivery<'_> {
    by_day(Delivery::with_business_key(consumer, key, business_key))
}

pub(crate) fn batch(consumer: &str) -> Deliveries<'_> {
    let batch = Deliveries::of(consumer);
    if FROM_PLAIN {
        batch.from_plain()
    } else {
        batch
    }
}

pub(crate) fn push<'p, 'a>(batch: &'p mut Deliveries<'a>, key: impl Key) -> Pushed<'p, 'a> {
    batch.push(key).time(*NOW)
}

pub(crate) async fn claim<'c>(
    source: impl Source<'c, Database = Postgres>,
    consumer: &str,
    key: impl Key,
) -> Result<Claimed<'c, Postgres>, Error> {
    of(consumer, key).claim(source).await
}

pub(crate) async fn once<'c, F, T, E>(
    source: impl Source<'c, Database = Postgres>,
    consumer: &str,
    key: impl Key,
    body: F,
) -> Result<Outcome<T>, E>
where
    F: for<'t> AsyncFunc<&'t mut PgConnection, Result<T, E>, Fut: Send>,
    E: From<Error>,
{
    of(consumer, key).once(source, body).await
}

/// For another process that delivers.
pub(crate) fn arguments() -> Vec<String> {
    let seconds = NOW
        .duration_since(UNIX_EPOCH)
        .expect("it is later")
        .as_secs();
    let mut arguments = vec![seconds.to_string()];
    if FROM_PLAIN {
        arguments.push("from-plain".to_owned());
    }
    arguments
}
