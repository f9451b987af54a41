//! A server of models over the Open Inference Protocol (HTTP and gRPC) and the OpenAI interface.
//!
//! It is the node of a run of the network division: its [name](Settings::node) says "Network
//! SUT" and is fetched over the wire. Connections are tasks of a runtime; models compute on
//! threads of their own, behind a [`Queue`] with the batching policy of
//! [`dyno_sut::batch`]. Everything that a client can make grow has a limit, and whoever is
//! turned away is told so in the words of the protocol.

mod body;
mod counts;
mod grpc;
mod http;
mod infer;
mod listen;
mod openai;
mod queue;
mod refusal;
mod state;
mod tokens;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

pub use listen::{TlsError, tls};
pub use queue::{Queue, Station};
pub use tokens::{Pace, Text, Tokens};

use state::State;

/// What a server is told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name of this node, unique among the nodes of a system.
    pub node: String,
    /// What a client may ask for.
    pub limits: Limits,
    /// Whether answers are compressed for clients that say they take it; those that come in
    /// parts are not.
    pub compresses: bool,
}

/// What a client may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; one more is closed.
    pub connections: usize,
    /// Bytes of a body, before and after it is decompressed.
    pub body: usize,
    /// How long a request may take, from its head to its answer.
    pub request: Duration,
    /// How long a connection may be without the whole head of a request: at its begin, and
    /// between two of HTTP/1.
    pub head: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            body: 64 << 20,
            request: Duration::from_secs(60),
            head: Duration::from_secs(60),
        }
    }
}

/// A model under a name.
pub struct Model {
    /// As it stands in paths and requests.
    pub name: String,
    /// What answers.
    pub answers: Answers,
}

/// What answers the requests for a model.
pub enum Answers {
    /// Tensors of tensors, over the Open Inference Protocol.
    Tensors(Queue),
    /// Text of text, over the OpenAI interface.
    Text(Tokens),
}

/// Where a server listens. Every protocol is spoken at every address.
pub struct Listener {
    /// Bound.
    pub socket: TcpListener,
    /// TLS, where it is asked for; see [`tls`].
    pub tls: Option<Arc<rustls::ServerConfig>>,
}

/// How the end of a server was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// Everything that was accepted is answered.
    Answered,
    /// So many requests were not, in the time that there was.
    Left(usize),
}

/// A server that runs.
pub struct Server {
    addresses: Vec<SocketAddr>,
    orders: mpsc::UnboundedSender<(Duration, oneshot::Sender<Drained>)>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts to answer.
    ///
    /// # Errors
    /// The operating system's, of threads and sockets.
    pub fn start(
        settings: Settings,
        models: Vec<Model>,
        listeners: Vec<Listener>,
    ) -> io::Result<Self> {
        let addresses = listeners.iter().map(|listener| listener.socket.local_addr());
        let addresses = addresses.collect::<io::Result<_>>()?;
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

    /// Where it listens, in the order of the listeners.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Is not ready any more, answers what it has accepted, refuses what comes, and ends; at
    /// the latest after `most`.
    #[must_use]
    pub fn drain(mut self, most: Duration) -> Drained {
        let (tell, told) = oneshot::channel();
        // Where the thread is gone, nothing is left that could be answered.
        let drained = match self.orders.send((most, tell)) {
            Ok(()) => told.blocking_recv().unwrap_or(Drained::Answered),
            Err(_) => Drained::Answered,
        };
        // Models that still compute would be waited for.
        if let (Drained::Answered, Some(thread)) = (drained, self.thread.take()) {
            let _ = thread.join();
        }
        drained
    }
}

/// Threads for sockets and codecs: models need the others.
fn io_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 2).clamp(1, 8)
}

fn run(
    runtime: &Runtime,
    state: Arc<State>,
    acceptors: Vec<listen::Acceptor>,
    mut asked: mpsc::UnboundedReceiver<(Duration, oneshot::Sender<Drained>)>,
) {
    runtime.block_on(async move {
        let open = listen::Open::new(&state, acceptors);
        // A server that is dropped ends like one that nobody has patience with.
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
            Ok(()) => Drained::Answered,
            Err(_) => Drained::Left(state.in_flight()),
        };
        if let Some(tell) = tell {
            let _ = tell.send(drained);
        }
    });
}
