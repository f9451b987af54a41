//! A server of models over the Open Inference Protocol (HTTP and gRPC) and the OpenAI interface.
//!
//! It is the node of a run of the network division: its [name](Settings::node) includes "Network
//! SUT" and is fetched over the wire. Connections are tasks of a runtime; models compute on their
//! own threads, behind a [`Queue`] with the batching policy of [`dyno_sut::batch`]. Everything that
//! a client can make grow has a limit, and a refused client gets an error of its protocol.

mod access;
mod body;
mod budget;
mod counts;
mod grpc;
mod guard;
mod http;
mod infer;
mod listen;
mod openai;
mod queue;
mod refusal;
mod sequences;
mod state;
mod tokens;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

pub use access::Token;
pub use listen::{TlsError, tls};
pub use queue::{Queue, Station};
pub use sequences::SequenceLimits;
pub use tokens::{Pace, Text, Tokens};

use state::State;

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name of this node, unique among the nodes of a system.
    pub node: String,
    /// Limits of clients.
    pub limits: Limits,
    /// Whether answers are compressed for clients that accept it; streamed answers never are.
    pub compresses: bool,
    /// Token that clients must send, as `authorization: Bearer TOKEN`. Health needs none.
    pub token: Option<Token>,
}

/// Limits of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of connections; further ones are closed.
    pub connections: usize,
    /// Maximum bytes of a body, before and after decompression.
    pub body: usize,
    /// Bytes of memory for the contents of all requests. The first 64 KiB of each are not counted, of as
    /// many requests as connections are permitted.
    pub memory: usize,
    /// Time limit of a request, from its head to its answer, and of a write to a client that does not
    /// read.
    pub request: Duration,
    /// Time limit for the complete head of a request: from the start of the connection, and between
    /// two requests of HTTP/1.
    pub head: Duration,
    /// How long a connection of HTTP/2 may be without requests and answers, also within a stream.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            body: 64 << 20,
            memory: 1 << 30,
            request: Duration::from_secs(60),
            head: Duration::from_secs(60),
            idle: Duration::from_secs(600),
        }
    }
}

/// A model under a name.
pub struct Model {
    /// Name in paths and requests.
    pub name: String,
    /// Engine of the answers.
    pub answers: Answers,
}

/// Engine of a model.
pub enum Answers {
    /// Tensors for tensors, over the Open Inference Protocol.
    Tensors(Queue),
    /// Text for text, over the OpenAI interface.
    Text(Tokens),
}

/// Address of a server. Every protocol is served at every address.
pub struct Listener {
    /// Bound socket.
    pub socket: TcpListener,
    /// TLS configuration from [`tls`]; `None` means no TLS.
    pub tls: Option<Arc<rustls::ServerConfig>>,
}

/// Result of the shutdown of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainOutcome {
    /// All accepted requests were answered.
    Answered,
    /// This many requests were not answered within the time limit.
    Left(usize),
}

/// A running server.
pub struct Server {
    addresses: Vec<SocketAddr>,
    orders: mpsc::UnboundedSender<(Duration, oneshot::Sender<DrainOutcome>)>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts the server.
    ///
    /// # Errors
    /// Errors of the operating system for threads and sockets.
    pub fn start(
        settings: Settings,
        models: Vec<Model>,
        listeners: Vec<Listener>,
    ) -> io::Result<Self> {
        let addresses = listeners.iter().map(|listener| listener.socket.local_addr());
        let addresses = addresses.collect::<io::Result<_>>()?;
        // One for each thread of sockets, and one that waits for the end.
        check_threads(io_threads() + 1)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(io_threads())
            .thread_name("serve")
            .enable_all()
            .build()?;
        let state = Arc::new(State::new(settings, models));
        let mut acceptors = Vec::new();
        {
            let _inside = runtime.enter();
            for listener in listeners {
                acceptors.push(listen::Acceptor::new(listener)?);
            }
        }
        let (orders, asked) = mpsc::unbounded_channel();
        let thread = std::thread::Builder::new()
            .name("serve-main".into())
            .spawn(move || run(&runtime, state, acceptors, asked))?;
        Ok(Self { addresses, orders, thread: Some(thread) })
    }

    /// Returns the addresses, in the order of the listeners.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Stops being ready, answers accepted requests, refuses new ones, and ends after at most
    /// `most`.
    #[must_use]
    pub fn drain(mut self, most: Duration) -> DrainOutcome {
        let (tell, told) = oneshot::channel();
        // If the thread is gone, no request is left to answer.
        let drained = match self.orders.send((most, tell)) {
            Ok(()) => told.blocking_recv().unwrap_or(DrainOutcome::Answered),
            Err(_) => DrainOutcome::Answered,
        };
        // Joining would wait for models that still compute.
        if let (DrainOutcome::Answered, Some(thread)) = (drained, self.thread.take()) {
            let _ = thread.join();
        }
        drained
    }
}

/// Returns the number of threads for sockets and codecs: models need the others.
fn io_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 2).clamp(1, 8)
}

/// Checks that the operating system starts this many threads: tokio would panic.
fn check_threads(count: usize) -> io::Result<()> {
    std::thread::scope(|scope| {
        let mut ends = Vec::with_capacity(count);
        for _ in 0..count {
            let (end, wait) = std::sync::mpsc::channel::<()>();
            // Nothing is sent: the thread ends when `ends` is dropped.
            std::thread::Builder::new().spawn_scoped(scope, move || _ = wait.recv())?;
            ends.push(end);
        }
        Ok(())
    })
}

fn run(
    runtime: &Runtime,
    state: Arc<State>,
    acceptors: Vec<listen::Acceptor>,
    mut asked: mpsc::UnboundedReceiver<(Duration, oneshot::Sender<DrainOutcome>)>,
) {
    runtime.block_on(async move {
        let open = listen::OpenSockets::new(&state, acceptors);
        // Dropping a server ends it without waiting.
        let (most, tell) = match asked.recv().await {
            Some((most, tell)) => (most, Some(tell)),
            None => (Duration::ZERO, None),
        };
        state.begin_drain();
        let answered = tokio::time::timeout(most, async {
            state.landed().await;
            open.close().await;
        });
        let drained = match answered.await {
            Ok(()) => DrainOutcome::Answered,
            Err(_) => DrainOutcome::Left(state.in_flight()),
        };
        if let Some(tell) = tell {
            let _ = tell.send(drained);
        }
    });
}
