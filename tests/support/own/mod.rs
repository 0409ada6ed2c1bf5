//! Servers of a test's own, to be restarted, killed and frozen: on a free port, in a directory of their own, gone with the test also when
//! its process is killed.

mod mariadb;
mod pgbouncer;
mod postgres;
mod process;

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

pub use mariadb::MariaDb;
pub use pgbouncer::PgBouncer;
pub use postgres::Postgres;

/// What a server is started with, beyond what every test needs.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    directory: Option<PathBuf>,
    environment: Vec<(String, String)>,
    values: Vec<(String, String)>,
}

impl Settings {
    /// A setting of the server, by the name that its manual gives.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.values.push((name.to_owned(), value.to_string()));
        self
    }

    /// A variable of the server's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<Path>) -> Self {
        let value = value.as_ref().to_str().unwrap().to_owned();
        self.environment.push((name.to_owned(), value));
        self
    }

    /// An existing, empty directory for everything that the server writes, in place of one of its own. It stays.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }
}

/// Where a server keeps its data, its socket and its log.
struct Home {
    path: PathBuf,
    user: &'static str,
    /// Removed with the server, unless the directory was given.
    _temporary: Option<TempDir>,
}

impl Home {
    /// A directory that belongs to the user as whom the server runs.
    fn new(settings: &Settings, user: &'static str) -> Self {
        let (path, temporary) = if let Some(path) = &settings.directory {
            (path.clone(), None)
        } else {
            let folder = tempfile::Builder::new().prefix("idem-own.").tempdir();
            let folder = folder.unwrap();
            (folder.path().to_owned(), Some(folder))
        };
        if process::is_root() {
            let owner = format!("{user}:");
            process::run("chown", &[&owner, path.to_str().unwrap()]);
        }
        Self {
            path,
            user,
            _temporary: temporary,
        }
    }

    fn join(&self, name: &str) -> String {
        self.path.join(name).to_str().unwrap().to_owned()
    }

    /// Runs a program to its end, as the server's user.
    fn run(&self, program: &str, arguments: &[&str]) {
        let mut words = process::as_user(self.user);
        words.push(program.to_owned());
        words.extend(arguments.iter().map(|&argument| argument.to_owned()));
        let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        process::run(&words[0], &arguments);
    }

    /// The end of the server's log.
    fn log(&self) -> String {
        let bytes = std::fs::read(self.path.join("log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

/// A port on which nobody listens, below the range from which the system takes those of outgoing connections.
#[must_use]
pub fn free_port() -> u16 {
    loop {
        let (random, _) = uuid::Uuid::new_v4().as_u64_pair();
        let port = 20_000 + u16::try_from(random % 10_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A server's program, which may be where a user's PATH does not look.
fn program(name: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/bin"].map(PathBuf::from));
    let program = folders
        .map(|folder| folder.join(name))
        .find(|it| it.exists())?;
    Some(program.to_str().unwrap().to_owned())
}
