use std::time::{Duration, Instant};

use idem_tests::own::{Postgres, Settings};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

const TABLES: &str = "CREATE TABLE effects (message bigint NOT NULL); \
    CREATE TABLE accounts (id bigint PRIMARY KEY, credits bigint NOT NULL); \
    INSERT INTO accounts SELECT id, 0 FROM generate_series(0, 9) id";

/// A primary and its standby.
pub(crate) struct Cluster {
    pub(crate) primary: Postgres,
    pub(crate) standby: Postgres,
}

impl Cluster {
    /// With the tables, and a standby that the primary does not wait for yet.
    pub(crate) async fn start() -> Self {
        let primary = Postgres::start(Settings::default());
        let pool = pool(&primary.url("postgres"), 1).await;
        idem::migrate(&pool).await.unwrap();
        sqlx::raw_sql(TABLES).execute(&pool).await.unwrap();
        let standby = primary.standby("standby", &Settings::default());
        Self { primary, standby }
    }

    /// As [`Cluster::start`], with a synchronous standby.
    pub(crate) async fn synchronous() -> Self {
        let cluster = Self::start().await;
        cluster.make_synchronous("on").await;
        cluster
    }

    /// Lets each COMMIT wait for the standby, by this level of `synchronous_commit`.
    pub(crate) async fn make_synchronous(&self, level: &str) {
        let pool = pool(&self.primary.url("postgres"), 1).await;
        configure(&pool, "synchronous_commit", level).await;
        configure(&pool, "synchronous_standby_names", "standby").await;
        let state = "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming')";
        until("the standby is synchronous", &pool, state).await;
    }

    /// Lets the standby reach its primary through this port.
    pub(crate) async fn replicate_through(&self, port: u16) {
        let standby = pool(&self.standby.url("postgres"), 1).await;
        let primary = format!("host=127.0.0.1 port={port} user=postgres application_name=standby");
        configure(&standby, "primary_conninfo", &primary).await;
    }

    /// Takes the standby off the primary for good.
    pub(crate) async fn cut_off(&self) {
        let standby = pool(&self.standby.url("postgres"), 1).await;
        configure(&standby, "primary_conninfo", "").await;
        let primary = pool(&self.primary.url("postgres"), 1).await;
        let state = "SELECT NOT EXISTS (SELECT FROM pg_stat_replication)";
        until("the standby is off", &primary, state).await;
    }

    /// The primary dies, and the standby takes over.
    pub(crate) fn fail_over(mut self) -> Postgres {
        self.primary.kill();
        self.standby.promote();
        self.standby
    }
}

pub(crate) async fn pool(url: &str, connections: u32) -> PgPool {
    let options = PgPoolOptions::new().max_connections(connections);
    options.connect(url).await.unwrap()
}

pub(crate) async fn configure(pool: &PgPool, setting: &str, value: &str) {
    // ALTER SYSTEM takes no parameters, and no transaction.
    let sql = format!("ALTER SYSTEM SET {setting} = '{value}'");
    sqlx::query(sqlx::AssertSqlSafe(sql))
        .execute(pool)
        .await
        .unwrap();
    sqlx::query("SELECT pg_reload_conf()")
        .execute(pool)
        .await
        .unwrap();
}

/// Polls a question until the answer is yes.
pub(crate) async fn until(what: &str, pool: &PgPool, question: &'static str) {
    let deadline = Instant::now() + Duration::from_mins(3);
    while !sqlx::query_scalar::<_, bool>(question)
        .fetch_one(pool)
        .await
        .unwrap()
    {
        assert!(Instant::now() < deadline, "waited for: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How often a message was applied, and whether its claim is there.
pub(crate) async fn applied(pool: &PgPool, message: i64) -> (i64, bool) {
    sqlx::query_as(
        "SELECT (SELECT count(*) FROM effects WHERE message = $1), \
         EXISTS (SELECT FROM processed_messages WHERE message_id = $1::text)",
    )
    .bind(message)
    .fetch_one(pool)
    .await
    .unwrap()
}
