use std::io::{ErrorKind, Write as _};

use serde::Serialize;

use crate::failure::{Code, Failure};

/// A command's answer, for people and for programs.
pub(crate) struct Report {
    code: Code,
    text: String,
    json: String,
}

impl Report {
    pub(crate) fn new(text: impl Into<String>, document: &impl Serialize) -> Result<Self, Failure> {
        let json = serde_json::to_string_pretty(document)
            .map_err(|error| Failure::new(Code::Failed, format!("no JSON: {error}")))?;
        Ok(Self {
            code: Code::Done,
            text: text.into(),
            json,
        })
    }

    pub(crate) fn code(mut self, code: Code) -> Self {
        self.code = code;
        self
    }

    /// A reader that has gone, as in `idem status | head -1`, has seen enough.
    pub(crate) fn print(self, is_json: bool) -> Result<Code, Failure> {
        let mut output = if is_json { self.json } else { self.text };
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        let mut stdout = std::io::stdout().lock();
        let written = stdout
            .write_all(output.as_bytes())
            .and_then(|()| stdout.flush());
        match written {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::new(
                Code::Failed,
                format!("the answer could not be written: {error}"),
            )),
            _ => Ok(self.code),
        }
    }
}
