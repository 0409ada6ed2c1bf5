use std::env;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write as _};

use crate::failure::{Code, Failure};

/// How a word stands out, on a terminal that shows colours.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Style {
    Bold,
    Faint,
    Red,
    Yellow,
    Green,
}

impl Style {
    /// For stdout.
    pub(crate) fn paint(self, text: &str) -> String {
        self.paint_if(has_colours(&io::stdout()), text)
    }

    fn paint_if(self, has_colours: bool, text: &str) -> String {
        if !has_colours {
            return text.to_owned();
        }
        let code = match self {
            Self::Bold => "1",
            Self::Faint => "2",
            Self::Red => "1;31",
            Self::Yellow => "1;33",
            Self::Green => "1;32",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// <https://no-color.org>
fn has_colours(stream: &impl IsTerminal) -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    stream.is_terminal()
        && !is_set("NO_COLOR")
        && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Says on stderr why the command failed.
pub(crate) fn complain(failure: &Failure) {
    // A no is nobody's mistake.
    if failure.code == Code::Declined {
        return note(failure);
    }
    let error = Style::Red.paint_if(has_colours(&io::stderr()), "error:");
    note(format_args!("{error} {failure}"));
}

/// A line on stderr, for people who watch. Nobody may.
pub(crate) fn note(line: impl Display) {
    let line = without_passwords(&line.to_string());
    writeln!(io::stderr().lock(), "{line}").ok();
}

/// Help, or what is wrong with the command line, which may repeat a URL that stands in the wrong place.
pub(crate) fn print_usage(error: &clap::Error) {
    let message = error.render();
    let (mut stdout, mut stderr) = (io::stdout().lock(), io::stderr().lock());
    let (stream, has_colours): (&mut dyn io::Write, _) = if error.use_stderr() {
        let has_colours = has_colours(&stderr);
        (&mut stderr, has_colours)
    } else {
        let has_colours = has_colours(&stdout);
        (&mut stdout, has_colours)
    };
    let message = if has_colours {
        message.ansi().to_string()
    } else {
        message.to_string()
    };
    write!(stream, "{}", without_passwords(&message)).ok();
}

/// Text in which the passwords of URLs are hidden.
fn without_passwords(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, url) = rest.split_at(at + "://".len());
        let end = url.find(|c: char| c.is_whitespace() || c.is_control() || "'`\"".contains(c));
        let (url, behind) = url.split_at(end.unwrap_or(url.len()));
        out.push_str(before);
        // The last `@`, since one in a password may not be escaped.
        match (url.find(':'), url.rfind('@')) {
            (Some(colon), Some(host)) if colon < host => {
                out.push_str(&url[..=colon]);
                out.push_str("***");
                out.push_str(&url[host..]);
            }
            _ => out.push_str(url),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// Whether somebody is there to be asked: what is asked goes to stderr, and the answer comes from stdin.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for a yes. Anything else is a no, as are the end of the input and Ctrl-C.
pub(crate) async fn ask(question: &str) -> bool {
    write!(io::stderr().lock(), "{question} [y/N] ").ok();
    let (sender, answer) = tokio::sync::oneshot::channel();
    // A read from a terminal cannot be cancelled, so that it gets a thread that may be left behind.
    std::thread::spawn(move || {
        let mut line = String::new();
        io::stdin().read_line(&mut line).ok();
        sender.send(line).ok();
    });
    let answer = tokio::select! {
        line = answer => line.unwrap_or_default(),
        _ = tokio::signal::ctrl_c() => String::new(),
    };
    if !answer.ends_with('\n') {
        note("");
    }
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden() {
        for (text, hidden) in [
            ("no URL: a@b", "no URL: a@b"),
            (
                "'postgres://u:pw@h/db' found",
                "'postgres://u:***@h/db' found",
            ),
            ("mysql://u:p:w@x@h/db and x", "mysql://u:***@h/db and x"),
            ("a://u:1@h, b://v:2@k", "a://u:***@h, b://v:***@k"),
            ("postgres://h:5432/db", "postgres://h:5432/db"),
            ("postgres://u@h:5432/db", "postgres://u@h:5432/db"),
        ] {
            assert_eq!(without_passwords(text), hidden);
        }
    }
}
