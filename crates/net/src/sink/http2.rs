//! A sink for HTTP/2: it answers each request with a stream of equal pieces.

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

/// Content and timing of an answer.
#[derive(Debug, Clone)]
pub struct StreamedAnswer {
    /// Number of pieces, each sent separately.
    pub pieces: usize,
    /// Content of all pieces but the last.
    pub piece: Bytes,
    /// Content of the last piece.
    pub last: Bytes,
    /// Time between two pieces, in ns; rounded to milliseconds.
    pub interval: Nanos,
    /// Answers have no pieces before this many requests have come (0 and 1 delay nothing).
    pub held_until: u64,
    /// Maximum number of streams on a connection.
    pub streams: u32,
}

/// A server on its own thread, stopped on drop.
pub struct Http2 {
    address: SocketAddr,
    shared: Arc<SinkState>,
    thread: Option<JoinHandle<()>>,
}

struct SinkState {
    answer: StreamedAnswer,
    requests: AtomicU64,
    is_held: watch::Sender<bool>,
    closing: Notify,
}

impl Http2 {
    /// Starts the server.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn start(address: SocketAddr, answer: StreamedAnswer) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(address))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(SinkState {
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

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of received requests.
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

async fn accept(listener: &TcpListener, shared: &Arc<SinkState>) {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, shared.clone()));
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<SinkState>) {
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

async fn answer(mut respond: SendResponse<Bytes>, shared: Arc<SinkState>) {
    let StreamedAnswer { pieces, ref piece, ref last, interval, .. } = shared.answer;
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
