//! What goes by between a client and its database, as far as the proxy has to know: at which moment of a delivery a request is, and which
//! errors come back.

use std::collections::HashMap;

/// The moments of a delivery that the proxy tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Moment {
    Begin,
    Claim,
    /// The claims of a batch.
    Claims,
    Body,
    Commit,
}

impl Moment {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Begin => "BEGIN",
            Self::Claim => "the claim",
            Self::Claims => "the claims of a batch",
            Self::Body => "the body",
            Self::Commit => "COMMIT",
        }
    }

    /// Of a statement's text. Batches are told from single claims by what only theirs hold.
    fn of(sql: &str) -> Option<Self> {
        if sql.starts_with("BEGIN") {
            Some(Self::Begin)
        } else if sql.contains("COMMIT") {
            Some(Self::Commit)
        } else if sql.contains("INSERT INTO processed_messages") {
            let is_batch = sql.contains("unnest") || sql.contains("repeats");
            Some(if is_batch { Self::Claims } else { Self::Claim })
        } else if ["ledger", "accounts", "charges", "versions", "projections"]
            .iter()
            .any(|table| sql.contains(table))
        {
            Some(Self::Body)
        } else {
            None
        }
    }
}

/// How a client's messages are framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// A type byte and a length, after an untyped start-up message.
    Postgres,
    /// A three-byte length and a sequence number, which is 0 in every command.
    MySql,
    /// Not looked into: a broker's.
    Opaque,
}

/// The moment of a prepared statement, if it is at one.
type Prepared = Option<Moment>;

/// One connection, as it was read so far.
pub(crate) struct Reader {
    wire: Wire,
    requests: Vec<u8>,
    answers: Vec<u8>,
    has_started: bool,
    /// Prepared statements: by name on PostgreSQL, by number on MySQL.
    prepared: HashMap<Vec<u8>, Prepared>,
    /// The statement that MySQL is preparing.
    preparing: Option<Prepared>,
    /// What the client waits for.
    now: Option<Moment>,
}

impl Reader {
    pub(crate) fn new(wire: Wire) -> Self {
        Self {
            wire,
            requests: Vec::new(),
            answers: Vec::new(),
            has_started: wire != Wire::Postgres,
            prepared: HashMap::new(),
            preparing: None,
            now: None,
        }
    }

    /// Bytes from the client. Returns the moments at which statements in them are to be run.
    pub(crate) fn request(&mut self, bytes: &[u8]) -> Vec<Moment> {
        let mut moments = Vec::new();
        if self.wire == Wire::Opaque {
            return moments;
        }
        self.requests.extend_from_slice(bytes);
        while let Some(length) = frame(self.wire, self.has_started, &self.requests) {
            let message: Vec<u8> = self.requests.drain(..length).collect();
            if !self.has_started {
                self.has_started = true;
                continue;
            }
            let moment = match self.wire {
                Wire::Postgres => self.postgres_request(&message),
                _ => self.mysql_request(&message),
            };
            if let Some(moment) = moment {
                self.now = Some(moment);
                moments.push(moment);
            }
        }
        moments
    }

    fn postgres_request(&mut self, message: &[u8]) -> Option<Moment> {
        let body = &message[5..];
        match message[0] {
            b'Q' => {
                self.now = None;
                Moment::of(&String::from_utf8_lossy(body))
            }
            // Parse: the statement's name, its text.
            b'P' => {
                let mut parts = body.split(|byte| *byte == 0);
                let name = parts.next()?.to_vec();
                let sql = String::from_utf8_lossy(parts.next()?).into_owned();
                self.prepared.insert(name, Moment::of(&sql));
                None
            }
            // Bind: the portal, the statement's name.
            b'B' => {
                let name = body.split(|byte| *byte == 0).nth(1)?;
                self.now = None;
                *self.prepared.get(name)?
            }
            _ => None,
        }
    }

    fn mysql_request(&mut self, message: &[u8]) -> Option<Moment> {
        if message[3] != 0 {
            return None;
        }
        let body = message.get(5..)?;
        match message[4] {
            // COM_QUERY
            0x03 => {
                self.now = None;
                Moment::of(&String::from_utf8_lossy(body))
            }
            // COM_STMT_PREPARE
            0x16 => {
                self.preparing = Some(Moment::of(&String::from_utf8_lossy(body)));
                None
            }
            // COM_STMT_EXECUTE
            0x17 => {
                self.now = None;
                *self.prepared.get(body.get(..4)?)?
            }
            _ => None,
        }
    }

    /// Bytes from the server. Returns the errors in them, by their codes, with the moments that they answer.
    pub(crate) fn answer(&mut self, bytes: &[u8]) -> Vec<(Option<Moment>, String)> {
        let mut errors = Vec::new();
        if self.wire == Wire::Opaque {
            return errors;
        }
        self.answers.extend_from_slice(bytes);
        while let Some(length) = frame(self.wire, true, &self.answers) {
            let message: Vec<u8> = self.answers.drain(..length).collect();
            let code = match self.wire {
                Wire::Postgres => postgres_error(&message),
                _ => self.mysql_answer(&message),
            };
            errors.extend(code.map(|code| (self.now, code)));
        }
        errors
    }

    fn mysql_answer(&mut self, message: &[u8]) -> Option<String> {
        let body = message.get(4..)?;
        // The first packet of an answer follows the request's.
        if message[3] == 1
            && let Some(moment) = self.preparing.take()
            && body.first() == Some(&0)
        {
            self.prepared.insert(body.get(1..5)?.to_vec(), moment);
            return None;
        }
        match body {
            [0xff, low, high, ..] => Some(u16::from_le_bytes([*low, *high]).to_string()),
            _ => None,
        }
    }
}

/// The field `C` of an error.
fn postgres_error(message: &[u8]) -> Option<String> {
    if message[0] != b'E' {
        return None;
    }
    let mut fields = message[5..].split(|byte| *byte == 0);
    let code = fields.find(|field| field.first() == Some(&b'C'))?;
    Some(String::from_utf8_lossy(&code[1..]).into_owned())
}

/// The length of the first whole message, if it is there.
fn frame(wire: Wire, has_started: bool, bytes: &[u8]) -> Option<usize> {
    let length = match wire {
        Wire::MySql => {
            let header = bytes.get(..4)?;
            4 + u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize
        }
        _ if has_started => {
            let header = bytes.get(1..5)?;
            1 + u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize
        }
        _ => {
            let header = bytes.get(..4)?;
            u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize
        }
    };
    (bytes.len() >= length).then_some(length)
}
