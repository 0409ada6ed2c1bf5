//! Examples as their readers run them: built by the command in their documentation, started, watched and killed.

use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a test waits for what has to happen.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Builds an example from the root of the repository: its name, and the further arguments that its documentation gives.
#[must_use]
pub fn build(example: &[&str]) -> PathBuf {
    // A test is <target>/<profile>/deps/<name>.
    let test = std::env::current_exe().unwrap();
    let target = test.ancestors().nth(3).unwrap();
    let output = Command::new(env!("CARGO"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap())
        .args(["build", "--locked", "--example"])
        .args(example)
        .arg("--target-dir")
        .arg(target)
        // Neither may be needed to compile `query!`, and neither may get in its way.
        .env_remove("SQLX_OFFLINE")
        .env("DATABASE_URL", "postgres://nobody@127.0.0.1:1/nowhere")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    target
        .join("debug/examples")
        .join(format!("{}{}", example[0], std::env::consts::EXE_SUFFIX))
}

/// Output as text.
#[must_use]
pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// What an example printed that succeeded and complained of nothing.
#[must_use]
pub fn succeeded(output: &Output) -> &str {
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    stdout
}

/// Exit code 1, and the message.
#[must_use]
pub fn failed(output: &Output) -> &str {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr.strip_prefix("error: ").unwrap().trim_end()
}

/// A running example. Dropped, it is killed.
pub struct Process {
    child: Child,
    output: Receiver<String>,
    readers: Vec<JoinHandle<()>>,
    lines: Vec<String>,
}

impl Process {
    /// Starts it. What it prints is printed along under this name, so that a failed test shows what it said.
    #[must_use]
    pub fn start(command: &mut Command, run: &str) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, output) = mpsc::channel();
        let stdout = child.stdout.take().unwrap();
        let stderr = child.stderr.take().unwrap();
        let readers = vec![
            read(stdout, run.to_owned(), Some(sender)),
            read(stderr, format!("{run}, stderr"), None),
        ];
        Self {
            child,
            output,
            readers,
            lines: Vec::new(),
        }
    }

    /// Waits for a line on stdout and returns it.
    pub fn wait_for(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> &str {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.output.recv_timeout(left);
            let line = line.unwrap_or_else(|error| panic!("waited for {what}: {error}"));
            let found = wanted(&line);
            self.lines.push(line);
            if found {
                return self.lines.last().unwrap();
            }
        }
    }

    /// SIGKILL. Returns everything that the process has printed.
    pub fn kill(&mut self) -> Vec<String> {
        // This is SIGKILL on Unix, which no process can handle.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.finish()
    }

    /// Asks it to stop, by `INT` (Ctrl-C) or `TERM`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.unwrap().success());
    }

    /// Waits for its end, which has to be in good order. Returns everything that it has printed.
    pub fn wait(&mut self) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                Instant::now() < deadline,
                "it has not ended in {PATIENCE:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(status.success(), "{status}");
        self.finish()
    }

    fn finish(&mut self) -> Vec<String> {
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        self.lines.extend(self.output.try_iter());
        std::mem::take(&mut self.lines)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads to the end.
fn read(
    output: impl Read + Send + 'static,
    run: String,
    sender: Option<Sender<String>>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let line = line.unwrap();
            println!("[{run}] {line}");
            if let Some(sender) = &sender {
                // Nobody listens any more once the test has failed.
                let _ = sender.send(line);
            }
        }
    })
}
