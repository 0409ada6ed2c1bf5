//! The program, and what it answered.

use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use idem_tests::examples::{PATIENCE, text};
use serde_json::Value;

/// Built with the features of the suites, so that nothing is built twice.
static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    // A test is <target>/<profile>/deps/<name>.
    let test = std::env::current_exe().unwrap();
    let target = test.ancestors().nth(3).unwrap();
    let output = Command::new(env!("CARGO"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap())
        .args(["build", "--locked", "--workspace", "--all-features"])
        .args(["--bin", "idem", "--target-dir"])
        .arg(target)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    target
        .join("debug")
        .join(format!("idem{}", std::env::consts::EXE_SUFFIX))
});

/// The program with these arguments, in an environment that says nothing of databases and terminals.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(&*PROGRAM);
    command.args(arguments);
    for variable in ["DATABASE_URL", "NO_COLOR", "PGUSER", "PGPASSWORD", "PGHOST"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null());
    command
}

/// What it printed, and its exit code.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Answer {
    /// Exit code 0, and nothing to complain of.
    #[track_caller]
    pub(crate) fn done(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        assert_eq!(self.stderr, "", "{self:?}");
        self.stdout
    }

    /// The one document on stdout.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// This exit code, nothing on stdout, and a message that says all of this.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} is not in {self:?}");
        }
        assert!(!self.stderr.contains("panicked"), "{self:?}");
        assert!(!self.stderr.contains("geheim"), "a password: {self:?}");
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().expect("it was not killed"),
            stdout: text(&output.stdout).to_owned(),
            stderr: text(&output.stderr).to_owned(),
        }
    }
}

/// Runs it to its end.
pub(crate) fn run(arguments: &[&str]) -> Answer {
    command(arguments).output().unwrap().into()
}

/// The program in a pseudo-terminal of its own (`script` of util-linux), where somebody types.
pub(crate) struct Terminal {
    child: Child,
    screen: Arc<Mutex<String>>,
}

impl Terminal {
    pub(crate) fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let quoted: Vec<String> = [PROGRAM.to_str().unwrap()]
            .iter()
            .chain(arguments)
            .map(|argument| format!("'{}'", argument.replace('\'', "'\\''")))
            .collect();
        let line = format!("stty cols 120 rows 40; exec {}", quoted.join(" "));
        let mut command = Command::new("script");
        command.args(["-q", "-e", "-f", "-c", &line, "/dev/null"]);
        command.env_remove("DATABASE_URL").env_remove("NO_COLOR");
        command.env("TERM", "xterm").env("SHELL", "/bin/sh");
        command.envs(environment.iter().copied());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("`script` of util-linux");
        let screen = Arc::new(Mutex::new(String::new()));
        let mut output = child.stdout.take().unwrap();
        let shared = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..length]);
                shared.lock().unwrap().push_str(&text);
            }
        });
        Self { child, screen }
    }

    /// What was shown so far.
    pub(crate) fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    pub(crate) fn wait_for(&self, text: &str) {
        let start = Instant::now();
        while !self.screen().contains(text) {
            assert!(start.elapsed() < PATIENCE, "{text:?}: {}", self.screen());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn type_in(&mut self, text: &str) {
        let keyboard = self.child.stdin.as_mut().unwrap();
        keyboard.write_all(text.as_bytes()).unwrap();
        keyboard.flush().unwrap();
    }

    /// Its exit code, and everything that was shown.
    pub(crate) fn end(mut self) -> (i32, String) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < PATIENCE, "{}", self.screen());
            std::thread::sleep(Duration::from_millis(10));
        };
        // The reader is a moment behind.
        std::thread::sleep(Duration::from_millis(100));
        (status.code().unwrap(), self.screen())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Fails only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
