use std::time::{Duration, Instant};

use idem_tests::own::{PgBouncer, Postgres, Settings};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

const TABLES: &str = "CREATE TABLE effects (message bigint NOT NULL); \
    CREATE TABLE accounts (id bigint PRIMARY KEY, credits bigint NOT NULL); \
    INSERT INTO accounts SELECT id, 0 FROM generate_series(0, 9) id";

/// The sessions at the server that the pooler shares out.
pub(crate) const SESSIONS: u32 = 4;

/// A pooler before a server.
pub(crate) struct Setup {
    pub(crate) pooler: PgBouncer,
    pub(crate) server: Postgres,
    /// Past the pooler.
    pub(crate) direct: PgPool,
}

impl Setup {
    pub(crate) async fn start() -> Self {
        Self::with_sessions(SESSIONS).await
    }

    /// With so many sessions at the server.
    pub(crate) async fn with_sessions(sessions: u32) -> Self {
        let server = Postgres::start(Settings::default());
        let settings = Settings::default()
            .set("default_pool_size", sessions)
            .set("max_client_conn", 200)
            // A server that restarts is asked again soon.
            .set("server_login_retry", 1);
        let pooler = PgBouncer::start(&server, &settings);
        // Tests that restart the server find it again.
        let direct = pool(&server.url("postgres"), 2).await;
        sqlx::raw_sql(TABLES).execute(&direct).await.unwrap();
        let setup = Self {
            pooler,
            server,
            direct,
        };
        idem::migrate(&setup.clients(1).await).await.unwrap();
        setup
    }

    /// Clients of the pooler.
    pub(crate) async fn clients(&self, connections: u32) -> PgPool {
        pool(&self.pooler.url("postgres"), connections).await
    }

    /// Each message once, and no session left in a transaction.
    pub(crate) async fn assert_once(&self, messages: i64) {
        let rows = sqlx::query_scalar("SELECT message FROM effects ORDER BY message");
        let rows: Vec<i64> = rows.fetch_all(&self.direct).await.unwrap();
        assert_eq!(rows, (0..messages).collect::<Vec<_>>());
        self.assert_idle().await;
    }

    /// No session stays in a transaction, once the last client's ROLLBACK is through.
    pub(crate) async fn assert_idle(&self) {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
        let deadline = Instant::now() + Duration::from_secs(30);
        while sqlx::query_scalar::<_, i64>(sql)
            .fetch_one(&self.direct)
            .await
            .unwrap()
            > 0
        {
            assert!(
                Instant::now() < deadline,
                "a session is left in a transaction"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// No session has kept anything of a delivery: all of them are asked at once.
    pub(crate) async fn assert_clean(&self) {
        let clients = self.clients(SESSIONS).await;
        let mut held = Vec::new();
        for _ in 0..SESSIONS {
            let mut transaction = clients.begin().await.unwrap();
            let sql = "SELECT pg_backend_pid(), current_setting('lock_timeout'), coalesce(current_setting('idem.seal', true), '')";
            let session: (i32, String, String) = sqlx::query_as(sql)
                .persistent(false)
                .fetch_one(&mut *transaction)
                .await
                .unwrap();
            held.push((session, transaction));
        }
        for ((_, lock_timeout, seal), _) in &held {
            assert_eq!((&**lock_timeout, &**seal), ("0", ""));
        }
        let mut pids: Vec<i32> = held.iter().map(|((pid, ..), _)| *pid).collect();
        pids.sort_unstable();
        pids.dedup();
        assert_eq!(pids.len(), held.len(), "each in a session of its own");
    }
}

pub(crate) async fn pool(url: &str, connections: u32) -> PgPool {
    let options = PgPoolOptions::new().max_connections(connections);
    options.connect(url).await.unwrap()
}
