use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// How a client's messages are framed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// A type byte and a length, after an untyped start-up message.
    Postgres,
    /// A three-byte length and a sequence number, which is 0 in every command.
    MySql,
}

/// A TCP proxy before a server, which counts the requests that a client waits for, and can swallow the answer to one.
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    state: Arc<State>,
}

struct State {
    wire: Wire,
    round_trips: AtomicUsize,
    /// The statements seen, as far as they are text.
    statements: Mutex<Vec<String>>,
    /// Cut the connection after a request with this text went to the server, before its answer comes back.
    cut_answer_to: Mutex<Option<&'static str>>,
    cut: AtomicBool,
    /// Put an answer of nobody's before the answer to a request with this text.
    stale_answer_before: Mutex<Option<&'static str>>,
    /// Answers wait so long, so that the client always waits for them.
    delay: Duration,
}

impl Proxy {
    /// Starts one before the server of a URL. Every answer takes this long at least.
    pub async fn start(wire: Wire, url: &str, delay: Duration) -> Self {
        let server = address(url).to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State {
            wire,
            round_trips: AtomicUsize::new(0),
            statements: Mutex::default(),
            cut_answer_to: Mutex::default(),
            cut: AtomicBool::new(false),
            stale_answer_before: Mutex::default(),
            delay,
        });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.expect("the server");
                tokio::spawn(serve(client, server, Arc::clone(&shared)));
            }
        });
        Self { address, state }
    }

    /// The same URL, through the proxy.
    #[must_use]
    pub fn url(&self, url: &str) -> String {
        url.replacen(address(url), &self.address.to_string(), 1)
    }

    /// The round trips since the last call, and the statements in them.
    #[must_use]
    pub fn take(&self) -> (usize, Vec<String>) {
        let statements = std::mem::take(&mut *self.state.statements.lock().unwrap());
        (self.state.round_trips.swap(0, Ordering::SeqCst), statements)
    }

    /// Lets the next request that holds `text` reach the server, and cuts the connection in place of its answer.
    pub fn cut_answer_to(&self, text: &'static str) {
        self.state.cut.store(false, Ordering::SeqCst);
        *self.state.cut_answer_to.lock().unwrap() = Some(text);
    }

    /// Puts a MySQL client out of step: it gets an OK that answers nothing before the answer to the next request that holds `text`.
    pub fn stale_answer_before(&self, text: &'static str) {
        *self.state.stale_answer_before.lock().unwrap() = Some(text);
    }

    /// Whether that has happened.
    #[must_use]
    pub fn has_cut(&self) -> bool {
        self.state.cut.load(Ordering::SeqCst)
    }
}

/// The host and port of a URL.
fn address(url: &str) -> &str {
    let start = url.find('@').map_or(0, |at| at + 1);
    let rest = &url[start..];
    &rest[..rest.find(['/', '?']).unwrap_or(rest.len())]
}

async fn serve(client: TcpStream, server: TcpStream, state: Arc<State>) {
    client.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let fault = Arc::new(Fault::default());
    let answers = tokio::spawn(answers(
        from_server,
        to_client,
        Arc::clone(&fault),
        state.delay,
    ));
    requests(from_client, to_server, &state, &fault).await;
    answers.await.ok();
}

/// What is to happen to the next answer of a connection.
#[derive(Default)]
struct Fault {
    cut: AtomicBool,
    stale_answer: AtomicBool,
}

/// OK, of no rows and no id, within a transaction.
const MYSQL_OK: [u8; 11] = [7, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0];

/// Passes answers on until the connection is to be cut.
async fn answers(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    fault: Arc<Fault>,
    delay: Duration,
) {
    let mut buffer = vec![0; 65536];
    while let Ok(read @ 1..) = server.read(&mut buffer).await {
        tokio::time::sleep(delay).await;
        if fault.stale_answer.swap(false, Ordering::SeqCst) {
            client.write_all(&MYSQL_OK).await.ok();
        }
        if fault.cut.load(Ordering::SeqCst) || client.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

async fn requests(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    state: &State,
    fault: &Fault,
) {
    let mut pending = Vec::new();
    let mut started = state.wire == Wire::MySql;
    let mut buffer = vec![0; 65536];
    while let Ok(read @ 1..) = client.read(&mut buffer).await {
        pending.extend_from_slice(&buffer[..read]);
        while let Some(length) = frame(state.wire, started, &pending) {
            let message: Vec<u8> = pending.drain(..length).collect();
            if started {
                count(state, &message);
            }
            started = true;
            let text = String::from_utf8_lossy(&message);
            let mut before = state.stale_answer_before.lock().unwrap();
            if before.is_some_and(|wanted| text.contains(wanted)) {
                *before = None;
                fault.stale_answer.store(true, Ordering::SeqCst);
            }
            let mut wanted = state.cut_answer_to.lock().unwrap();
            if wanted.is_some_and(|wanted| text.contains(wanted)) {
                *wanted = None;
                fault.cut.store(true, Ordering::SeqCst);
                state.cut.store(true, Ordering::SeqCst);
            }
        }
        if server.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// The length of the first whole message, if it is there.
fn frame(wire: Wire, started: bool, bytes: &[u8]) -> Option<usize> {
    let length = match wire {
        Wire::MySql => {
            let header = bytes.get(..4)?;
            4 + u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize
        }
        Wire::Postgres if started => {
            let header = bytes.get(1..5)?;
            1 + u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize
        }
        Wire::Postgres => {
            let header = bytes.get(..4)?;
            u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize
        }
    };
    (bytes.len() >= length).then_some(length)
}

/// A client waits after a simple query or a sync (PostgreSQL), after every command but the closing of a statement (MySQL).
fn count(state: &State, message: &[u8]) {
    let is_round_trip = match state.wire {
        Wire::Postgres => matches!(message[0], b'Q' | b'S'),
        Wire::MySql => message[3] == 0 && message.get(4) != Some(&0x19),
    };
    let body = &message[5.min(message.len())..];
    let is_text = match state.wire {
        Wire::Postgres => matches!(message[0], b'Q' | b'P'),
        Wire::MySql => message[3] == 0 && matches!(message.get(4), Some(0x03 | 0x16)),
    };
    if is_text {
        let text = String::from_utf8_lossy(body).replace('\0', " ");
        state
            .statements
            .lock()
            .unwrap()
            .push(text.trim().to_owned());
    }
    if is_round_trip {
        state.round_trips.fetch_add(1, Ordering::SeqCst);
    }
}
