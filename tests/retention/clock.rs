//! Clocks that are wrong, and clocks that move on: libfaketime shows processes another time.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use idem::{Delivery, Outcome, Pruner};
use idem_tests::own::{self, Settings};
use sqlx::Pool;
use tempfile::TempDir;

const WEEK: Duration = Duration::from_hours(7 * 24);

fn library() -> PathBuf {
    let places = [
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/faketime/libfaketimeMT.so.1",
    ];
    let place = places
        .iter()
        .map(PathBuf::from)
        .find(|place| place.exists());
    place.expect("libfaketime is missing: run `./test.sh`, or install the package `libfaketime`")
}

/// The claims' database is of the real time, and the pruner's process lives a day ahead, or behind.
#[tokio::test]
async fn p12_a_clock_of_ours_that_is_wrong_by_a_day_changes_nothing() {
    use super::mysql::pruner as mysql;
    use super::postgres::pruner as postgres;

    for shift in ["+1d", "-1d"] {
        let (fixture, pool) = postgres::table(1).await;
        postgres::claim(&pool, "billing", "old", 7.1 * 86_400.0).await;
        postgres::claim(&pool, "billing", "young", 6.9 * 86_400.0).await;
        assert_eq!(pruned_by_a_process(&fixture.url, shift).await, "1");
        assert_eq!(postgres::keys(&pool).await, ["young"]);

        let (fixture, pool) = mysql::table(1).await;
        mysql::claim(&pool, "billing", "old", 7.1 * 86_400.0).await;
        mysql::claim(&pool, "billing", "young", 6.9 * 86_400.0).await;
        assert_eq!(pruned_by_a_process(&fixture.url, shift).await, "1");
        assert_eq!(mysql::keys(&pool).await, ["young"]);
    }
}

async fn pruned_by_a_process(url: &str, shift: &str) -> String {
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_prune"))
        .args([url, "billing", &WEEK.as_secs().to_string()])
        .env("LD_PRELOAD", library())
        .env("FAKETIME", shift)
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// What shows a server of the test's own another time: a file that it reads while it runs.
struct Clock(TempDir);

impl Clock {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let everybody_may_enter =
            <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        fs::set_permissions(folder.path(), everybody_may_enter).unwrap();
        let clock = Self(folder);
        clock.set("+0d");
        clock
    }

    fn set(&self, shift: &str) {
        // It must never be seen half-written.
        let new = self.0.path().join("new");
        fs::write(&new, shift).unwrap();
        fs::rename(new, self.file()).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("clock")
    }

    fn settings(&self) -> Settings {
        Settings::default()
            .env("LD_PRELOAD", library())
            .env("FAKETIME_TIMESTAMP_FILE", self.file())
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("DONT_FAKE_MONOTONIC", "1")
    }
}

fn postgres(clock: &Clock) -> (own::Postgres, String) {
    let server = own::Postgres::start(clock.settings().set("autovacuum", "off"));
    let url = server.url("postgres");
    (server, url)
}

fn mariadb(clock: &Clock) -> (own::MariaDb, String) {
    let server = own::MariaDb::start(clock.settings());
    let url = server.url("test");
    (server, url)
}

macro_rules! days_pass {
    ($name:ident, $start:ident, $database:ty, $connection:ty) => {
        /// The window ends by the server's clock, and its end is when days have passed there.
        #[tokio::test]
        async fn $name() {
            let clock = Clock::new();
            let (_server, url) = $start(&clock);
            let pool = Pool::<$database>::connect(&url).await.unwrap();
            idem::migrate(&pool).await.unwrap();
            let is_new = async |message: &'static str| {
                let delivery = Delivery::of("billing", message);
                let outcome =
                    delivery.once(&pool, async |_: &mut $connection| Ok::<_, idem::Error>(()));
                outcome.await.unwrap().is_processed()
            };
            let pruner = Pruner::new(&pool).window("billing", WEEK);
            let removed = async || pruner.run_once().await.unwrap().claims;
            assert!(is_new("first").await);
            clock.set("+3d");
            assert!(is_new("second").await && !is_new("first").await);
            assert_eq!(removed().await, 0);
            // An hour before the first one's week is over, and an hour after.
            clock.set("+167h");
            assert_eq!(removed().await, 0);
            assert!(!is_new("first").await);
            clock.set("+169h");
            assert_eq!(removed().await, 1);
            assert!(!is_new("second").await);
            clock.set("+241h");
            assert_eq!(removed().await, 1);
            assert!(is_new("third").await);
            // A server whose clock was set back keeps what it has.
            clock.set("+1d");
            assert_eq!(removed().await, 0);
            assert!(!is_new("third").await);
            clock.set("+40d");
            assert_eq!(removed().await, 1);
            clock.set("+0d");
        }
    };
}

days_pass!(
    p12_days_pass_on_postgres,
    postgres,
    sqlx::Postgres,
    sqlx::PgConnection
);
days_pass!(
    p12_days_pass_on_mariadb,
    mariadb,
    sqlx::MySql,
    sqlx::MySqlConnection
);

/// The table by days, over three weeks: days are made ahead and dropped, each message runs once, and one that is too old is refused.
#[tokio::test]
async fn p12_days_pass_in_the_table_by_days() {
    let clock = Clock::new();
    let (_server, url) = postgres(&clock);
    let pool = Pool::<sqlx::Postgres>::connect(&url).await.unwrap();
    idem::migrate(&pool).await.unwrap();
    idem::Days::new(&pool)
        .retain(WEEK)
        .ahead(2)
        .create()
        .await
        .unwrap();
    let pruner = Pruner::new(&pool).default_window(WEEK).days_ahead(2);
    // By the server's clock, as a producer with a good clock would write it.
    let now = async || -> i64 {
        sqlx::query_scalar("SELECT extract(epoch FROM now())::bigint")
            .fetch_one(&pool)
            .await
            .unwrap()
    };
    let mut messages: Vec<(String, idem::Day)> = Vec::new();
    let deliver = async |(message, day): &(String, idem::Day)| {
        let delivery = Delivery::of("billing", message.as_str()).time(*day);
        delivery
            .once(&pool, async |_: &mut sqlx::PgConnection| {
                Ok::<_, idem::Error>(())
            })
            .await
    };
    let mut dropped = 0;
    for day in 0..21 {
        clock.set(&format!("+{day}d"));
        let message = (
            format!("evt {day}"),
            idem::Day::of_unix(now().await).unwrap(),
        );
        assert_eq!(
            deliver(&message).await.unwrap(),
            Outcome::Processed(()),
            "day {day}"
        );
        messages.push(message);
        let pruned = pruner.run_once().await.unwrap();
        assert_eq!(pruned.days_created, u32::from(day > 0), "one more each day");
        dropped += pruned.days_dropped;
        // Everything is redelivered, for ever.
        for (age, message) in messages.iter().rev().enumerate() {
            match deliver(message).await {
                Ok(outcome) => assert_eq!(
                    (outcome, age <= 8),
                    (Outcome::Duplicate, true),
                    "{message:?} at {age}"
                ),
                Err(idem::Error::Expired { .. }) => assert!(age >= 7, "{message:?} at {age}"),
                Err(error) => panic!("{error:?}"),
            }
        }
    }
    assert!(dropped >= 19, "{dropped} days dropped");
    let days = idem::Days::new(&pool).list().await.unwrap();
    assert!(
        days.len() <= 12 && days.iter().all(|day| day.is_attached),
        "{days:?}"
    );
    clock.set("+0d");
}
