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

/// Whatever else goes wrong, and whoever else is at work, there is a day for the messages to come.
#[tokio::test]
async fn days_are_made_also_when_nothing_can_be_pruned() {
    let (_fixture, pool) = table(2).await;
    Days::new(&pool)
        .retain(WEEK)
        .ahead(0)
        .create()
        .await
        .unwrap();
    super::pruner::claim(&pool, "billing", "old", 30.0 * 86_400.0).await;
    let folder = tempfile::tempdir().unwrap();
    let pruner = Pruner::new(&pool).window("billing", WEEK).days_ahead(1);
    let broken = pruner
        .clone()
        .archive(idem::Archive::json_lines(folder.path()));
    broken.run_once().await.unwrap_err();
    assert_eq!(Days::new(&pool).list().await.unwrap().len(), 9);
    let mut other = pool.begin().await.unwrap();
    sqlx::raw_sql(super::db::PRUNERS_LOCK.unwrap())
        .execute(&mut *other)
        .await
        .unwrap();
    let pruned = pruner.days_ahead(2).run_once().await.unwrap();
    assert_eq!((pruned.is_busy, pruned.days_created), (true, 1));
}

/// The table by days is found further down the search path, and its days are made beside it.
#[tokio::test]
async fn days_are_made_where_their_table_is() {
    let (fixture, pool) = table(1).await;
    Days::new(&pool)
        .retain(WEEK)
        .ahead(1)
        .create()
        .await
        .unwrap();
    let (schema, first) = (fixture.name(), format!("{} first", fixture.name()));
    let path = format!("CREATE SCHEMA \"{first}\"; SET search_path = \"{first}\", {schema}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(path))
        .execute(&pool)
        .await
        .unwrap();
    let day = ago(&pool, 3).await;
    assert!(deliver(&pool, "orders", day).await.unwrap().is_processed());
    let windows = Windows::new().default_window(2 * DAY);
    let pruned = Pruner::new(&pool)
        .windows(windows)
        .days_ahead(4)
        .run_once()
        .await;
    let strays = "SELECT count(*) FROM pg_class WHERE relnamespace = $1::regnamespace";
    let strays: i64 = sqlx::query_scalar(strays)
        .bind(format!("\"{first}\""))
        .fetch_one(&pool)
        .await
        .unwrap();
    let drop = format!("DROP SCHEMA \"{first}\" CASCADE");
    sqlx::raw_sql(sqlx::AssertSqlSafe(drop))
        .execute(&pool)
        .await
        .unwrap();
    let pruned = pruned.unwrap();
    assert_eq!((pruned.days_created, strays), (3, 0));
    assert!(pruned.days_dropped > 0);
    assert_eq!(oldest(&pool).await, ago(&pool, 2).await);
}

/// For people's statements a time limit is useful, and pruning a large table takes what it takes.
#[tokio::test]
async fn a_time_limit_for_statements_does_not_stop_the_pruner() {
    let (_fixture, pool) = table(1).await;
    super::pruner::many(&pool, "billing", "old ", 30.0 * 86_400.0, 60_000).await;
    sqlx::raw_sql("SET statement_timeout = '15ms'")
        .execute(&pool)
        .await
        .unwrap();
    let pruner = Pruner::new(&pool).window("billing", WEEK).chunk(60_000);
    assert_eq!(pruner.preview().await.unwrap()[0].claims, 60_000);
    assert_eq!(pruner.run_once().await.unwrap().claims, 60_000);
    let limit: String = sqlx::query_scalar("SHOW statement_timeout")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(limit, "15ms", "the session is as it was");
}

/// While claims move: what the plain table knows is a duplicate, however old.
#[tokio::test]
async fn p2_a_message_that_the_plain_table_knows_is_no_expired_one() {
    let (_fixture, pool) = table(2).await;
    Days::new(&pool).retain(WEEK).create().await.unwrap();
    let nothing = async |_: &mut Conn| Ok::<_, Error>(());
    let plain = Delivery::of("orders", "evt").once(&pool, nothing).await;
    assert!(plain.unwrap().is_processed());
    let old = ago(&pool, 40).await;
    let moved = Delivery::of("orders", "evt")
        .time(old)
        .from_plain()
        .once(&pool, nothing)
        .await;
    assert_eq!(moved.unwrap(), Outcome::Duplicate);
    let mut batch = idem::Deliveries::of("orders").from_plain();
    let _ = batch.push("evt").time(old);
    let _ = batch.push("new").time(ago(&pool, 0).await);
    let claimed = batch.claim(&pool).await.unwrap();
    assert_eq!((claimed.fresh, claimed.duplicates), (vec![1], vec![0]));
    claimed.claim.unwrap().commit().await.unwrap();
    let unknown = Delivery::of("orders", "other")
        .time(old)
        .from_plain()
        .once(&pool, nothing)
        .await;
    assert!(matches!(unknown.unwrap_err(), Error::Expired { .. }));
}

/// A detach that somebody has begun can only go on. Their table stays.
#[tokio::test]
async fn a_detach_that_is_pending_is_finished() {
    let (_fixture, pool) = table(3).await;
    Days::new(&pool)
        .retain(WEEK)
        .ahead(2)
        .create()
        .await
        .unwrap();
    let day = ago(&pool, 7).await;
    let name = format!("processed_messages_{}", day.to_string().replace('-', "_"));
    let mut user = pool.begin().await.unwrap();
    sqlx::raw_sql("SELECT count(*) FROM processed_messages_by_day")
        .execute(&mut *user)
        .await
        .unwrap();
    let mut conn = pool.acquire().await.unwrap();
    sqlx::raw_sql("SET lock_timeout = '100ms'")
        .execute(&mut *conn)
        .await
        .unwrap();
    let detach =
        format!("ALTER TABLE processed_messages_by_day DETACH PARTITION {name} CONCURRENTLY");
    let error = sqlx::raw_sql(sqlx::AssertSqlSafe(detach))
        .execute(&mut *conn)
        .await
        .unwrap_err();
    assert_eq!(
        error.as_database_error().unwrap().code().as_deref(),
        Some("55P03")
    );
    conn.close().await.unwrap();
    user.rollback().await.unwrap();
    // It is no day any more, and not yet a table of its own.
    assert!(
        Days::new(&pool)
            .list()
            .await
            .unwrap()
            .iter()
            .any(|found| found.day == day && !found.is_attached)
    );
    let windows = Windows::new().default_window(WEEK);
    let pruner = Pruner::new(&pool).windows(windows).days_ahead(2);
    // To finish it, the server waits for every older snapshot in the database, also those of other tests; the next run goes on.
    let mut pruned = pruner.run_once().await;
    for _ in 0..6 {
        if pruned.as_ref().is_err_and(idem::PruneError::is_transient) {
            pruned = pruner.run_once().await;
        }
    }
    let pruned = pruned.unwrap();
    assert_eq!((pruned.days_dropped, pruned.days_created), (0, 0));
    let theirs = format!("SELECT relispartition FROM pg_class WHERE oid = '{name}'::regclass");
    let theirs: bool = sqlx::query_scalar(sqlx::AssertSqlSafe(theirs))
        .fetch_one(&pool)
        .await
        .unwrap();
    assert!(!theirs, "a table of its own");
}

/// Consumers that this program does not know keep a day, and are named.
#[tokio::test]
async fn p12_who_keeps_a_day_is_named() {
    let (_fixture, pool) = table(2).await;
    Days::new(&pool).retain(30 * DAY).create().await.unwrap();
    let day = ago(&pool, 30).await;
    assert!(deliver(&pool, "orders", day).await.unwrap().is_processed());
    assert!(deliver(&pool, "gone", day).await.unwrap().is_processed());
    let windows = Windows::new().window("orders", 2 * DAY);
    let pruned = Pruner::new(&pool)
        .windows(windows.clone())
        .run_once()
        .await
        .unwrap();
    assert_eq!(
        (pruned.days_dropped, pruned.without_window),
        (0, vec!["gone".to_owned()])
    );
    // Named, and all who are in the day are over: it goes, and the next, in which nobody is known to be, stays.
    let pruned = Pruner::new(&pool)
        .windows(windows.window("gone", WEEK))
        .run_once()
        .await
        .unwrap();
    assert_eq!(
        (pruned.days_dropped, pruned.without_window),
        (1, Vec::new())
    );
}

/// A day far ahead is not the end of making days.
#[tokio::test]
async fn days_are_made_also_before_one_that_lies_far_ahead() {
    let (_fixture, pool) = table(2).await;
    Days::new(&pool)
        .retain(WEEK)
        .ahead(0)
        .create()
        .await
        .unwrap();
    let far = "CREATE TABLE processed_messages_2999_01_01 PARTITION OF processed_messages_by_day FOR VALUES FROM ('2999-01-01') TO ('2999-01-02')";
    sqlx::raw_sql(far).execute(&pool).await.unwrap();
    assert_eq!(
        Days::new(&pool)
            .retain(WEEK)
            .ahead(3)
            .create()
            .await
            .unwrap(),
        3
    );
    assert!(
        deliver(&pool, "orders", ago(&pool, -3).await)
            .await
            .unwrap()
            .is_processed()
    );
    let later = deliver(&pool, "mail", ago(&pool, -1).await).await;
    assert!(later.unwrap().is_processed());
}

/// A day that one process moves to its archive is not dropped by another one meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p12_two_pruners_drop_one_day_with_two_archives() {
    let (fixture, pool) = table(2).await;
    Days::new(&pool).retain(30 * DAY).create().await.unwrap();
    let day = ago(&pool, 30).await;
    let fill = format!(
        "INSERT INTO processed_messages_by_day (consumer, message_id, day) SELECT 'orders', 'evt ' || n, '{day}' FROM generate_series(1, 8000) AS n"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(fill))
        .execute(&pool)
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut running = tokio::task::JoinSet::new();
    for name in ["a", "b", "c"] {
        let pool = fixture.pool(1).await;
        let path = folder.path().join(name);
        running.spawn(async move {
            let windows = Windows::new().default_window(2 * DAY);
            let pruner = Pruner::new(&pool)
                .windows(windows)
                .archive(idem::Archive::json_lines(path));
            // Until somebody has done it.
            loop {
                match pruner.run_once().await {
                    Ok(pruned) if !pruned.is_busy => return,
                    Ok(_) => {}
                    Err(error) => assert!(error.is_transient(), "{error:?}"),
                }
            }
        });
    }
    running.join_all().await;
    let mut archived: Vec<String> = Vec::new();
    for name in ["a", "b", "c"] {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        archived.extend(text.lines().map(str::to_owned));
    }
    archived.sort();
    archived.dedup();
    assert_eq!(archived.len(), 8000);
    assert_eq!(oldest(&pool).await, ago(&pool, 2).await);
}
