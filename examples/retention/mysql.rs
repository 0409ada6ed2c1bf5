//! The same on MySQL and MariaDB: by the pruner, by one DELETE, and what its index costs.

use std::str::FromStr as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use idem::{Pruned, Pruner};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPool, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _};

use crate::load::{CONSUMERS, Load, Table};
use crate::report::{Measured, Report, real};

const ROUNDS: usize = 3;

macro_rules! digit {
    () => {
        "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 \
          UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
    };
}

/// As on PostgreSQL: the first of them were made ten to seven days ago, the others in the last six days. A hundred thousand a statement.
#[rustfmt::skip]
const FILL: &str = concat!(
    "INSERT INTO processed_messages (consumer, message_id, processed_at) \
     SELECT 'plain', CONCAT(LEFT(stamp, 8), '-', RIGHT(stamp, 4), '-7000-8000-', LEFT(MD5(n), 12)), at FROM (\
       SELECT n, at, LPAD(LOWER(HEX(FLOOR(UNIX_TIMESTAMP(at) * 1000))), 12, '0') AS stamp FROM (\
         SELECT n, NOW(6) - INTERVAL CASE WHEN n <= ? THEN 604860 + 259200 * (1 - n / ?) ELSE 518400 * (1 - (n - ?) / (? - ?)) END SECOND AS at \
         FROM (SELECT ? + d0.d + 10 * d1.d + 100 * d2.d + 1000 * d3.d + 10000 * d4.d AS n FROM ",
    digit!(), " AS d0 CROSS JOIN ", digit!(), " AS d1 CROSS JOIN ", digit!(), " AS d2 CROSS JOIN ", digit!(), " AS d3 CROSS JOIN ", digit!(), " AS d4\
         ) AS numbers WHERE n <= ?) AS claims) AS stamped ORDER BY n"
);

pub(crate) async fn measure(url: &str, rows: i64, due: i64) -> anyhow::Result<()> {
    let options =
        MySqlConnectOptions::from_str(url).context("DATABASE_URL is no URL of MySQL or MariaDB")?;
    let server = format!("{}:{}", options.get_host(), options.get_port());
    let mut conn = MySqlConnection::connect_with(&options)
        .await
        .map_err(|error| anyhow!("no MySQL at {server} ({error}); see DATABASE_URL"))?;
    let database = format!("idem_bench_retention_{}", std::process::id());
    let create = AssertSqlSafe(format!("CREATE DATABASE {database}"));
    sqlx::raw_sql(create).execute(&mut conn).await?;
    let result = in_database(options.database(&database), rows, due).await;
    let drop = AssertSqlSafe(format!("DROP DATABASE {database}"));
    sqlx::raw_sql(drop).execute(&mut conn).await?;
    conn.close().await?;
    result
}

async fn in_database(options: MySqlConnectOptions, rows: i64, due: i64) -> anyhow::Result<()> {
    let connect = |connections| {
        let pool = MySqlPoolOptions::new().max_connections(connections);
        pool.connect_with(options.clone())
    };
    let consumers = connect(CONSUMERS).await?;
    let mut bench = Bench {
        operator: connect(2).await?,
        consumers: Table::MySql(consumers.clone()),
        time: Duration::from_millis(u64::try_from(rows / 1000)?.clamp(500, 10_000)),
        rate: None,
        rows,
        due,
    };
    idem::migrate(&bench.operator).await?;
    let version = "SELECT CONCAT(VERSION(), ', innodb_flush_log_at_trx_commit ', @@innodb_flush_log_at_trx_commit, \
        ', innodb_buffer_pool_size ', @@innodb_buffer_pool_size DIV 1048576, 'MB')";
    let version: String = sqlx::query_scalar(version)
        .fetch_one(&bench.operator)
        .await?;
    println!("{version}\n");
    let result = bench.run().await;
    consumers.close().await;
    bench.operator.close().await;
    result
}

struct Bench {
    operator: MySqlPool,
    consumers: Table,
    time: Duration,
    rate: Option<f64>,
    rows: i64,
    due: i64,
}

impl Bench {
    async fn run(&mut self) -> anyhow::Result<()> {
        self.fill().await?;
        let full = Load::start(&self.consumers, None);
        tokio::time::sleep(self.time).await;
        let full = full.stop().await?;
        let rate = (full.rate() / 4.0).max(1.0);
        self.rate = Some(rate);
        println!(
            "{CONSUMERS} consumers at full speed claim {:.0} messages a second. From here on they claim {rate:.0}.\n\
             A ratio is to what the same consumers saw before and after, while nothing was removed. The log is InnoDB's redo log without theirs.",
            full.rate()
        );

        let mut report = Report::new("By the pruner");
        report.idle(self.idle().await?);
        let pruner = Pruner::new(&self.operator);
        let (pruning, done) = self.watch(pruner.run_once()).await?;
        let done: Pruned = done?;
        report.job("the pruner", self.due, pruning);
        report.idle(self.idle().await?);
        report.print();
        ensure!(
            i64::try_from(done.claims)? == self.due,
            "the pruner removed {}",
            done.claims
        );
        println!("   chunks: {}", done.chunks);
        self.check(full.claims() + report.claims()).await?;

        self.fill().await?;
        let mut report = Report::new("By one DELETE");
        report.idle(self.idle().await?);
        let delete = "DELETE FROM processed_messages WHERE processed_at < NOW() - INTERVAL 7 DAY";
        let delete = sqlx::query(delete).execute(&self.operator);
        let (deleting, deleted) = self.watch(delete).await?;
        let deleted = i64::try_from(deleted?.rows_affected())?;
        report.job("DELETE", self.due, deleting);
        report.idle(self.idle().await?);
        report.print();
        ensure!(deleted == self.due, "DELETE removed {deleted}");
        self.check(report.claims()).await?;
        self.index().await
    }

    async fn fill(&self) -> anyhow::Result<()> {
        sqlx::raw_sql("TRUNCATE TABLE processed_messages")
            .execute(&self.operator)
            .await?;
        for start in (1..=self.rows).step_by(100_000) {
            sqlx::query(FILL)
                .bind(self.due)
                .bind(self.due)
                .bind(self.due)
                .bind(self.rows)
                .bind(self.due)
                .bind(start)
                .bind(self.rows)
                .execute(&self.operator)
                .await?;
        }
        sqlx::raw_sql("ANALYZE TABLE processed_messages")
            .execute(&self.operator)
            .await?;
        Ok(())
    }

    async fn idle(&self) -> anyhow::Result<Measured> {
        let (idle, ()) = self.watch(tokio::time::sleep(self.time)).await?;
        Ok(idle)
    }

    async fn watch<T>(&self, job: impl Future<Output = T>) -> anyhow::Result<(Measured, T)> {
        let before = self.redo().await?;
        let load = Load::start(&self.consumers, self.rate);
        let start = Instant::now();
        let answer = job.await;
        let time = start.elapsed();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let seen = load.stop().await?;
        let log = self.redo().await? - before;
        Ok((Measured { seen, time, log }, answer))
    }

    async fn redo(&self) -> anyhow::Result<i64> {
        let written = "SHOW GLOBAL STATUS LIKE 'Innodb_os_log_written'";
        let (_, written): (String, String) =
            sqlx::query_as(written).fetch_one(&self.operator).await?;
        Ok(written.parse()?)
    }

    async fn check(&self, made: i64) -> anyhow::Result<()> {
        let left = "SELECT CAST(COALESCE(SUM(processed_at < NOW() - INTERVAL 7 DAY), 0) AS SIGNED), COUNT(*) FROM processed_messages";
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

    /// Claims at full speed, with the index and without it.
    async fn index(&self) -> anyhow::Result<()> {
        const WAYS: [(&str, &str); 2] = [
            (
                "no index",
                "ALTER TABLE processed_messages DROP INDEX processed_messages_processed_at",
            ),
            (
                "the index that idem::migrate makes",
                "ALTER TABLE processed_messages ADD INDEX processed_messages_processed_at (consumer, processed_at)",
            ),
        ];
        println!(
            "\nThe index on (consumer, processed_at): single claims at full speed; the median of {ROUNDS} rounds.\n{:<37}{:>12}{:>9}{:>16}{:>9}",
            "", "claims/s", "ratio", "log per claim", "ratio"
        );
        let mut rates = [const { Vec::new() }; WAYS.len()];
        let mut bytes = [const { Vec::new() }; WAYS.len()];
        // The first round warms up.
        for round in 0..=ROUNDS {
            for (way, (_, change)) in WAYS.iter().enumerate() {
                sqlx::raw_sql(*change).execute(&self.operator).await?;
                let before = self.redo().await?;
                let load = Load::start(&self.consumers, None);
                tokio::time::sleep(self.time / 2).await;
                let seen = load.stop().await?;
                let written = self.redo().await? - before;
                if round > 0 {
                    rates[way].push(seen.rate());
                    bytes[way].push(real(written) / real(seen.claims()));
                }
            }
        }
        let [rates, bytes] = [rates, bytes].map(|all| all.map(crate::index::median));
        for (way, (name, _)) in WAYS.iter().enumerate() {
            println!(
                "   {name:<34}{:>12.0}{:>9.2}{:>14.0} B{:>9.2}",
                rates[way],
                rates[way] / rates[0],
                bytes[way],
                bytes[way] / bytes[0]
            );
        }
        Ok(())
    }
}
