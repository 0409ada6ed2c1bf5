//! A TCP proxy between a worker and a server, which cuts, delays or swallows at the moments that the supervisor chooses.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

use crate::wire::{Moment, Reader, Wire};

/// What the proxy does to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Trick {
    /// The request does not reach the server.
    CutBefore,
    /// The server has answered, and the client does not learn it.
    LoseAnswer,
    /// The answer comes late.
    Delay(Duration),
    /// Nothing passes in either direction for so long, and then the connection is cut.
    BlackHole(Duration),
}

impl Trick {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CutBefore => "cut before",
            Self::LoseAnswer => "answer lost to",
            Self::Delay(_) => "answer late to",
            Self::BlackHole(_) => "black hole at",
        }
    }
}

/// What a proxy has seen or done.
#[derive(Debug, Clone)]
pub(crate) enum Seen {
    Done(Trick, Moment),
    /// The client has given up while its answer was held back.
    GaveUp(Moment),
    /// All connections there were have been cut.
    Cut,
    /// An error of the server's.
    Error(Option<Moment>, String),
}

/// A proxy before one server.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    wire: Wire,
    server: String,
    traps: Mutex<Vec<(Trick, Moment)>>,
    cut: broadcast::Sender<()>,
    seen: mpsc::UnboundedSender<Seen>,
}

impl Proxy {
    /// Starts one before `server`, a host and a port.
    pub(crate) async fn start(
        wire: Wire,
        server: String,
        seen: mpsc::UnboundedSender<Seen>,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            wire,
            server,
            traps: Mutex::default(),
            cut: broadcast::Sender::new(1),
            seen,
        });
        let state = Arc::clone(&shared);
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((client, _)) => {
                        tokio::spawn(serve(client, Arc::clone(&state)));
                    }
                    Err(_) => sleep(Duration::from_millis(10)).await,
                }
            }
        });
        Ok(Self { address, shared })
    }

    /// Plays the trick on the next request of that moment.
    pub(crate) fn set_trap(&self, trick: Trick, moment: Moment) {
        if let Ok(mut traps) = self.shared.traps.lock() {
            traps.push((trick, moment));
        }
    }

    /// Forgets what was not played.
    pub(crate) fn clear_traps(&self) {
        if let Ok(mut traps) = self.shared.traps.lock() {
            traps.clear();
        }
    }

    /// Cuts every connection there is.
    pub(crate) fn cut(&self) {
        // Fails where there is none.
        if self.shared.cut.send(()).is_ok() {
            self.shared.tell(Seen::Cut);
        }
    }
}

impl Shared {
    fn trap(&self, moments: &[Moment]) -> Option<(Trick, Moment)> {
        let mut traps = self.traps.lock().ok()?;
        let place = traps
            .iter()
            .position(|(_, moment)| moments.contains(moment))?;
        Some(traps.remove(place))
    }

    fn tell(&self, seen: Seen) {
        // Nobody listens when the run is over.
        let _ = self.seen.send(seen);
    }
}

/// How the answers of a connection are treated.
enum Answers {
    Pass,
    Lose(Moment),
    Late(Duration, Moment),
}

/// Until either end closes, or the connection is cut.
async fn serve(mut client: TcpStream, shared: Arc<Shared>) {
    let mut cut = shared.cut.subscribe();
    // A server that is down refuses, and so does its proxy.
    let Ok(mut server) = TcpStream::connect(&shared.server).await else {
        return;
    };
    client.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    let mut reader = Reader::new(shared.wire);
    let mut answers = Answers::Pass;
    let (mut request, mut answer) = (vec![0; 32_768], vec![0; 32_768]);
    loop {
        tokio::select! {
            _ = cut.recv() => return,
            read = client.read(&mut request) => {
                let Ok(read @ 1..) = read else { return };
                let moments = reader.request(&request[..read]);
                match shared.trap(&moments) {
                    Some((trick @ Trick::CutBefore, moment)) => {
                        return shared.tell(Seen::Done(trick, moment));
                    }
                    Some((trick @ Trick::BlackHole(time), moment)) => {
                        shared.tell(Seen::Done(trick, moment));
                        return sleep(time).await;
                    }
                    Some((Trick::LoseAnswer, moment)) => answers = Answers::Lose(moment),
                    Some((Trick::Delay(time), moment)) => answers = Answers::Late(time, moment),
                    None => {}
                }
                if server.write_all(&request[..read]).await.is_err() { return }
            }
            read = server.read(&mut answer) => {
                let Ok(read @ 1..) = read else { return };
                for (moment, code) in reader.answer(&answer[..read]) {
                    shared.tell(Seen::Error(moment, code));
                }
                match answers {
                    Answers::Pass => {}
                    Answers::Lose(moment) => {
                        return shared.tell(Seen::Done(Trick::LoseAnswer, moment));
                    }
                    Answers::Late(time, moment) => {
                        shared.tell(Seen::Done(Trick::Delay(time), moment));
                        let Some(requests) = hold_back(&mut client, time).await else {
                            return shared.tell(Seen::GaveUp(moment));
                        };
                        answers = Answers::Pass;
                        reader.request(&requests);
                        if server.write_all(&requests).await.is_err() {
                            return;
                        }
                    }
                }
                if client.write_all(&answer[..read]).await.is_err() { return }
            }
        }
    }
}

/// Waits. Returns what the client has sent meanwhile, unless it has closed its connection.
async fn hold_back(client: &mut TcpStream, time: Duration) -> Option<Vec<u8>> {
    let end = Instant::now() + time;
    let mut requests = Vec::new();
    loop {
        tokio::select! {
            () = sleep_until(end) => return Some(requests),
            read = client.read_buf(&mut requests) => {
                if read.unwrap_or_default() == 0 {
                    return None;
                }
            }
        }
    }
}
