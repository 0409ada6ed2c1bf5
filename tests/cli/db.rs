//! The three databases behind one face.

use idem_tests::Fixture;
use sqlx::{AssertSqlSafe, Connection as _, MySql, Postgres, Sqlite};

use crate::run::{Answer, Terminal, command};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Postgres,
    MySql,
    Sqlite,
}

enum Own {
    Postgres(Fixture<Postgres>),
    MySql(Fixture<MySql>),
    Sqlite(Fixture<Sqlite>),
}

/// A database of the test's own.
pub(crate) struct Db {
    pub(crate) kind: Kind,
    pub(crate) url: String,
    own: Own,
}

/// The same test for each database.
macro_rules! on_each_database {
    ($($name:ident)*) => {
        mod postgres {
            $(#[tokio::test] async fn $name() { super::$name($crate::db::Db::postgres().await).await; })*
        }
        mod mysql {
            $(#[tokio::test] async fn $name() { super::$name($crate::db::Db::mysql().await).await; })*
        }
        mod sqlite {
            $(#[tokio::test] async fn $name() { super::$name($crate::db::Db::sqlite().await).await; })*
        }
    };
}
pub(crate) use on_each_database;

impl Db {
    pub(crate) async fn postgres() -> Self {
        let own = Fixture::<Postgres>::new().await;
        let url = own.url.clone();
        Self {
            kind: Kind::Postgres,
            url,
            own: Own::Postgres(own),
        }
    }

    pub(crate) async fn mysql() -> Self {
        let own = Fixture::<MySql>::new().await;
        let url = own.url.clone();
        Self {
            kind: Kind::MySql,
            url,
            own: Own::MySql(own),
        }
    }

    pub(crate) async fn sqlite() -> Self {
        let own = Fixture::<Sqlite>::new().await;
        let url = own.url.clone();
        Self {
            kind: Kind::Sqlite,
            url,
            own: Own::Sqlite(own),
        }
    }

    /// With the table of claims.
    pub(crate) fn migrated(self) -> Self {
        self.idem(&["migrate"]).done();
        self
    }

    /// Its schema, database or file's directory.
    pub(crate) fn name(&self) -> &str {
        match &self.own {
            Own::Postgres(fixture) => fixture.name(),
            Own::MySql(fixture) => fixture.name(),
            Own::Sqlite(fixture) => fixture.name(),
        }
    }

    /// Runs the program on it.
    pub(crate) fn idem(&self, arguments: &[&str]) -> Answer {
        let mut command = command(arguments);
        command.env("DATABASE_URL", &self.url);
        command.output().unwrap().into()
    }

    /// The same in a terminal.
    pub(crate) fn terminal(&self, arguments: &[&str]) -> Terminal {
        Terminal::start(arguments, &[("DATABASE_URL", &self.url)])
    }

    /// Runs statements past the program.
    pub(crate) async fn sql(&self, sql: &str) {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql));
        match self.kind {
            Kind::Postgres => {
                let mut conn = sqlx::PgConnection::connect(&self.url).await.unwrap();
                sql.execute(&mut conn).await.unwrap();
                conn.close().await.unwrap();
            }
            Kind::MySql => {
                let mut conn = sqlx::MySqlConnection::connect(&self.url).await.unwrap();
                sql.execute(&mut conn).await.unwrap();
                conn.close().await.unwrap();
            }
            Kind::Sqlite => {
                let mut conn = sqlx::SqliteConnection::connect(&self.url).await.unwrap();
                sql.execute(&mut conn).await.unwrap();
                conn.close().await.unwrap();
            }
        }
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let sql = AssertSqlSafe(sql);
        match self.kind {
            Kind::Postgres => {
                let mut conn = sqlx::PgConnection::connect(&self.url).await.unwrap();
                let number = sqlx::query_scalar(sql).fetch_one(&mut conn).await;
                number.unwrap()
            }
            Kind::MySql => {
                let mut conn = sqlx::MySqlConnection::connect(&self.url).await.unwrap();
                let number = sqlx::query_scalar(sql).fetch_one(&mut conn).await;
                number.unwrap()
            }
            Kind::Sqlite => {
                let mut conn = sqlx::SqliteConnection::connect(&self.url).await.unwrap();
                let number = sqlx::query_scalar(sql).fetch_one(&mut conn).await;
                number.unwrap()
            }
        }
    }

    pub(crate) async fn claims(&self) -> i64 {
        self.number("SELECT count(*) FROM processed_messages").await
    }

    /// Claims of a consumer, of this age.
    pub(crate) async fn insert(&self, consumer: &str, keys: &[&str], days: u32) {
        let at = match self.kind {
            Kind::Postgres => format!("now() - interval '{days} days'"),
            Kind::MySql => format!("CURRENT_TIMESTAMP(6) - INTERVAL {days} DAY"),
            Kind::Sqlite => {
                format!("strftime('%Y-%m-%d %H:%M:%f', 'now', '-{days} days')")
            }
        };
        // `\` is an escape in the texts of MySQL only.
        let escape = if self.kind == Kind::MySql {
            "\\\\"
        } else {
            "\\"
        };
        let rows: Vec<String> = keys
            .iter()
            .map(|key| format!("('{consumer}', '{}', {at})", key.replace('\\', escape)))
            .collect();
        let rows = rows.join(", ");
        self.sql(&format!(
            "INSERT INTO processed_messages (consumer, message_id, processed_at) VALUES {rows}"
        ))
        .await;
    }
}

/// An open transaction that has changed a claim.
pub(crate) enum Held {
    Postgres(sqlx::PgConnection),
    MySql(sqlx::MySqlConnection),
    Sqlite(sqlx::SqliteConnection),
}

impl Db {
    pub(crate) async fn hold(&self, consumer: &str, key: &str) -> Held {
        let begin = match self.kind {
            Kind::Sqlite => "BEGIN IMMEDIATE",
            _ => "BEGIN",
        };
        let update = "UPDATE processed_messages SET version = 1000";
        let sql =
            format!("{begin}; {update} WHERE consumer = '{consumer}' AND message_id = '{key}'");
        self.hold_by(&sql).await
    }

    /// What a pruner holds while it is at a chunk.
    pub(crate) async fn hold_as_a_pruner(&self) -> Held {
        self.hold_by(match self.kind {
            Kind::Postgres => "BEGIN; SELECT pg_advisory_xact_lock((7236837::bigint << 32) | 'processed_messages'::regclass::oid::bigint)",
            Kind::MySql => "DO GET_LOCK(CONCAT('idem.prune.', MD5(DATABASE())), 0); BEGIN",
            Kind::Sqlite => "BEGIN IMMEDIATE",
        })
        .await
    }

    async fn hold_by(&self, sql: &str) -> Held {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql));
        match self.kind {
            Kind::Postgres => {
                let mut conn = sqlx::PgConnection::connect(&self.url).await.unwrap();
                sql.execute(&mut conn).await.unwrap();
                Held::Postgres(conn)
            }
            Kind::MySql => {
                let mut conn = sqlx::MySqlConnection::connect(&self.url).await.unwrap();
                sql.execute(&mut conn).await.unwrap();
                Held::MySql(conn)
            }
            Kind::Sqlite => {
                let mut conn = sqlx::SqliteConnection::connect(&self.url).await.unwrap();
                sql.execute(&mut conn).await.unwrap();
                Held::Sqlite(conn)
            }
        }
    }
}

impl Held {
    pub(crate) async fn release(self) {
        let sql = sqlx::raw_sql("ROLLBACK");
        match self {
            Self::Postgres(mut conn) => drop(sql.execute(&mut conn).await.unwrap()),
            Self::MySql(mut conn) => drop(sql.execute(&mut conn).await.unwrap()),
            Self::Sqlite(mut conn) => drop(sql.execute(&mut conn).await.unwrap()),
        }
    }
}
