use std::future::Future;
use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::{Connection as _, MySqlPool, PgPool, SqlitePool};

use crate::args::{Global, Kind};
use crate::failure::{Code, Failure};
use crate::fault;
use crate::url::{self, Options, Target};

/// A database that has answered.
pub(crate) enum Pool {
    Postgres(PgPool),
    MySql(MySqlPool),
    Sqlite(SqlitePool),
}

/// Runs generic code with the pool of whichever database it is.
macro_rules! with_pool {
    ($database:expr, $pool:ident => $body:expr) => {
        match &$database.pool {
            $crate::database::Pool::Postgres($pool) => $body,
            $crate::database::Pool::MySql($pool) => $body,
            $crate::database::Pool::Sqlite($pool) => $body,
        }
    };
}
pub(crate) use with_pool;

pub(crate) struct Database {
    pub(crate) pool: Pool,
    pub(crate) target: Target,
}

/// A command works on one connection; the pruner holds one more, for its lock.
const CONNECTIONS: u32 = 3;

impl Database {
    /// Connects, and says why it cannot.
    pub(crate) async fn connect(global: &Global) -> Result<Self, Failure> {
        let (target, options) = url::parse(global.url.as_deref())?;
        let limit = global.connect_timeout;
        let pool = match options {
            Options::Postgres(options) => {
                let first = sqlx::PgConnection::connect_with(&options);
                answered(&target, limit, first).await?.close().await.ok();
                Pool::Postgres(pool_options(limit).connect_lazy_with(options))
            }
            Options::MySql(options) => {
                let first = sqlx::MySqlConnection::connect_with(&options);
                answered(&target, limit, first).await?.close().await.ok();
                Pool::MySql(pool_options(limit).connect_lazy_with(options))
            }
            Options::Sqlite(options) => {
                let first = sqlx::SqliteConnection::connect_with(&options);
                answered(&target, limit, first).await?.close().await.ok();
                Pool::Sqlite(pool_options(limit).connect_lazy_with(options))
            }
        };
        Ok(Self { pool, target })
    }

    pub(crate) async fn close(self) {
        with_pool!(self, pool => pool.close().await);
    }

    /// What a database's error means, while something was done that needs these rights.
    pub(crate) fn explain(
        &self,
        rights: &'static str,
    ) -> impl Fn(Box<dyn std::error::Error + Send + Sync>) -> Failure {
        move |error| fault::explain(&*error, &self.target, rights)
    }
}

/// A pool would try again until its time is over, and then say no more than that; the first connection says what is wrong.
async fn answered<C>(
    target: &Target,
    limit: Duration,
    connecting: impl Future<Output = Result<C, sqlx::Error>>,
) -> Result<C, Failure> {
    if let Ok(connected) = tokio::time::timeout(limit, connecting).await {
        return connected.map_err(|error| fault::of_connecting(&error, target));
    }
    let what = format!(
        "{} at {} has not answered in {}",
        target.kind.name(),
        target.place,
        idem_duration::write(limit)
    );
    let remedy = match target.kind {
        Kind::Sqlite => "another process keeps the file locked; --connect-timeout waits longer",
        _ => {
            "look at the URL's scheme, host and port, and at what filters between; --connect-timeout waits longer"
        }
    };
    Err(Failure::new(Code::NoConnection, what).remedy(remedy))
}

fn pool_options<DB: sqlx::Database>(limit: Duration) -> PoolOptions<DB> {
    PoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(limit)
        // The connections live as long as the command.
        .test_before_acquire(false)
}
