//! The database under harm: a server of the soak's own, or a file, on a small disk of its own.

use std::path::{Path, PathBuf};

use idem_tests::own::{MariaDb, Postgres, Settings};

use crate::wire::Wire;

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub(crate) enum Database {
    Postgres,
    /// `MariaDB`.
    Mysql,
    Sqlite,
}

impl Database {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Sqlite => "sqlite",
        }
    }

    pub(crate) fn wire(self) -> Wire {
        match self {
            Self::Postgres => Wire::Postgres,
            Self::Mysql => Wire::MySql,
            Self::Sqlite => Wire::Opaque,
        }
    }
}

/// The running server, or the file.
pub(crate) enum Server {
    Postgres(Postgres),
    MariaDb(MariaDb),
    Sqlite(PathBuf),
}

impl Server {
    /// Creates it in an empty directory.
    pub(crate) fn start(database: Database, directory: &Path) -> Self {
        let settings = Settings::default().directory(directory);
        match database {
            Database::Postgres => Self::Postgres(Postgres::start(
                settings
                    .set("max_connections", 150)
                    .set("shared_buffers", "32MB")
                    // The disk is small.
                    .set("min_wal_size", "32MB")
                    .set("max_wal_size", "96MB"),
            )),
            Database::Mysql => Self::MariaDb(MariaDb::start(
                settings
                    .set("max-connections", 150)
                    // Cut connections are not an attack.
                    .set("max-connect-errors", 1_000_000)
                    .set("innodb-log-file-size", "32M")
                    .set("innodb-buffer-pool-size", "64M")
                    .set("innodb-lock-wait-timeout", 5)
                    // What is committed outlives a killed server, and would not outlive a power cut.
                    .set("innodb-flush-log-at-trx-commit", 2),
            )),
            Database::Sqlite => Self::Sqlite(directory.join("soak.db")),
        }
    }

    /// For the supervisor, past the proxies.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Postgres(server) => server.url("postgres"),
            Self::MariaDb(server) => server.url("test"),
            Self::Sqlite(file) => format!("sqlite://{}?mode=rwc", file.display()),
        }
    }

    /// For workers, whom the server can tell from the supervisor, through a proxy.
    pub(crate) fn worker_url(&self, proxy: &str) -> String {
        match self {
            Self::Postgres(_) => {
                format!(
                    "postgres://postgres@{proxy}/postgres?sslmode=disable&application_name=worker"
                )
            }
            Self::MariaDb(_) => format!("mysql://worker@{proxy}/test?ssl-mode=disabled"),
            Self::Sqlite(_) => self.url(),
        }
    }

    /// Where the proxies lead.
    pub(crate) fn address(&self) -> String {
        let port = match self {
            Self::Postgres(server) => server.port(),
            Self::MariaDb(server) => server.port(),
            Self::Sqlite(_) => 0,
        };
        format!("127.0.0.1:{port}")
    }

    /// A crash, and a start on the same data.
    pub(crate) fn restart(&mut self) {
        match self {
            Self::Postgres(server) => server.restart_immediate(),
            Self::MariaDb(server) => server.restart_immediate(),
            Self::Sqlite(_) => {}
        }
    }

    pub(crate) fn freeze(&self) {
        match self {
            Self::Postgres(server) => server.freeze(),
            Self::MariaDb(server) => server.freeze(),
            Self::Sqlite(_) => {}
        }
    }

    pub(crate) fn thaw(&self) {
        match self {
            Self::Postgres(server) => server.thaw(),
            Self::MariaDb(server) => server.thaw(),
            Self::Sqlite(_) => {}
        }
    }

    /// Starts it if it has ended. Returns whether it had.
    pub(crate) fn revive(&mut self) -> Result<bool, String> {
        let is_running = match self {
            Self::Postgres(server) => server.is_running(),
            Self::MariaDb(server) => server.is_running(),
            Self::Sqlite(_) => true,
        };
        if is_running {
            return Ok(false);
        }
        match self {
            Self::Postgres(server) => server.try_run()?,
            Self::MariaDb(server) => server.try_run(&[])?,
            Self::Sqlite(_) => {}
        }
        Ok(true)
    }
}
