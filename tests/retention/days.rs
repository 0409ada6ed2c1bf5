//! Which days of the table by days the pruner drops.

use std::time::Duration;

use idem::{Day, Days, Delivery, Error, Outcome, Pruner, Retain, Windows};
use sqlx::PgPool;

use super::db::Conn;
use super::pruner::{WEEK, table};

const DAY: Duration = Duration::from_hours(24);

/// So many days ago, by the server's clock.
async fn ago(pool: &PgPool, days: i32) -> Day {
    let seconds = "SELECT extract(epoch FROM now() - make_interval(days => $1))::bigint";
    let seconds: i64 = sqlx::query_scalar(seconds)
        .bind(days)
        .fetch_one(pool)
        .await
        .unwrap();
    Day::of_unix(seconds).unwrap()
}

async fn deliver(pool: &PgPool, consumer: &str, day: Day) -> Result<Outcome<()>, Error> {
    let delivery = Delivery::of(consumer, "evt").time(day);
    delivery
        .once(pool, async |_: &mut Conn| Ok::<_, Error>(()))
        .await
}

async fn oldest(pool: &PgPool) -> Day {
    Days::new(pool).list().await.unwrap()[0].day
}

#[tokio::test]
async fn p12_a_day_stays_for_every_consumer_with_claims_in_it() {
    let (_fixture, pool) = table(2).await;
    Days::new(&pool)
        .retain(30 * DAY)
        .ahead(2)
        .create()
        .await
        .unwrap();
    let day = ago(&pool, 10).await;
    assert!(deliver(&pool, "orders", day).await.unwrap().is_processed());

    // The window of one consumer says nothing of the others.
    let mailer = Windows::new().window("mailer", 2 * DAY);
    let pruned = Pruner::new(&pool)
        .windows(mailer.clone())
        .run_once()
        .await
        .unwrap();
    assert_eq!(pruned.days_dropped, 0);
    // Nor does a default, where a consumer has a longer one, or keeps its claims for ever.
    for (retain, first) in [(Retain::Forever, 10), (Retain::For(30 * DAY), 10)] {
        let windows = mailer
            .clone()
            .default_window(2 * DAY)
            .window("orders", retain);
        Pruner::new(&pool)
            .windows(windows)
            .run_once()
            .await
            .unwrap();
        // The days before have no claims, and are past the default.
        assert_eq!(oldest(&pool).await, ago(&pool, first).await);
    }
    assert_eq!(
        deliver(&pool, "orders", day).await.unwrap(),
        Outcome::Duplicate
    );

    let windows = mailer.default_window(2 * DAY).window("orders", WEEK);
    let pruned = Pruner::new(&pool)
        .windows(windows)
        .run_once()
        .await
        .unwrap();
    assert!(pruned.days_dropped > 0);
    assert_eq!(oldest(&pool).await, ago(&pool, 2).await);
    let error = deliver(&pool, "orders", day).await.unwrap_err();
    assert!(matches!(error, Error::Expired { .. }), "{error:?}");
}

/// Somebody took a day out to keep it. It stays theirs, and nobody makes it again.
#[tokio::test]
async fn p12_a_day_that_was_taken_out_by_hand_stays_out() {
    let (_fixture, pool) = table(2).await;
    Days::new(&pool)
        .retain(WEEK)
        .ahead(2)
        .create()
        .await
        .unwrap();
    let day = ago(&pool, 3).await;
    assert!(deliver(&pool, "orders", day).await.unwrap().is_processed());
    let name = format!("processed_messages_{}", day.to_string().replace('-', "_"));
    let detach = format!(
        "ALTER TABLE processed_messages_by_day DETACH PARTITION {name}; ALTER TABLE {name} RENAME TO kept; \
         CREATE TABLE processed_messages_2001_01_01 (LIKE processed_messages_by_day)"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(detach))
        .execute(&pool)
        .await
        .unwrap();
    let windows = Windows::new().default_window(WEEK);
    let pruned = Pruner::new(&pool)
        .windows(windows)
        .days_ahead(2)
        .run_once()
        .await
        .unwrap();
    assert_eq!((pruned.days_created, pruned.days_dropped), (0, 0));
    let error = deliver(&pool, "orders", day).await.unwrap_err();
    assert!(matches!(error, Error::Expired { .. }), "{error:?}");
    let kept =
        "SELECT count(*) FROM kept, (SELECT count(*) FROM processed_messages_2001_01_01) AS other";
    let kept: i64 = sqlx::query_scalar(kept).fetch_one(&pool).await.unwrap();
    assert_eq!(kept, 1);
}
