//! What it costs to remove claims while consumers are at work: by the pruner, by one DELETE, and by the day.

use std::str::FromStr as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use idem::{Pruned, Pruner, Windows};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _};

use crate::DAY;
use crate::load::{CONSUMERS, Load, Table};
use crate::report::{Measured, Report};
use crate::{fill, index, mysql};

pub(crate) async fn measure(rows: i64, due: i64) -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL");
    let url = url
        .as_deref()
        .unwrap_or("postgres://postgres@127.0.0.1:5432/postgres");
    if url.starts_with("mysql:") || url.starts_with("mariadb:") {
        return mysql::measure(url, rows, due).await;
    }
    let options =
        PgConnectOptions::from_str(url).context("DATABASE_URL is no URL of PostgreSQL")?;
    let server = format!("{}:{}", options.get_host(), options.get_port());
    let mut conn = PgConnection::connect_with(&options)
        .await
        .map_err(|error| anyhow!("no PostgreSQL at {server} ({error}); set DATABASE_URL"))?;

    // Two runs at once do not meet in a schema of their own.
    let schema = format!("idem_bench_retention_{}", std::process::id());
    let create = AssertSqlSafe(format!("CREATE SCHEMA {schema}"));
    sqlx::raw_sql(create).execute(&mut conn).await?;
    let result = in_schema(options.options([("search_path", &schema)]), rows, due).await;
    let drop = AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"));
    sqlx::raw_sql(drop).execute(&mut conn).await?;
    conn.close().await?;
    result
}

async fn in_schema(options: PgConnectOptions, rows: i64, due: i64) -> anyhow::Result<()> {
    let connect = |connections| {
        let pool = PgPoolOptions::new().max_connections(connections);
        pool.connect_with(options.clone())
    };
    let mut bench = Bench {
        consumers: connect(CONSUMERS).await?,
        operator: connect(2).await?,
        time: Duration::from_millis(u64::try_from(rows / 1000)?.clamp(500, 10_000)),
        rate: None,
        rows,
        due,
    };
    idem::migrate(&bench.operator).await?;
    println!("{}\n", setting(&bench.operator).await?);
    let result = bench.run().await;
    bench.consumers.close().await;
    bench.operator.close().await;
    result
}

struct Bench {
    consumers: PgPool,
    operator: PgPool,
    /// How long consumers are watched while nothing else happens.
    time: Duration,
    /// Claims a second, once it is known what the machine can do.
    rate: Option<f64>,
    rows: i64,
    due: i64,
}

impl Bench {
    async fn run(&mut self) -> anyhow::Result<()> {
        fill::plain(&self.operator, self.rows, self.due).await?;
        let full = Load::start(&self.plain(), None);
        tokio::time::sleep(self.time).await;
        let full = full.stop().await?;
        // A quarter leaves room for what is to be felt.
        let rate = (full.rate() / 4.0).max(1.0);
        self.rate = Some(rate);
        println!(
            "{CONSUMERS} consumers at full speed claim {:.0} messages a second. From here on they claim {rate:.0}.\n\
             A ratio is to what the same consumers saw before and after, while nothing was removed. The log is the WAL without theirs.",
            full.rate()
        );

        self.by_the_pruner(full.claims()).await?;
        self.by_one_delete().await?;
        self.by_the_day().await?;
        index::measure(&self.operator, &self.consumers, self.rows).await
    }

    async fn by_the_pruner(&self, mut made: i64) -> anyhow::Result<()> {
        let pruner = Pruner::new(&self.operator);
        let mut report = Report::new("The plain table, by the pruner");
        report.idle(self.idle(&self.plain()).await?);
        let (pruning, done) = self.watch(&self.plain(), pruner.run_once()).await?;
        let done: Pruned = done?;
        report.job("the pruner", self.due, pruning);
        let vacuum = fill::vacuum(&self.operator, "processed_messages");
        let (vacuum, vacuumed) = self.watch(&self.plain(), vacuum).await?;
        vacuumed?;
        report.job("VACUUM after it", 0, vacuum);
        report.idle(self.idle(&self.plain()).await?);
        report.print();

        let removed = i64::try_from(done.claims)?;
        ensure!(removed == self.due, "the pruner removed {removed}");
        made += report.claims();
        let size = self.bytes_per_claim("processed_messages", self.rows + made);
        println!(
            "   chunks: {}; bytes per claim, index included: {:.0}",
            done.chunks,
            size.await?
        );
        self.check_plain(made).await
    }

    /// What people write first, on a table that is filled anew.
    async fn by_one_delete(&self) -> anyhow::Result<()> {
        fill::plain(&self.operator, self.rows, self.due).await?;
        let delete =
            "DELETE FROM processed_messages WHERE processed_at < now() - interval '7 days'";
        let mut report = Report::new("The plain table, by one DELETE");
        report.idle(self.idle(&self.plain()).await?);
        let delete = sqlx::query(delete).execute(&self.operator);
        let (deleting, deleted) = self.watch(&self.plain(), delete).await?;
        report.job("DELETE", self.due, deleting);
        report.idle(self.idle(&self.plain()).await?);
        report.print();

        let removed = i64::try_from(deleted?.rows_affected())?;
        ensure!(removed == self.due, "DELETE removed {removed}");
        self.check_plain(report.claims()).await?;
        sqlx::raw_sql("TRUNCATE processed_messages")
            .execute(&self.operator)
            .await?;
        Ok(())
    }

    async fn by_the_day(&self) -> anyhow::Result<()> {
        let days = fill::by_day(&self.operator, self.rows, self.due).await?;
        // With few days, it is shorter than what the handler says of the broker.
        let windows = Windows::of_handlers()
            .window("by-day", days * DAY)
            .redelivery("by-day", Duration::ZERO);
        let pruner = Pruner::new(&self.operator).windows(windows);
        let mut report = Report::new("The table by days, by the pruner");
        report.idle(self.idle(&self.by_day()).await?);
        let (pruning, done) = self.watch(&self.by_day(), pruner.run_once()).await?;
        let done: Pruned = done?;
        report.job("the pruner", self.due, pruning);
        report.idle(self.idle(&self.by_day()).await?);
        report.print();

        ensure!(
            (done.claims, done.days_dropped) == (0, 1),
            "the pruner removed {done:?}"
        );
        let made = report.claims();
        let left = "SELECT count(*) FROM processed_messages_by_day";
        let left: i64 = sqlx::query_scalar(left).fetch_one(&self.operator).await?;
        let expected = self.rows - self.due + made;
        ensure!(
            left == expected,
            "the table by days holds {left} of {expected}"
        );
        let size = self.bytes_per_claim("processed_messages_by_day", left);
        println!(
            "   days dropped: {}; bytes per claim, index included: {:.0}",
            done.days_dropped,
            size.await?
        );
        println!(
            "   OK: {} are gone, {} are there, and each of {made} made meanwhile.",
            self.due,
            left - made
        );
        Ok(())
    }

    fn plain(&self) -> Table {
        Table::Plain(self.consumers.clone())
    }

    fn by_day(&self) -> Table {
        Table::ByDay(self.consumers.clone())
    }

    async fn idle(&self, table: &Table) -> anyhow::Result<Measured> {
        let (idle, ()) = self.watch(table, tokio::time::sleep(self.time)).await?;
        Ok(idle)
    }

    /// Consumers at work while something happens, and for half a second more, in which it may still be felt.
    async fn watch<T>(
        &self,
        table: &Table,
        job: impl Future<Output = T>,
    ) -> anyhow::Result<(Measured, T)> {
        // After a checkpoint each page is written to the WAL in full once, so that each job begins with one.
        sqlx::raw_sql("CHECKPOINT").execute(&self.operator).await?;
        let before = wal(&self.operator).await?;
        let load = Load::start(table, self.rate);
        let start = Instant::now();
        let answer = job.await;
        let time = start.elapsed();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let seen = load.stop().await?;
        let log = wal(&self.operator).await? - before;
        Ok((Measured { seen, time, log }, answer))
    }

    async fn check_plain(&self, made: i64) -> anyhow::Result<()> {
        let left = "SELECT count(*) FILTER (WHERE processed_at < now() - interval '7 days'), count(*) FROM processed_messages";
        let left: (i64, i64) = sqlx::query_as(left).fetch_one(&self.operator).await?;
        let kept = self.rows - self.due;
        ensure!(
            left == (0, kept + made),
            "past their window and in all there are {left:?} claims; {kept} and {made} made meanwhile should be"
        );
        println!(
            "   OK: {} are gone, {kept} are there, and each of {made} made meanwhile.",
            self.due
        );
        Ok(())
    }

    async fn bytes_per_claim(&self, table: &'static str, claims: i64) -> sqlx::Result<f64> {
        let size = "SELECT coalesce(sum(pg_total_relation_size(relid)), pg_total_relation_size($1::regclass)) / $2::float8 FROM pg_partition_tree($1::regclass)";
        let size = sqlx::query_scalar(size).bind(table).bind(claims);
        size.fetch_one(&self.operator).await
    }
}

/// All that the server has written to its log of changes.
pub(crate) async fn wal(pool: &PgPool) -> sqlx::Result<i64> {
    let written = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint";
    sqlx::query_scalar(written).fetch_one(pool).await
}

async fn setting(pool: &PgPool) -> sqlx::Result<String> {
    let setting = "SELECT format('PostgreSQL %s, fsync %s, synchronous_commit %s, shared_buffers %s, autovacuum %s', \
        current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'), \
        current_setting('shared_buffers'), current_setting('autovacuum'))";
    let setting: String = sqlx::query_scalar(setting).fetch_one(pool).await?;
    let build = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    Ok(format!("{setting}; {build} build."))
}
