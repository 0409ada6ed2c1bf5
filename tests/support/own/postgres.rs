use std::path::{Path, PathBuf};

use super::process::Process;
use super::{Home, Settings, free_port};

/// A PostgreSQL server with the user `postgres`, who needs no password.
///
/// It keeps what a killed process has written, and would lose it in a power cut.
pub struct Postgres {
    process: Option<Process>,
    settings: Settings,
    port: u16,
    home: Home,
}

impl Postgres {
    /// Creates a cluster and starts its server.
    #[must_use]
    pub fn start(settings: Settings) -> Self {
        let server = Self::unborn(settings);
        let data = server.home.join("data");
        let options = "--username=postgres --auth=trust --encoding=UTF8 --locale=C.UTF-8 --no-sync";
        let mut arguments: Vec<&str> = options.split(' ').collect();
        arguments.extend(["-D", &data]);
        server.home.run(&program("initdb"), &arguments);
        server.born()
    }

    /// Copies this server and starts the copy as a standby that streams from it under this name. It has the same settings, and these.
    #[must_use]
    pub fn standby(&self, name: &str, settings: &Settings) -> Self {
        let mut all = self.settings.clone();
        all.directory.clone_from(&settings.directory);
        all.values.extend_from_slice(&settings.values);
        let standby = Self::unborn(all);
        let data = standby.home.join("data");
        let primary = format!(
            "host=127.0.0.1 port={} user=postgres application_name={name}",
            self.port
        );
        let options = "--checkpoint=fast --no-sync --write-recovery-conf --wal-method=stream";
        let mut arguments: Vec<&str> = options.split(' ').collect();
        arguments.extend(["-D", &data, "-d", &primary]);
        standby.home.run(&program("pg_basebackup"), &arguments);
        standby.born()
    }

    fn unborn(settings: Settings) -> Self {
        Self {
            process: None,
            home: Home::new(&settings, "postgres"),
            settings,
            port: free_port(),
        }
    }

    fn born(mut self) -> Self {
        self.run();
        self
    }

    /// Starts the server again, on the same data and port.
    pub fn run(&mut self) {
        self.try_run().unwrap_or_else(|error| panic!("{error}"));
    }

    /// As [`Postgres::run`], for those who know what may keep it from coming up.
    ///
    /// # Errors
    ///
    /// What is wrong, and the end of the log.
    pub fn try_run(&mut self) -> Result<(), String> {
        assert!(!self.is_running());
        let data = self.home.join("data");
        let mut words = vec![program("postgres"), "-D".to_owned(), data.clone()];
        let fixed = [
            ("listen_addresses", "127.0.0.1".to_owned()),
            ("port", self.port.to_string()),
            ("unix_socket_directories", self.home.join("")),
            ("fsync", "off".to_owned()),
        ];
        let fixed = fixed.map(|(name, value)| (name.to_owned(), value));
        for (name, value) in fixed.iter().chain(&self.settings.values) {
            words.extend(["-c".to_owned(), format!("{name}={value}")]);
        }
        let log = self.home.path.join("log");
        // Its immediate shutdown, which no client can hold up.
        let environment = &self.settings.environment;
        let mut process = Process::start("postgres", "QUIT", environment, &words, &log);
        let pid_file = Path::new(&data).join("postmaster.pid");
        let ready = process.ready(|id| is_ready(&pid_file, id));
        self.process = Some(process);
        ready.map_err(|what| format!("PostgreSQL: {what}\n{}", self.home.log()))
    }

    /// Connects to a database of it; `postgres` is always there.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let port = self.port;
        format!("postgres://postgres@127.0.0.1:{port}/{database}?sslmode=disable")
    }

    /// Its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory with its data (`data`) and its `log`.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.home.path
    }

    /// Whether its process is there.
    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(Process::is_running)
    }

    /// Ends it in good order. Open transactions are rolled back.
    pub fn stop(&mut self) {
        self.end("INT");
    }

    /// SIGKILL for all of its processes at once.
    pub fn kill(&mut self) {
        self.process.take().expect("it runs").kill();
    }

    /// An immediate shutdown, as a crash would be, and a start on the same data.
    pub fn restart_immediate(&mut self) {
        self.end("QUIT");
        self.run();
    }

    /// SIGSTOP for all of its processes: connections stay, and nobody answers.
    pub fn freeze(&self) {
        self.process.as_ref().expect("it runs").freeze();
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.process.as_ref().expect("it runs").thaw();
    }

    /// Makes a standby a primary, and waits until it is.
    pub fn promote(&self) {
        let data = self.home.join("data");
        self.home
            .run(&program("pg_ctl"), &["promote", "-w", "-D", &data]);
    }

    fn end(&mut self, signal: &str) {
        let mut process = self.process.take().expect("it runs");
        process.signal(signal);
        process.wait();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take()
            && process.is_running()
        {
            process.kill();
        }
    }
}

/// The server writes its process and its state into this file, lines 1 and 8.
fn is_ready(pid_file: &Path, id: u32) -> bool {
    let text = std::fs::read_to_string(pid_file).unwrap_or_default();
    let mut lines = text.lines();
    lines.next() == Some(&id.to_string())
        && lines
            .nth(6)
            .is_some_and(|state| matches!(state.trim(), "ready" | "standby"))
}

/// One of PostgreSQL's programs, which Debian keeps out of PATH: the newest version's.
fn program(name: &str) -> String {
    let versions = std::fs::read_dir("/usr/lib/postgresql");
    let newest = versions
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path())
        .filter(|version| version.join("bin/initdb").exists())
        .max_by_key(|version| version.file_name()?.to_str()?.parse::<u32>().ok());
    let bin: Option<PathBuf> = newest.map(|version| version.join("bin"));
    let bin = bin.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(|folder| folder.join("initdb").exists())
    });
    let bin = bin.expect(
        "PostgreSQL's programs are missing: run `./test.sh`, or install the package `postgresql`",
    );
    bin.join(name).to_str().unwrap().to_owned()
}
