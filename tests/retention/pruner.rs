//! What a run removes, and what it leaves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem::{PruneError, Pruner, Retain, Windows};
use idem_tests::Fixture;
use sqlx::Pool;

use super::db::{self, Conn, Db};

const DAY: f64 = 24.0 * 60.0 * 60.0;
pub(crate) const WEEK: Duration = Duration::from_hours(7 * 24);

/// A table of claims.
pub(crate) async fn table(connections: u32) -> (Fixture<Db>, Pool<Db>) {
    let fixture = Fixture::new().await;
    let pool = fixture.pool(connections).await;
    idem::migrate(&pool).await.unwrap();
    (fixture, pool)
}

pub(crate) async fn claim(pool: &Pool<Db>, consumer: &str, key: &str, age: f64) {
    let insert = sqlx::query(db::CLAIM).bind(consumer).bind(key).bind(age);
    insert.execute(pool).await.unwrap();
}

/// Claims whose keys end in the numbers from 1 on.
pub(crate) async fn many(pool: &Pool<Db>, consumer: &str, prefix: &str, age: f64, count: i32) {
    let insert = sqlx::query(db::MANY).bind(consumer).bind(prefix).bind(age);
    insert.bind(count).execute(pool).await.unwrap();
}

pub(crate) async fn keys(pool: &Pool<Db>) -> Vec<String> {
    sqlx::query_scalar(db::KEYS).fetch_all(pool).await.unwrap()
}

#[tokio::test]
async fn p12_only_what_is_past_its_window_goes() {
    let (_fixture, pool) = table(2).await;
    for (consumer, window) in [("billing", 7.0), ("mail", 2.0), ("other", 4.0)] {
        for (key, age) in [
            ("old", window + 0.01),
            ("young", window - 0.01),
            ("new", 0.0),
        ] {
            claim(&pool, consumer, &format!("{consumer} {key}"), age * DAY).await;
        }
    }
    let pruner = Pruner::new(&pool)
        .window("billing", WEEK)
        .window("mail", 2 * Duration::from_hours(24))
        .default_window(4 * Duration::from_hours(24));
    let due = pruner.preview().await.unwrap();
    let due: Vec<_> = due
        .iter()
        .map(|due| (due.consumer.as_str(), due.claims, due.business_keys))
        .collect();
    assert_eq!(due, [("billing", 1, 0), ("mail", 1, 0), ("other", 1, 0)]);
    assert_eq!(keys(&pool).await.len(), 9, "a preview changes nothing");

    let pruned = pruner.run_once().await.unwrap();
    assert_eq!(
        (pruned.claims, pruned.business_keys, pruned.is_busy),
        (3, 0, false)
    );
    assert!(pruned.without_window.is_empty());
    assert_eq!(
        keys(&pool).await,
        [
            "billing new",
            "billing young",
            "mail new",
            "mail young",
            "other new",
            "other young"
        ]
    );
    assert_eq!(pruner.run_once().await.unwrap().claims, 0);
    assert_eq!(pruner.preview().await.unwrap(), []);
}

/// At the boundary, by the database's clock: as long as a claim is within its window it is there after each run.
#[tokio::test]
async fn p12_a_claim_stays_to_the_last_moment() {
    const WINDOW: f64 = 2.0;
    let (_fixture, pool) = table(2).await;
    let pruner = Pruner::new(&pool).default_window(Duration::from_secs_f64(WINDOW));
    let started = std::time::Instant::now();
    claim(&pool, "billing", "evt", 0.0).await;
    let mut runs = 0;
    loop {
        let pruned = pruner.run_once().await.unwrap();
        // It was made after `started`, so that it is no older than this says. A clock of ours measures the span only.
        let age = started.elapsed().as_secs_f64();
        if keys(&pool).await.is_empty() {
            assert_eq!(pruned.claims, 1);
            assert!(age >= WINDOW, "gone after {age} s");
            break;
        }
        assert!(age < 30.0, "never pruned");
        runs += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(runs > 0, "it was looked at while it was young");
}

/// Claims all around the boundary, again and again, with a shorter window beside theirs: who is gone was past the window.
#[tokio::test]
async fn p12_none_goes_a_moment_early() {
    const WINDOW: f64 = 100.0;
    let (_fixture, pool) = table(2).await;
    let pruner = Pruner::new(&pool)
        .window("billing", Duration::from_secs_f64(WINDOW))
        .window("mail", Duration::from_secs(1));
    let (mut gone, mut stayed) = (0, 0);
    for round in 0..15 {
        for tenths in 0..25 {
            let age = WINDOW - 2.0 + f64::from(tenths) / 10.0;
            claim(&pool, "billing", &format!("{round} {tenths}"), age).await;
        }
        let before = std::time::Instant::now();
        let ages: Vec<(String, f64)> = sqlx::query_as(db::AGES).fetch_all(&pool).await.unwrap();
        pruner.run_once().await.unwrap();
        let later = before.elapsed().as_secs_f64();
        let left = keys(&pool).await;
        for (key, age) in ages {
            if left.contains(&key) {
                stayed += 1;
            } else {
                gone += 1;
                // SQLite counts milliseconds.
                assert!(
                    age + later > WINDOW - 0.002,
                    "{key} is gone at {age} + {later}"
                );
            }
        }
        sqlx::raw_sql("DELETE FROM processed_messages")
            .execute(&pool)
            .await
            .unwrap();
    }
    assert!(gone > 0 && stayed > 0, "{gone}, {stayed}");
}

#[tokio::test]
async fn p12_consumers_without_a_window_are_left_alone_and_named() {
    let (_fixture, pool) = table(2).await;
    claim(&pool, "billing", "a", 900.0 * DAY).await;
    claim(&pool, "mail", "b", 900.0 * DAY).await;
    claim(&pool, "audit", "c", 900.0 * DAY).await;
    let pruner = Pruner::new(&pool)
        .window("billing", WEEK)
        .window("audit", Retain::Forever);
    let pruned = pruner.run_once().await.unwrap();
    assert_eq!(pruned.claims, 1);
    assert_eq!(pruned.without_window, ["mail"]);
    assert_eq!(keys(&pool).await, ["b", "c"]);
    let pruned = Pruner::new(&pool)
        .windows(Windows::new())
        .run_once()
        .await
        .unwrap();
    assert_eq!(
        (pruned.claims, pruned.without_window),
        (0, vec!["audit".to_owned(), "mail".to_owned()])
    );
}

#[tokio::test]
async fn p12_versions_and_business_keys_are_kept() {
    let (_fixture, pool) = table(2).await;
    for key in ["aggregate", "|order 1", "evt", "a|b"] {
        claim(&pool, "billing", key, 900.0 * DAY).await;
    }
    sqlx::query(db::VERSION)
        .bind("aggregate")
        .execute(&pool)
        .await
        .unwrap();
    let pruner = Pruner::new(&pool).window("billing", WEEK);
    let pruned = pruner.run_once().await.unwrap();
    assert_eq!((pruned.claims, pruned.business_keys), (2, 0));
    assert_eq!(keys(&pool).await, ["aggregate", "|order 1"]);

    let pruner = pruner.business_window("billing", Duration::from_hours(901 * 24));
    assert_eq!(pruner.run_once().await.unwrap().claims, 0);
    let pruner = pruner.business_window("billing", Duration::from_hours(899 * 24));
    let due = pruner.preview().await.unwrap();
    assert_eq!((due[0].claims, due[0].business_keys), (1, 1));
    let pruned = pruner.run_once().await.unwrap();
    assert_eq!((pruned.claims, pruned.business_keys), (1, 1));
    assert_eq!(keys(&pool).await, ["aggregate"]);
}

/// What was due at the start goes in bounded steps, whatever stands between.
#[tokio::test]
async fn p12_chunks_are_bounded() {
    let (_fixture, pool) = table(2).await;
    many(&pool, "billing", "old ", 30.0 * DAY, 2000).await;
    many(&pool, "billing", "|old ", 30.0 * DAY, 500).await;
    many(&pool, "billing", "young ", DAY, 700).await;
    many(&pool, "mail", "old ", 30.0 * DAY, 300).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let report = Arc::clone(&seen);
    let pruner = Pruner::new(&pool)
        .window("billing", WEEK)
        .business_window("billing", WEEK)
        .window("mail", WEEK)
        .chunk(250)
        .pause(Duration::ZERO)
        .on_progress(move |pruned| report.lock().unwrap().push(pruned.claims));
    let pruned = pruner.run_once().await.unwrap();
    assert_eq!((pruned.claims, pruned.business_keys), (2800, 500));
    assert_eq!(keys(&pool).await.len(), 700);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len() as u64, pruned.chunks);
    assert!(seen.len() >= 9, "{seen:?}");
    let mut before = 0;
    for total in seen.iter() {
        // On PostgreSQL by whole pages, which hold some hundred and fifty claims of this size.
        assert!(total - before <= 450, "{seen:?}");
        before = *total;
    }
}

#[tokio::test]
async fn p12_a_claim_that_somebody_holds_is_left_for_later() {
    let (_fixture, pool) = table(2).await;
    many(&pool, "billing", "old ", 30.0 * DAY, 20).await;
    let pruner = Pruner::new(&pool)
        .window("billing", WEEK)
        .pause(Duration::ZERO);
    if db::HAS_WAITS {
        let mut holder = pool.begin().await.unwrap();
        sqlx::query(db::LOCK)
            .bind("old 7")
            .fetch_one(&mut *holder)
            .await
            .unwrap();
        let run = tokio::time::timeout(Duration::from_secs(10), pruner.run_once());
        let pruned = run.await.expect("it waits for nobody").unwrap();
        assert_eq!(pruned.claims, 19);
        assert_eq!(keys(&pool).await, ["old 7"]);
        holder.rollback().await.unwrap();
        assert_eq!(pruner.run_once().await.unwrap().claims, 1);
    } else {
        // SQLite has one writer. The pruner waits for it, and gives up as any writer does.
        let mut holder = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        sqlx::query("DELETE FROM processed_messages WHERE message_id = 'old 7'")
            .execute(&mut *holder)
            .await
            .unwrap();
        let error = pruner.run_once().await.unwrap_err();
        assert!(error.is_transient(), "{error}");
        holder.rollback().await.unwrap();
        assert_eq!(pruner.run_once().await.unwrap().claims, 20);
    }
}

/// Where there is one writer at a time, there is one pruner at a time, and no lock to hold.
#[tokio::test]
async fn p12_one_pruner_works_at_a_time() {
    let Some(lock) = db::PRUNERS_LOCK else {
        return;
    };
    let (fixture, pool) = table(2).await;
    many(&pool, "billing", "old ", 30.0 * DAY, 20).await;
    let pruner = Pruner::new(&pool).window("billing", WEEK);
    let mut other = pool.begin().await.unwrap();
    sqlx::raw_sql(lock).execute(&mut *other).await.unwrap();
    let pruned = pruner.run_once().await.unwrap();
    assert_eq!((pruned.claims, pruned.is_busy), (0, true));
    assert_eq!(
        pruner.preview().await.unwrap()[0].claims,
        20,
        "looking is free"
    );
    other.rollback().await.unwrap();
    // A lock by name is the session's.
    if lock.contains("GET_LOCK") {
        let mut both = Vec::new();
        for _ in 0..2 {
            let mut conn = pool.acquire().await.unwrap();
            sqlx::raw_sql("DO RELEASE_ALL_LOCKS()")
                .execute(&mut *conn)
                .await
                .unwrap();
            both.push(conn);
        }
    }
    let pruned = pruner.run_once().await.unwrap();
    assert_eq!((pruned.claims, pruned.is_busy), (20, false));
    // Nothing is left locked for pruners elsewhere.
    for _ in 0..3 {
        many(&pool, "billing", "more ", 30.0 * DAY, 5).await;
        let elsewhere = Pruner::new(&fixture.pool(1).await).window("billing", WEEK);
        assert_eq!(elsewhere.run_once().await.unwrap().claims, 5);
        pruner.run_once().await.unwrap();
    }
}

#[tokio::test]
async fn p12_a_window_that_is_too_short_removes_nothing() {
    let (_fixture, pool) = table(2).await;
    claim(&pool, "billing", "old", 30.0 * DAY).await;
    let windows = Windows::new()
        .window("billing", WEEK)
        .redelivery("billing", WEEK);
    let pruner = Pruner::new(&pool).windows(windows);
    for error in [pruner.run_once().await.unwrap_err(), pruner.run().await] {
        assert!(matches!(error, PruneError::Window(_)), "{error:?}");
        assert!(!error.is_transient());
    }
    assert!(pruner.preview().await.is_err());
    assert_eq!(keys(&pool).await, ["old"]);
}

#[tokio::test]
async fn a_missing_table_is_told() {
    let fixture: Fixture<Db> = Fixture::new().await;
    let pool = fixture.pool(1).await;
    let error = Pruner::new(&pool)
        .default_window(WEEK)
        .run_once()
        .await
        .unwrap_err();
    assert!(error.is_transient(), "somebody may create it");
    assert!(error.to_string().contains("idem::migrate"), "{error}");
    idem::migrate(&pool).await.unwrap();
    Pruner::new(&pool)
        .default_window(WEEK)
        .run_once()
        .await
        .unwrap();
}

/// An older table has no index for the pruner, and is pruned all the same.
#[tokio::test]
async fn p12_without_the_index_the_same_goes() {
    let (_fixture, pool) = table(1).await;
    let drop_index = if std::any::type_name::<Conn>().contains("MySql") {
        "ALTER TABLE processed_messages DROP INDEX processed_messages_processed_at"
    } else {
        "DROP INDEX processed_messages_processed_at"
    };
    sqlx::raw_sql(drop_index).execute(&pool).await.unwrap();
    many(&pool, "billing", "old ", 30.0 * DAY, 1500).await;
    many(&pool, "billing", "young ", DAY, 10).await;
    let pruned = Pruner::new(&pool)
        .window("billing", WEEK)
        .chunk(500)
        .run_once()
        .await
        .unwrap();
    assert_eq!(pruned.claims, 1500);
    assert_eq!(keys(&pool).await.len(), 10);
    // `migrate` brings it.
    idem::migrate(&pool).await.unwrap();
    assert!(sqlx::raw_sql(drop_index).execute(&pool).await.is_ok());
}

/// The run is dropped at each of its waits; what is left is taken by the next one.
#[tokio::test]
async fn p12_cancelled_anywhere_nothing_is_lost() {
    let (_fixture, pool) = table(1).await;
    let pruner = Pruner::new(&pool)
        .window("billing", WEEK)
        .chunk(20)
        .pause(Duration::ZERO);
    let mut completed = 0;
    for polls in 1..400 {
        many(&pool, "billing", &format!("old {polls} "), 30.0 * DAY, 30).await;
        claim(&pool, "billing", &format!("young {polls}"), DAY).await;
        let run = idem_tests::cancelled_after(polls, pruner.run_once()).await;
        if let Some(pruned) = run {
            pruned.unwrap();
            completed += 1;
        }
        // The one connection is usable, and outside of a transaction: what is written on it is there for others.
        claim(&pool, "billing", &format!("after {polls}"), 0.0).await;
        if completed > 2 {
            break;
        }
    }
    assert!(completed > 0, "the last ones are not cancelled");
    pruner.run_once().await.unwrap();
    let left = keys(&pool).await;
    assert!(left.iter().all(|key| !key.starts_with("old")), "{left:?}");
    let young = left.iter().filter(|key| key.starts_with("young")).count();
    let after = left.iter().filter(|key| key.starts_with("after")).count();
    assert_eq!(young, after, "one each per round");
    assert_eq!(young + after, left.len());
}

/// `run` outlives a database that is not there yet.
#[tokio::test]
async fn run_goes_on_after_failures() {
    let fixture: Fixture<Db> = Fixture::new().await;
    let pool = fixture.pool(2).await;
    let errors = Arc::new(Mutex::new(Vec::new()));
    let report = Arc::clone(&errors);
    let pruner = Pruner::new(&pool)
        .window("billing", WEEK)
        .every(Duration::from_millis(100))
        .on_error(move |error| report.lock().unwrap().push(error.to_string()));
    let running = tokio::spawn(async move { pruner.run().await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(
        errors.lock().unwrap()[0].contains("idem::migrate"),
        "somebody hears of it"
    );
    idem::migrate(&pool).await.unwrap();
    for round in 0..3 {
        claim(&pool, "billing", &format!("old {round}"), 30.0 * DAY).await;
        let gone = async {
            while !keys(&pool).await.is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), gone)
            .await
            .expect("pruned again and again");
    }
    assert!(!running.is_finished());
    running.abort();
}

/// Where times do not compare by the database's clock, nothing goes.
#[tokio::test]
async fn p12_a_time_of_another_kind_keeps_its_claim() {
    let (_fixture, pool) = table(1).await;
    claim(&pool, "billing", "old", 30.0 * DAY).await;
    let pruner = Pruner::new(&pool).window("billing", WEEK);
    match db::OTHER_TIME {
        Ok(change) => {
            sqlx::raw_sql(change).execute(&pool).await.unwrap();
            let error = pruner.run_once().await.unwrap_err();
            assert!(error.to_string().contains("`processed_at`"), "{error}");
            assert!(!error.is_transient(), "it does not pass");
            assert_eq!(keys(&pool).await, ["old"]);
        }
        Err(insert) => {
            sqlx::raw_sql(insert).execute(&pool).await.unwrap();
            assert_eq!(pruner.run_once().await.unwrap().claims, 1);
            assert_eq!(keys(&pool).await, ["other"]);
        }
    }
}
