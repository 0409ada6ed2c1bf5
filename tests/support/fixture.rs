use std::future::Future;

use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};

/// A server or a file that gives each test a database of its own.
pub trait Server: Sized + Send + 'static {
    /// sqlx's database.
    type Db: sqlx::Database;

    /// Creates an empty database and returns its URL.
    fn create(name: &str) -> impl Future<Output = String> + Send;

    /// Removes it.
    fn destroy(name: &str, url: &str) -> impl Future<Output = ()> + Send;
}

/// A test's own database, removed at the end also when the test fails.
pub struct Fixture<S: Server> {
    name: String,
    /// Connects to it.
    pub url: String,
    server: std::marker::PhantomData<S>,
}

impl<S: Server> Fixture<S> {
    /// An empty database.
    pub async fn new() -> Self {
        let name = format!("idem_{}", uuid::Uuid::new_v4().simple());
        let url = S::create(&name).await;
        Self {
            name,
            url,
            server: std::marker::PhantomData,
        }
    }

    /// A pool of so many connections.
    pub async fn pool(&self, connections: u32) -> sqlx::Pool<S::Db> {
        self.options(connections)
            .connect(&self.url)
            .await
            .expect("the database was just there")
    }

    /// As [`Fixture::pool`], to be changed before it connects.
    #[must_use]
    pub fn options(&self, connections: u32) -> sqlx::pool::PoolOptions<S::Db> {
        sqlx::pool::PoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(std::time::Duration::from_secs(20))
    }

    /// The database's name on its server.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<S: Server> Drop for Fixture<S> {
    fn drop(&mut self) {
        let (name, url) = (self.name.clone(), self.url.clone());
        // The test's runtime may be shutting down.
        let cleaner = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(S::destroy(&name, &url));
        });
        cleaner.join().ok();
    }
}

fn url(variable: &str, default: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| default.to_owned())
}

async fn administer<C>(url: &str, variable: &str, sql: String)
where
    C: Connection,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
{
    let mut connection = C::connect(url).await.unwrap_or_else(|error| {
        panic!("no server answers at {url} ({error}): run `./test.sh`, which starts what is missing, or set {variable}")
    });
    connection
        .execute(AssertSqlSafe(sql))
        .await
        .unwrap_or_else(|error| panic!("the server at {url} refuses: {error}"));
    connection.close().await.ok();
}

impl Server for sqlx::Sqlite {
    type Db = Self;

    async fn create(name: &str) -> String {
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("a directory for the database");
        format!("sqlite://{}?mode=rwc", directory.join("test.db").display())
    }

    async fn destroy(name: &str, _: &str) {
        std::fs::remove_dir_all(std::env::temp_dir().join(name)).ok();
    }
}

/// A schema each, in one database.
impl Server for sqlx::Postgres {
    type Db = Self;

    async fn create(name: &str) -> String {
        let server = postgres();
        let sql = format!("CREATE SCHEMA {name}");
        administer::<sqlx::PgConnection>(&server, "IDEM_TEST_POSTGRES", sql).await;
        let separator = if server.contains('?') { '&' } else { '?' };
        // The proxy reads what goes by; the command line brings TLS into the build, which the server would speak then.
        format!(
            "{server}{separator}sslmode=disable&options[search_path]={name}&application_name={name}"
        )
    }

    async fn destroy(name: &str, _: &str) {
        // A connection that a failed test holds would be waited for.
        let sql = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}'; \
             DROP SCHEMA {name} CASCADE"
        );
        administer::<sqlx::PgConnection>(&postgres(), "IDEM_TEST_POSTGRES", sql).await;
    }
}

/// A database each.
impl Server for sqlx::MySql {
    type Db = Self;

    async fn create(name: &str) -> String {
        let server = mysql();
        let sql = format!("CREATE DATABASE {name}");
        administer::<sqlx::MySqlConnection>(&server, "IDEM_TEST_MYSQL", sql).await;
        let options: sqlx::mysql::MySqlConnectOptions = server.parse().expect("a URL");
        // As for PostgreSQL.
        let options = options.ssl_mode(sqlx::mysql::MySqlSslMode::Disabled);
        options.database(name).to_url_lossy().to_string()
    }

    async fn destroy(name: &str, _: &str) {
        // A connection that a failed test holds would be waited for.
        let sql = format!(
            "BEGIN NOT ATOMIC FOR c IN (SELECT id FROM information_schema.processlist WHERE db = '{name}') DO \
             KILL c.id; END FOR; END; DROP DATABASE {name}"
        );
        administer::<sqlx::MySqlConnection>(&mysql(), "IDEM_TEST_MYSQL", sql).await;
    }
}

fn postgres() -> String {
    url(
        "IDEM_TEST_POSTGRES",
        "postgres://postgres@127.0.0.1:5432/postgres",
    )
}

fn mysql() -> String {
    url("IDEM_TEST_MYSQL", "mysql://root@127.0.0.1:3306/")
}
