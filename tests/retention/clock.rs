//! Clocks that are wrong, and clocks that move on: libfaketime shows processes another time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use idem::{Delivery, Outcome, Pruner};
use sqlx::{Connection, Pool};
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
    place.expect("libfaketime is missing: run `./test.sh`, or install the package `faketime`")
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

/// A server of the test's own, whose clock is moved by writing a file.
struct Server {
    folder: TempDir,
    stop: Vec<String>,
}

impl Server {
    fn set_clock(&self, shift: &str) {
        // Read by the server while it runs, so that it must never be seen half-written.
        let (new, file) = (self.folder.path().join("clock.new"), self.clock());
        fs::write(&new, shift).unwrap();
        fs::rename(new, file).unwrap();
    }

    fn clock(&self) -> PathBuf {
        self.folder.path().join("clock")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        Command::new(&self.stop[0])
            .args(&self.stop[1..])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .ok();
    }
}

/// As a user who may run a server, which root may not.
fn unprivileged(user: &str, program: &str) -> Vec<String> {
    let is_root = text(Command::new("id").arg("-u").output().unwrap()) == "0";
    if is_root {
        return ["runuser", "-u", user, "--", program]
            .map(str::to_owned)
            .to_vec();
    }
    vec![program.to_owned()]
}

fn text(output: Output) -> String {
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn run(command: &[String], arguments: &[&str], clock: Option<&Path>) {
    let mut process = Command::new(&command[0]);
    process
        .args(&command[1..])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    if let Some(clock) = clock {
        process
            .env("LD_PRELOAD", library())
            .env("FAKETIME_TIMESTAMP_FILE", clock)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("DONT_FAKE_MONOTONIC", "1");
    }
    let status = process.status().unwrap();
    assert!(status.success(), "{command:?} {arguments:?}: {status}");
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn everybody_may_enter(folder: &TempDir) {
    let permissions = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o777);
    fs::set_permissions(folder.path(), permissions).unwrap();
    fs::write(folder.path().join("clock"), "+0d").unwrap();
}

fn postgres() -> (Server, String) {
    let folder = tempfile::tempdir().unwrap();
    everybody_may_enter(&folder);
    let programs = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let programs = programs
        .map(|version| version.path().join("bin"))
        .find(|bin| bin.join("initdb").exists());
    let programs = programs.expect("PostgreSQL's programs are missing: run `./test.sh`");
    let program = |name: &str| unprivileged("postgres", programs.join(name).to_str().unwrap());
    let (data, port) = (folder.path().join("data"), free_port());
    let (data, socket) = (data.to_str().unwrap(), folder.path().to_str().unwrap());
    run(
        &program("initdb"),
        &["-D", data, "-U", "postgres", "-A", "trust", "-N"],
        None,
    );
    let options = format!(
        "-p {port} -k {socket} -c listen_addresses=127.0.0.1 -c fsync=off -c autovacuum=off"
    );
    let log = folder.path().join("log");
    let start = [
        "-D",
        data,
        "-w",
        "-l",
        log.to_str().unwrap(),
        "-o",
        &options,
        "start",
    ];
    run(
        &program("pg_ctl"),
        &start,
        Some(&folder.path().join("clock")),
    );
    let mut stop = program("pg_ctl");
    stop.extend(["-D", data, "-m", "immediate", "stop"].map(str::to_owned));
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable");
    (Server { folder, stop }, url)
}

fn mariadb() -> (Server, String) {
    let folder = tempfile::tempdir().unwrap();
    everybody_may_enter(&folder);
    let (data, port) = (folder.path().join("data"), free_port());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let data = data.to_str().unwrap();
    let install = unprivileged("mysql", "mariadb-install-db");
    let data_argument = format!("--datadir={data}");
    run(
        &install,
        &[
            "--no-defaults",
            &data_argument,
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ],
        None,
    );
    let server = unprivileged("mysql", "/usr/sbin/mariadbd");
    let arguments = [
        "--no-defaults".to_owned(),
        data_argument,
        format!("--port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--socket={}", path("socket")),
        format!("--pid-file={}", path("pid")),
        format!("--log-error={}", path("log")),
    ];
    // It stays in the foreground, hence the shell.
    let quoted: Vec<String> = server
        .iter()
        .chain(&arguments)
        .map(|word| format!("'{word}'"))
        .collect();
    let start = format!("{} >/dev/null 2>&1 &", quoted.join(" "));
    run(
        &["sh".to_owned(), "-c".to_owned(), start],
        &[],
        Some(&folder.path().join("clock")),
    );
    let stop = [
        "sh".to_owned(),
        "-c".to_owned(),
        format!("kill -9 $(cat '{}')", path("pid")),
    ];
    (
        Server {
            folder,
            stop: stop.to_vec(),
        },
        format!("mysql://root@127.0.0.1:{port}/test?ssl-mode=disabled"),
    )
}

async fn pool<DB: sqlx::Database>(url: &str, prepare: &'static str) -> Pool<DB>
where
    for<'c> &'c mut DB::Connection: sqlx::Executor<'c, Database = DB>,
{
    let root = url.replace("/test?", "/mysql?");
    for _ in 0..300 {
        if let Ok(mut conn) = DB::Connection::connect(&root).await {
            sqlx::Executor::execute(&mut conn, prepare).await.unwrap();
            return Pool::connect(url).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the server at {url} does not answer")
}

macro_rules! days_pass {
    ($name:ident, $start:ident, $database:ty, $connection:ty, $prepare:literal) => {
        /// The window ends by the server's clock, and its end is when days have passed there.
        #[tokio::test]
        async fn $name() {
            let (server, url) = $start();
            let pool: Pool<$database> = pool(&url, $prepare).await;
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
            server.set_clock("+3d");
            assert!(is_new("second").await && !is_new("first").await);
            assert_eq!(removed().await, 0);
            // An hour before the first one's week is over, and an hour after.
            server.set_clock("+167h");
            assert_eq!(removed().await, 0);
            assert!(!is_new("first").await);
            server.set_clock("+169h");
            assert_eq!(removed().await, 1);
            assert!(!is_new("second").await);
            server.set_clock("+241h");
            assert_eq!(removed().await, 1);
            assert!(is_new("third").await);
            // A server whose clock was set back keeps what it has.
            server.set_clock("+1d");
            assert_eq!(removed().await, 0);
            assert!(!is_new("third").await);
            server.set_clock("+40d");
            assert_eq!(removed().await, 1);
            server.set_clock("+0d");
        }
    };
}

days_pass!(
    p12_days_pass_on_postgres,
    postgres,
    sqlx::Postgres,
    sqlx::PgConnection,
    "SELECT 1"
);
days_pass!(
    p12_days_pass_on_mariadb,
    mariadb,
    sqlx::MySql,
    sqlx::MySqlConnection,
    "CREATE DATABASE IF NOT EXISTS test"
);

/// The table by days, over three weeks: days are made ahead and dropped, each message runs once, and one that is too old is refused.
#[tokio::test]
async fn p12_days_pass_in_the_table_by_days() {
    let (server, url) = postgres();
    let pool: Pool<sqlx::Postgres> = pool(&url, "SELECT 1").await;
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
        server.set_clock(&format!("+{day}d"));
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
    server.set_clock("+0d");
}
