//! A sink of HTTP/2: each request is answered by a stream of equal pieces.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use dyno_loadgen::clock::Nanos;
use h2::server::SendResponse;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

/// What an answer is made of.
#[derive(Debug, Clone)]
pub struct Streamed {
    /// Each is a piece of its own on the wire.
    pub pieces: usize,
    /// What all of them but the last are.
    pub piece: Bytes,
    /// What the last one is.
    pub last: Bytes,
    /// Time between two of them, ns; rounded to milliseconds.
    pub interval: Nanos,
    /// No answer has pieces before so many requests have come (0 and 1 hold nothing up).
    pub held_until: u64,
    /// Streams on a connection.
    pub streams: u32,
}

/// A server on a thread of its own, which ends when this is dropped.
pub struct Http2 {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    answer: Streamed,
    requests: AtomicU64,
    is_held: watch::Sender<bool>,
    closing: Notify,
}

impl Http2 {
    /// Starts it.
    ///
    /// # Errors
    /// The operating system's.
    pub fn start(address: SocketAddr, answer: Streamed) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(address))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            is_held: watch::channel(answer.held_until > 1).0,
            answer,
            requests: AtomicU64::new(0),
            closing: Notify::new(),
        });
        let seen = shared.clone();
        let thread = std::thread::Builder::new().name("net-sink".into()).spawn(move || {
            let closing = seen.clone();
            runtime.spawn(async move { accept(&listener, &seen).await });
            runtime.block_on(closing.closing.notified());
        })?;
        Ok(Self { address, shared, thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests that have come.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.shared.closing.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, shared.clone()));
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(shared.answer.streams);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
    while let Some(Ok((_request, respond))) = connection.accept().await {
        let requests = shared.requests.fetch_add(1, Ordering::Relaxed) + 1;
        if requests == shared.answer.held_until {
            shared.is_held.send_replace(false);
        }
        tokio::spawn(answer(respond, shared.clone()));
    }
}

async fn answer(mut respond: SendResponse<Bytes>, shared: Arc<Shared>) {
    let Streamed { pieces, ref piece, ref last, interval, .. } = shared.answer;
    let mut sending = match respond.send_response(http::Response::new(()), pieces == 0) {
        Ok(sending) if pieces > 0 => sending,
        _ => return,
    };
    if *shared.is_held.borrow() {
        let mut is_held = shared.is_held.subscribe();
        if is_held.wait_for(|is_held| !is_held).await.is_err() {
            return;
        }
    }
    for number in 1..=pieces {
        let is_last = number == pieces;
        let data = if is_last { last.clone() } else { piece.clone() };
        if sending.send_data(data, is_last).is_err() {
            return;
        }
        if !is_last && interval > 0 {
            tokio::time::sleep(Duration::from_nanos(interval)).await;
        }
    }
}
