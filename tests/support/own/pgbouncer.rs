use std::fmt::Write as _;
use std::net::TcpStream;

use super::process::Process;
use super::{Home, Postgres, Settings, free_port};

/// A pgbouncer in transaction mode before a PostgreSQL server.
pub struct PgBouncer {
    process: Option<Process>,
    port: u16,
    home: Home,
}

impl PgBouncer {
    /// Starts it, with these settings of its section `[pgbouncer]`.
    #[must_use]
    pub fn start(server: &Postgres, settings: &Settings) -> Self {
        let home = Home::new(settings, "postgres");
        let port = free_port();
        let users = home.join("users");
        let mut file = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {users}\npool_mode = transaction\n\
             ignore_startup_parameters = extra_float_digits\n",
            server.port()
        );
        for (name, value) in &settings.values {
            writeln!(file, "{name} = {value}").unwrap();
        }
        std::fs::write(home.join("settings"), file).unwrap();
        std::fs::write(users, "\"postgres\" \"\"\n").unwrap();
        let mut pooler = Self {
            process: None,
            port,
            home,
        };
        pooler.run();
        pooler
    }

    /// Starts it again.
    pub fn run(&mut self) {
        assert!(self.process.is_none());
        let words = [program(), self.home.join("settings")];
        let log = self.home.path.join("log");
        let mut process = Process::start("postgres", "KILL", &[], &words, &log);
        let address = ("127.0.0.1", self.port);
        let ready = process.ready(|_| TcpStream::connect(address).is_ok());
        self.process = Some(process);
        ready.unwrap_or_else(|what| panic!("pgbouncer: {what}\n{}", self.home.log()));
    }

    /// Connects to a database of the server.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let port = self.port;
        format!("postgres://postgres@127.0.0.1:{port}/{database}?sslmode=disable")
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.take().expect("it runs").kill();
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take()
            && process.is_running()
        {
            process.kill();
        }
    }
}

fn program() -> String {
    super::program("pgbouncer").unwrap_or_else(|| {
        panic!("pgbouncer is missing: run `./test.sh`, or install the package `pgbouncer`")
    })
}
