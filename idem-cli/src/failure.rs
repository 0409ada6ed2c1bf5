use std::fmt;
use std::process::ExitCode;

/// What a script sees of how it went. The list in `--help` and the man page is [`Code::TABLE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    Done = 0,
    No = 1,
    Usage = 2,
    NoConnection = 3,
    NoTable = 4,
    NotAllowed = 5,
    Busy = 6,
    Declined = 7,
    Failed = 8,
    /// As shells report what Ctrl-C has ended.
    Interrupted = 130,
}

impl Code {
    pub(crate) const TABLE: &str = "\
Exit codes:
    0  done
    1  the answer is no: `doctor` found an error, or `show` and `forget` found no such claim
    2  the command line is wrong, or lacks something
    3  no connection: server, port, login or database
    4  the table of claims is missing or out of date: run `idem migrate`
    5  not allowed: the database's user lacks a right, or the database is read-only
    6  somebody else is at it: another pruner, or a lock that was not given up in time
    7  declined at the prompt
    8  anything else that failed; the message says what
  130  stopped by Ctrl-C

Messages go to stderr. With --json, stdout has one JSON document, or nothing if the command failed.";
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        ExitCode::from(code as u8)
    }
}

/// Why a command did not do what it was asked for.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    /// What is wrong, and why it matters where that is not plain.
    what: String,
    /// What to do.
    remedy: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: Code, what: impl Into<String>) -> Self {
        Self {
            code,
            what: what.into(),
            remedy: None,
        }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(Code::Usage, what)
    }

    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// The second line begins with `hint:`, as clap's own messages do.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.remedy {
            Some(remedy) => write!(f, "\n  hint: {remedy}"),
            None => Ok(()),
        }
    }
}
