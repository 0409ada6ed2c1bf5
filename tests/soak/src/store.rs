//! A pool of one of the databases, and plain statements on it.

use std::str::FromStr as _;
use std::time::Duration;

use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, MySqlPool, PgPool, SqlitePool};

/// How long a delivery waits for a connection.
const ACQUIRE: Duration = Duration::from_secs(5);

/// The databases, whose types are not the same.
#[derive(Clone)]
pub(crate) enum Store {
    Postgres(PgPool),
    MySql(MySqlPool),
    Sqlite(SqlitePool),
}

/// The same with each pool.
macro_rules! with_pool {
    ($store:expr, $pool:ident => $body:expr) => {
        match $store {
            $crate::store::Store::Postgres($pool) => $body,
            $crate::store::Store::MySql($pool) => $body,
            $crate::store::Store::Sqlite($pool) => $body,
        }
    };
}

pub(crate) use with_pool;

impl Store {
    /// Connects when it is first needed, since a worker may start while its database is down.
    pub(crate) fn new(url: &str, connections: u32) -> anyhow::Result<Self> {
        Ok(match url.split(':').next() {
            Some("postgres") => Self::Postgres(
                PgPoolOptions::new()
                    .max_connections(connections)
                    .acquire_timeout(ACQUIRE)
                    .connect_lazy(url)?,
            ),
            Some("mysql") => Self::MySql(
                MySqlPoolOptions::new()
                    .max_connections(connections)
                    .acquire_timeout(ACQUIRE)
                    .connect_lazy(url)?,
            ),
            _ => Self::Sqlite(
                SqlitePoolOptions::new()
                    .max_connections(connections)
                    .acquire_timeout(ACQUIRE)
                    .connect_lazy_with(
                        SqliteConnectOptions::from_str(url)?
                            .create_if_missing(true)
                            .journal_mode(SqliteJournalMode::Wal)
                            .busy_timeout(Duration::from_secs(3)),
                    ),
            ),
        })
    }

    pub(crate) async fn migrate(&self) -> Result<(), idem::Error> {
        with_pool!(self, pool => idem::migrate(pool).await)
    }

    pub(crate) async fn execute(&self, sql: String) -> sqlx::Result<()> {
        with_pool!(self, pool => sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await.map(drop))
    }

    /// Rows of two numbers.
    pub(crate) async fn pairs(&self, sql: &str) -> sqlx::Result<Vec<(i64, i64)>> {
        let sql = AssertSqlSafe(sql.to_owned());
        with_pool!(self, pool => sqlx::query_as(sql).fetch_all(pool).await)
    }

    pub(crate) async fn number(&self, sql: &str) -> sqlx::Result<i64> {
        let sql = AssertSqlSafe(sql.to_owned());
        with_pool!(self, pool => sqlx::query_scalar(sql).fetch_one(pool).await)
    }

    /// Holds locks for so long that everybody wants.
    pub(crate) async fn hold(&self, time: Duration) -> sqlx::Result<()> {
        with_pool!(self, pool => {
            let mut connection = pool.acquire().await?;
            // SQLite has one lock for all, which the update takes.
            let lock = "BEGIN; UPDATE accounts SET balance = balance WHERE id IN (3, 5, 7)";
            let held = sqlx::raw_sql(lock).execute(&mut *connection).await;
            if held.is_ok() {
                tokio::time::sleep(time).await;
            }
            sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await?;
            held.map(drop)
        })
    }

    /// Claims messages as a worker would that fails after a while. Returns whether there was something to claim.
    pub(crate) async fn hold_claims(
        &self,
        consumer: &str,
        keys: &[String],
        time: Duration,
    ) -> Result<bool, idem::Error> {
        with_pool!(self, pool => {
            let mut batch = idem::Deliveries::of(consumer);
            for key in keys {
                batch.push(key);
            }
            let Some(claim) = batch.claim(pool).await?.claim else {
                return Ok(false);
            };
            tokio::time::sleep(time).await;
            claim.rollback().await;
            Ok(true)
        })
    }

    pub(crate) async fn close(&self) {
        with_pool!(self, pool => pool.close().await);
    }

    /// Whether a connection of the pool has a transaction open that nobody works in: the next borrower would work in it.
    pub(crate) async fn has_leaked(&self) -> sqlx::Result<bool> {
        match self {
            Self::Postgres(pool) => {
                // One statement on its own begins with its transaction.
                let sql = "SELECT (now() <> statement_timestamp())::int::bigint";
                let mut connection = pool.acquire().await?;
                let row = sqlx::raw_sql(sql).fetch_one(&mut *connection).await?;
                Ok(sqlx::Row::try_get::<i64, _>(&row, 0)? == 1)
            }
            Self::MySql(pool) => {
                let sql = "SELECT CAST(@@in_transaction AS SIGNED)";
                let mut connection = pool.acquire().await?;
                let row = sqlx::raw_sql(sql).fetch_one(&mut *connection).await?;
                Ok(sqlx::Row::try_get::<i64, _>(&row, 0)? == 1)
            }
            // Only a connection without a transaction can begin one.
            Self::Sqlite(pool) => {
                let mut connection = pool.acquire().await?;
                let begun = sqlx::raw_sql("BEGIN; ROLLBACK")
                    .execute(&mut *connection)
                    .await;
                Ok(begun.is_err())
            }
        }
    }
}
