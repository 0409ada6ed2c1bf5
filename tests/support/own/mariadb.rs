use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use super::process::Process;
use super::{Home, Settings, free_port};

/// A MariaDB server with the user `root`, who needs no password, and an empty database `test`.
///
/// It keeps what a killed process has written, and would lose it in a power cut.
pub struct MariaDb {
    process: Option<Process>,
    settings: Settings,
    port: u16,
    home: Home,
}

impl MariaDb {
    /// Creates its data and starts it.
    #[must_use]
    pub fn start(settings: Settings) -> Self {
        let mut server = Self::prepare(settings);
        server.run(&[]);
        server
    }

    /// Creates its data, to be started by [`MariaDb::run`].
    #[must_use]
    pub fn prepare(settings: Settings) -> Self {
        let server = Self::empty(settings);
        let data = format!("--datadir={}", server.home.join("data"));
        // This also makes the database `test`.
        let options = "--no-defaults --auth-root-authentication-method=normal --skip-name-resolve --innodb-flush-method=nosync";
        let mut arguments: Vec<&str> = options.split(' ').collect();
        arguments.push(&data);
        server.home.run(&program("mariadb-install-db"), &arguments);
        server
    }

    /// With no data at all, which a node of Galera gets from another one.
    #[must_use]
    pub fn empty(settings: Settings) -> Self {
        let home = Home::new(&settings, "mysql");
        home.run("mkdir", &[&home.join("data")]);
        Self {
            process: None,
            settings,
            port: free_port(),
            home,
        }
    }

    /// Starts it (again), on the same data and port, this once with further arguments.
    pub fn run(&mut self, arguments: &[&str]) {
        self.try_run(arguments)
            .unwrap_or_else(|error| panic!("{error}"));
    }

    /// As [`MariaDb::run`], for those who know what may keep it from coming up.
    ///
    /// # Errors
    ///
    /// What is wrong, and the end of the log.
    pub fn try_run(&mut self, arguments: &[&str]) -> Result<(), String> {
        assert!(!self.is_running());
        let mut words = vec![program("mariadbd"), "--no-defaults".to_owned()];
        let fixed = [
            ("datadir", self.home.join("data")),
            ("tmpdir", self.home.join("")),
            ("socket", self.home.join("socket")),
            ("pid-file", self.home.join("pid")),
            ("port", self.port.to_string()),
            ("bind-address", "127.0.0.1".to_owned()),
            ("skip-name-resolve", "ON".to_owned()),
            ("innodb-flush-method", "nosync".to_owned()),
        ];
        let fixed = fixed.map(|(name, value)| (name.to_owned(), value));
        for (name, value) in fixed.iter().chain(&self.settings.values) {
            words.push(format!("--{name}={value}"));
        }
        words.extend(arguments.iter().map(|&argument| argument.to_owned()));
        let log = self.home.path.join("log");
        let environment = &self.settings.environment;
        let mut process = Process::start("mysql", "KILL", environment, &words, &log);
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        let ready = process.ready(|_| greets(address));
        self.process = Some(process);
        ready.map_err(|what| format!("MariaDB: {what}\n{}", self.home.log()))
    }

    /// Connects to a database of it; `test` is there from the start.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let port = self.port;
        format!("mysql://root@127.0.0.1:{port}/{database}?ssl-mode=disabled")
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

    /// Ends it in good order.
    pub fn stop(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.signal("TERM");
        process.wait();
    }

    /// SIGKILL for all of its processes at once.
    pub fn kill(&mut self) {
        self.process.take().expect("it runs").kill();
    }

    /// SIGKILL, and a start on the same data.
    pub fn restart_immediate(&mut self) {
        self.kill();
        self.run(&[]);
    }

    /// SIGSTOP for all of its processes: connections stay, and nobody answers.
    pub fn freeze(&self) {
        self.process.as_ref().expect("it runs").freeze();
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.process.as_ref().expect("it runs").thaw();
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take()
            && process.is_running()
        {
            process.kill();
        }
    }
}

/// Whether the server sends a client its greeting, whose first byte after the header is the protocol's version.
fn greets(address: SocketAddr) -> bool {
    let patience = Duration::from_secs(1);
    let Ok(mut stream) = TcpStream::connect_timeout(&address, patience) else {
        return false;
    };
    stream.set_read_timeout(Some(patience)).unwrap();
    let mut greeting = [0; 5];
    stream.read_exact(&mut greeting).is_ok() && greeting[4] == 10
}

fn program(name: &str) -> String {
    super::program(name).unwrap_or_else(|| {
        panic!("{name} is missing: run `./test.sh`, or install the package `mariadb-server`")
    })
}
