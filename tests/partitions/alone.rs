//! A database of a test's own. To finish a day that was detached half-way, PostgreSQL waits for every older snapshot in the database, and
//! so for other tests.

use idem_tests::Server;
use sqlx::{Connection, PgConnection};

use super::*;

struct Database;

pub(super) struct Alone(Fixture<Database>);

async fn administer(sql: String) {
    let server = std::env::var("IDEM_TEST_POSTGRES");
    let server = server.as_deref();
    let server = server.unwrap_or("postgres://postgres@127.0.0.1:5432/postgres");
    let mut conn = PgConnection::connect(server).await.expect("the server");
    run(&mut conn, sql).await.expect("the right to do so");
    conn.close().await.ok();
}

impl Server for Database {
    type Db = Db;

    async fn create(name: &str) -> String {
        administer(format!("CREATE DATABASE {name}")).await;
        name.to_owned()
    }

    async fn destroy(name: &str, _: &str) {
        administer(format!("DROP DATABASE {name} WITH (FORCE)")).await;
    }
}

impl Alone {
    pub(super) async fn new() -> Self {
        Self(Fixture::new().await)
    }

    /// As [`Clocked::new`], in this database.
    pub(super) async fn clocked(&self, day: &str, connections: u32) -> Clocked {
        let mut fixture: Fixture<Db> = Fixture::new().await;
        let (server, options) = fixture.url.split_once('?').expect("options");
        let (server, _) = server.rsplit_once('/').expect("a database");
        fixture.url = format!("{server}/{}?{options}", self.0.name());
        let mut conn = PgConnection::connect(&fixture.url).await.unwrap();
        let schema = format!("CREATE SCHEMA {}", fixture.name());
        run(&mut conn, schema).await.unwrap();
        conn.close().await.unwrap();
        Clocked::of(fixture, day, connections).await
    }
}
