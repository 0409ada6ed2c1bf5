//! The worker processes: started, ordered about, stopped, killed, and started again.

use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::worker;

/// A line of a worker's, by its place.
pub(crate) struct Line {
    pub(crate) place: usize,
    pub(crate) text: String,
}

/// The line after a worker's last.
const GONE: &str = "gone";

/// One place for a worker, which is filled again whenever it becomes empty.
pub(crate) struct Place {
    number: usize,
    args: worker::Args,
    random: Rng,
    lines: mpsc::UnboundedSender<Line>,
    state: State,
    /// How many messages it had in work when it was last asked, if it has answered.
    pub(crate) in_work: Option<usize>,
}

enum State {
    Runs(Box<Runs>),
    /// Until then: the next one starts.
    Empty(Instant),
    /// It was told to, and has.
    Finished,
}

struct Runs {
    child: Child,
    stdin: ChildStdin,
    /// Stopped until then, and then continued, or killed.
    stopped: Option<(Instant, bool)>,
    /// Killed on purpose.
    is_doomed: bool,
    /// Everything that it has said was heard, so that it is known whether it was killed on purpose.
    is_silent: bool,
}

impl Place {
    pub(crate) fn new(
        number: usize,
        args: worker::Args,
        lines: mpsc::UnboundedSender<Line>,
    ) -> Self {
        Self {
            number,
            random: Rng::with_seed(args.own_seed),
            args,
            lines,
            state: State::Empty(Instant::now()),
            in_work: None,
        }
    }

    /// What is due: a start, the end of a stop, the burial of a process that has ended. `Err` names an end that nobody has ordered.
    pub(crate) fn tend(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        match &mut self.state {
            State::Finished => {}
            State::Empty(until) => {
                if now >= *until {
                    self.start()?;
                }
            }
            State::Runs(runs) => {
                if runs.is_silent
                    && let Some(status) = runs.child.try_wait()?
                {
                    let is_doomed = runs.is_doomed;
                    let pause = Duration::from_millis(self.random.u64(20..200));
                    self.state = State::Empty(now + pause);
                    anyhow::ensure!(
                        is_doomed,
                        "worker {} ended by itself: {status}",
                        self.number
                    );
                } else if let Some((until, is_killed)) = runs.stopped
                    && now >= until
                {
                    runs.stopped = None;
                    runs.is_doomed |= is_killed;
                    let signal = if is_killed {
                        Signal::KILL
                    } else {
                        Signal::CONT
                    };
                    runs.signal(signal);
                }
            }
        }
        Ok(())
    }

    fn start(&mut self) -> anyhow::Result<()> {
        self.args.own_seed = self.random.u64(..);
        let args = &self.args;
        let mut words: Vec<String> = [
            ("--database-url", args.database_url.clone()),
            ("--broker-url", args.broker_url.clone()),
            ("--queue", args.queue.clone()),
            ("--seed", args.seed.to_string()),
            ("--own-seed", args.own_seed.to_string()),
            ("--pool", args.pool.to_string()),
            ("--prefetch", args.prefetch.to_string()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect();
        let flags = [
            ("--reverse", args.reverse),
            ("--prune", args.prune),
            ("--calm", args.calm),
        ];
        words.extend(
            flags
                .iter()
                .filter(|(_, is_set)| *is_set)
                .map(|(name, _)| (*name).to_owned()),
        );
        // Also when this process is killed, and the worker stopped.
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(std::env::current_exe()?)
            .arg("worker")
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("setpriv: run `./test.sh`, or install the package `util-linux`")?;
        let stdin = child.stdin.take().context("no stdin")?;
        let stdout = child.stdout.take().context("no stdout")?;
        let (number, sender) = (self.number, self.lines.clone());
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            loop {
                let text = lines.next_line().await.ok().flatten();
                let is_last = text.is_none();
                let line = Line {
                    place: number,
                    text: text.unwrap_or_else(|| GONE.to_owned()),
                };
                if sender.send(line).is_err() || is_last {
                    break;
                }
            }
        });
        self.state = State::Runs(Box::new(Runs {
            child,
            stdin,
            stopped: None,
            is_doomed: false,
            is_silent: false,
        }));
        Ok(())
    }

    /// What the worker has said of itself.
    pub(crate) fn hear(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (word, &mut self.state) {
            (GONE, State::Runs(runs)) => runs.is_silent = true,
            ("status", _) => self.in_work = rest.parse().ok(),
            ("kill", State::Runs(runs)) => runs.is_doomed = true,
            ("stop", State::Runs(runs)) => {
                let time = Duration::from_millis(self.random.u64(500..5000));
                runs.stopped = Some((Instant::now() + time, self.random.u8(..3) == 0));
            }
            ("finished", State::Runs(runs)) => {
                runs.is_doomed = true;
                self.state = State::Finished;
            }
            _ => {}
        }
    }

    /// Whether somebody is there to take an order.
    pub(crate) fn is_at_work(&self) -> bool {
        matches!(&self.state, State::Runs(runs) if runs.stopped.is_none() && !runs.is_doomed)
    }

    pub(crate) fn has_finished(&self) -> bool {
        matches!(self.state, State::Finished)
    }

    /// Gives an order. If the worker is about to end, it is lost.
    pub(crate) async fn tell(&mut self, order: &str) {
        if let State::Runs(runs) = &mut self.state {
            runs.stdin
                .write_all(format!("{order}\n").as_bytes())
                .await
                .ok();
        }
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let State::Runs(runs) = &mut self.state {
            runs.is_doomed = true;
            runs.signal(Signal::KILL);
        }
    }

    /// From now on, and in those that are started anew.
    pub(crate) async fn be_calm(&mut self) {
        self.args.calm = true;
        if let State::Runs(runs) = &mut self.state
            && runs.stopped.take().is_some()
        {
            runs.signal(Signal::CONT);
        }
        self.tell("calm").await;
    }
}

impl Runs {
    fn signal(&self, signal: Signal) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(id) = id.and_then(Pid::from_raw) {
            // It may have ended a moment ago.
            let _ = kill_process(id, signal);
        }
    }
}
