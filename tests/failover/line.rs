use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A line to a server, which can be cut and led to another one, as a virtual address is.
pub(crate) struct Line {
    pub(crate) address: SocketAddr,
    port: Arc<AtomicU16>,
    cut: watch::Sender<()>,
}

impl Line {
    /// To the server at this port. What it says takes so long at least.
    pub(crate) async fn to_server(port: u16, delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let port = Arc::new(AtomicU16::new(port));
        let (cut, watched) = watch::channel(());
        let current = Arc::clone(&port);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let mut watched = watched.clone();
                watched.mark_unchanged();
                let port = current.load(Ordering::SeqCst);
                tokio::spawn(async move {
                    tokio::select! {
                        () = serve(client, port, delay) => {}
                        _ = watched.changed() => {}
                    }
                });
            }
        });
        Self { address, port, cut }
    }

    /// Cuts all connections, with what is under way in them.
    pub(crate) fn cut(&self) {
        self.cut.send_replace(());
    }

    /// Cuts all connections, and leads the next ones to another server.
    pub(crate) fn lead_to(&self, port: u16) {
        self.port.store(port, Ordering::SeqCst);
        self.cut();
    }
}

async fn serve(client: TcpStream, port: u16, delay: Duration) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else {
        return;
    };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = carry(from_client, to_server, Duration::ZERO) => {}
        () = carry(from_server, to_client, delay) => {}
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) {
    let mut buffer = vec![0; 65536];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
