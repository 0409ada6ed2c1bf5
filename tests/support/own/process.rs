use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

/// How long a server may take to come up or to go down.
const PATIENCE: Duration = Duration::from_mins(3);

/// A server's process and those that it has started.
pub(super) struct Process(Child);

impl Process {
    /// Starts a server, as `user` if this is root, with its output in a file. Should this process be killed, the kernel sends it `at_death`.
    pub(super) fn start(
        user: &str,
        at_death: &str,
        environment: &[(String, String)],
        words: &[String],
        log: &Path,
    ) -> Self {
        // The change of the user would clear the signal, so that it is set by a second call. The variables are for the server alone.
        let mut all = as_user(user);
        all.extend(["setpriv", "--pdeathsig", at_death, "env"].map(str::to_owned));
        all.extend(
            environment
                .iter()
                .map(|(name, value)| format!("{name}={value}")),
        );
        all.extend_from_slice(words);
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(&all[0]);
        command
            .args(&all[1..])
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            // Ctrl-C in a terminal is for the test.
            .process_group(0);
        Self(spawn(command))
    }

    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(super) fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Signals the server itself, which passes it on as it sees fit.
    pub(super) fn signal(&self, name: &str) {
        signal(name, &[self.id()]);
    }

    /// Waits for its end.
    pub(super) fn wait(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while self.is_running() {
            assert!(Instant::now() < deadline, "the server does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// SIGKILL for all of its processes.
    pub(super) fn kill(&mut self) {
        let family = self.freeze();
        signal("KILL", &family);
        self.wait();
        // The others are not children of this process, so that their end can only be watched.
        let deadline = Instant::now() + PATIENCE;
        while family.iter().any(|&id| is_alive(id)) {
            assert!(Instant::now() < deadline, "{family:?} do not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// SIGSTOP for all of its processes, parents before their children, so that none is started meanwhile. Returns them.
    pub(super) fn freeze(&self) -> Vec<u32> {
        let mut family = Vec::new();
        let mut generation = vec![self.id()];
        while !generation.is_empty() {
            signal("STOP", &generation);
            family.extend(&generation);
            generation = children(&generation);
        }
        family
    }

    /// SIGCONT for all of its processes.
    pub(super) fn thaw(&self) {
        signal("CONT", &self.freeze());
    }

    /// Polls until the server is ready. `Err` if it has ended, or takes too long.
    pub(super) fn ready(&mut self, is_ready: impl Fn(u32) -> bool) -> Result<(), &'static str> {
        let deadline = Instant::now() + PATIENCE;
        let id = self.id();
        while !is_ready(id) {
            if !self.is_running() {
                return Err("the server has ended");
            }
            if Instant::now() > deadline {
                return Err("the server does not come up");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// The words that run a command as this user: servers refuse to run as root.
pub(super) fn as_user(user: &str) -> Vec<String> {
    if !is_root() {
        return Vec::new();
    }
    let (user, group) = (format!("--reuid={user}"), format!("--regid={user}"));
    ["setpriv", &user, &group, "--init-groups"]
        .map(str::to_owned)
        .to_vec()
}

pub(super) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    static IS_ROOT: LazyLock<bool> =
        LazyLock::new(|| std::fs::metadata("/proc/self").unwrap().uid() == 0);
    *IS_ROOT
}

/// Runs a program to its end, which has to be a good one.
pub(super) fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program)
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| {
            panic!("{program}: {error}; run `./test.sh`, which installs what is missing")
        });
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

type Order = (Command, Sender<std::io::Result<Child>>);

/// Starts a process from a thread that lives as long as this process: the kernel takes the end of the *thread* that started a child for the
/// death of its parent, and tests and tokio's workers come and go.
fn spawn(command: Command) -> Child {
    static SPAWNER: LazyLock<Mutex<Sender<Order>>> = LazyLock::new(|| {
        let (orders, incoming) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in incoming {
                answer.send(command.spawn()).unwrap();
            }
        });
        Mutex::new(orders)
    });
    let (answer, child) = mpsc::channel();
    SPAWNER.lock().unwrap().send((command, answer)).unwrap();
    child.recv().unwrap().unwrap_or_else(|error| {
        panic!("setpriv: {error}; run `./test.sh`, or install the package `util-linux`")
    })
}

/// Those that are gone already are none of its business.
fn signal(name: &str, ids: &[u32]) {
    let ids = ids.iter().map(u32::to_string);
    Command::new("kill")
        .args(["-s", name])
        .args(ids)
        .stderr(Stdio::null())
        .status()
        .unwrap();
}

/// The processes that these have started.
fn children(parents: &[u32]) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&id| stat(id).is_some_and(|(_, parent)| parents.contains(&parent)))
        .collect()
}

fn is_alive(id: u32) -> bool {
    stat(id).is_some_and(|(state, _)| state != "Z")
}

/// The state and the parent of a process, which follow its name in parentheses.
fn stat(id: u32) -> Option<(String, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
}
