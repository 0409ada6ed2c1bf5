//! A NATS server of the run's own.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tempfile::TempDir;

/// A running server. Killed when it is dropped.
pub(crate) struct Nats {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl Nats {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let mut folder = tempfile::Builder::new();
        let folder = folder.prefix("idem-soak-nats.");
        // In memory where there is such a place: it outlives a killed server too, and a busy disk would hold the broker up for minutes.
        let folder = folder
            .tempdir_in("/dev/shm")
            .or_else(|_| folder.tempdir())?;
        let port = idem_tests::own::free_port();
        let process = spawn(port, folder.path())?;
        Ok(Self {
            process,
            port,
            _folder: folder,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        // Fails only if it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts it and waits until it answers. To be called from the main thread: the kernel takes the end of the thread that has started a child
/// for the death of its parent, at which the child is to die.
fn spawn(port: u16, store: &Path) -> anyhow::Result<Child> {
    const REMEDY: &str = "run `./test.sh`, or install the package `nats-server`";
    let path = std::env::var("PATH").unwrap_or_default();
    let mut process = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "nats-server"])
        .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
        .arg(store)
        // Where a user's PATH does not look.
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context(REMEDY)?;
    let end = Instant::now() + Duration::from_secs(20);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        if process.try_wait()?.is_some() || Instant::now() > end {
            bail!("nats-server does not start: {REMEDY}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(process)
}
