//! Sockets: admission of connections, TLS, and the end of connections.

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use dyno_tensors::files;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::guard::GuardedStream;
use super::state::State;
use super::{Listener, http};

/// Reason why TLS cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// A file is missing, or is not a PEM file of the right kind.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        why: String,
    },
    /// Certificate and key do not match.
    #[error("certificate and key are unusable: {0}")]
    Pair(String),
}

/// Loads TLS with a chain of certificates and a key, both from PEM files. With `clients`, a PEM file of
/// authorities, each client needs a certificate of one of them.
///
/// # Errors
/// [`TlsError`], which names the file.
pub fn tls(
    certificates: &Path,
    key: &Path,
    clients: Option<&Path>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let wrong = |path: &Path, why: &dyn fmt::Display| TlsError::File {
        path: path.to_owned(),
        why: why.to_string(),
    };
    let read = |path: &Path| {
        let bytes = files::read(path).map_err(|error| wrong(path, &error))?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
        let chain = chain.map_err(|error| wrong(path, &error))?;
        if chain.is_empty() {
            return Err(wrong(path, &"expected a certificate in PEM, found none"));
        }
        Ok(chain)
    };
    let chain = read(certificates)?;
    let bytes = files::read(key).map_err(|error| wrong(key, &error))?;
    let pair = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| wrong(key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = match clients {
        None => WebPkiClientVerifier::no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in read(path)? {
                roots.add(authority).map_err(|error| wrong(path, &error))?;
            }
            WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider))
                .build()
                .map_err(|error| wrong(path, &error))?
        }
    };
    let made = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder.with_client_cert_verifier(verifier).with_single_cert(chain, pair)
        });
    let mut config = made.map_err(|error| TlsError::Pair(error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A socket of the runtime.
pub(super) struct Acceptor {
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
}

impl Acceptor {
    pub fn new(listener: Listener) -> io::Result<Self> {
        listener.socket.set_nonblocking(true)?;
        let socket = TcpListener::from_std(listener.socket)?;
        Ok(Self { socket, tls: listener.tls.map(TlsAcceptor::from) })
    }
}

/// Open sockets and their connections.
pub(super) struct OpenSockets {
    graceful: Arc<GracefulShutdown>,
    accepting: Vec<JoinHandle<()>>,
}

impl OpenSockets {
    pub fn new(state: &Arc<State>, acceptors: Vec<Acceptor>) -> Self {
        let graceful = Arc::new(GracefulShutdown::new());
        let places = Arc::new(Semaphore::new(state.settings.limits.connections));
        let accept = |acceptor| {
            let (state, places) = (Arc::clone(state), Arc::clone(&places));
            tokio::spawn(accept(state, acceptor, places, Arc::clone(&graceful)))
        };
        let accepting = acceptors.into_iter().map(accept).collect();
        Self { graceful, accepting }
    }

    /// Closes the sockets; returns when all connections have ended, each after its current
    /// requests.
    pub async fn close(self) {
        for task in self.accepting {
            task.abort();
            // It ends at once, and its state is dropped.
            let _ = task.await;
        }
        let graceful = Arc::into_inner(self.graceful).expect("whoever accepted has ended");
        graceful.shutdown().await;
    }
}

/// Pause between attempts to accept when the operating system has no resources for a connection.
const NO_ROOM: Duration = Duration::from_millis(50);

async fn accept(
    state: Arc<State>,
    acceptor: Acceptor,
    places: Arc<Semaphore>,
    graceful: Arc<GracefulShutdown>,
) {
    loop {
        let Ok((stream, _)) = acceptor.socket.accept().await else {
            tokio::time::sleep(NO_ROOM).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            state.counts.connections_refused.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let (state, tls, watcher) = (Arc::clone(&state), acceptor.tls.clone(), graceful.watcher());
        tokio::spawn(async move {
            state.counts.connections.fetch_add(1, Ordering::Relaxed);
            connect(&state, stream, tls, watcher, place).await;
            state.counts.connections.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

async fn connect(
    state: &Arc<State>,
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    watcher: Watcher,
    _place: OwnedSemaphorePermit,
) {
    // Answers are small and complete: waiting for more data gains nothing.
    let _ = stream.set_nodelay(true);
    let asked = Arc::new(AtomicBool::new(false));
    let talk = async {
        match tls {
            None => talk(state, stream, watcher, &asked).await,
            Some(tls) => {
                if let Ok(stream) = tls.accept(stream).await {
                    talk(state, stream, watcher, &asked).await;
                }
            }
        }
    };
    // Closes idle connections and incomplete requests: hyper limits only heads of HTTP/1, and only
    // once it knows the protocol.
    let (mut talk, mut late) = (pin!(talk), pin!(tokio::time::sleep(state.settings.limits.head)));
    poll_fn(|cx| {
        let is_over = talk.as_mut().poll(cx).is_ready()
            || (!asked.load(Ordering::Relaxed) && late.as_mut().poll(cx).is_ready());
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Maximum number of concurrent streams of an HTTP/2 connection.
const STREAMS: u32 = 1_024;
/// Flow-control window of an HTTP/2 connection, in bytes.
const WINDOW: u32 = 4 << 20;
/// Memory for the unread head of a request over HTTP/1, in bytes.
const HEADS: usize = 64 << 10;
/// Flow-control window of a stream, in bytes.
const STREAM_WINDOW: u32 = 1 << 20;
/// Period of pings on an idle HTTP/2 connection.
const PING: Duration = Duration::from_secs(30);

async fn talk<S>(state: &Arc<State>, stream: S, watcher: Watcher, asked: &Arc<AtomicBool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = state.settings.limits;
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(state.settings.limits.head)
        .max_buf_size(HEADS)
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_connection_window_size(WINDOW)
        .initial_stream_window_size(STREAM_WINDOW)
        .keep_alive_interval(PING)
        .keep_alive_timeout(state.settings.limits.head);
    let service = service_fn(|request: hyper::Request<Incoming>| {
        asked.store(true, Ordering::Relaxed);
        let state = Arc::clone(state);
        async move { Ok::<_, Infallible>(http::answer(state, request).await) }
    });
    let connection =
        server.serve_connection(TokioIo::new(GuardedStream::new(stream, limits)), service);
    // An early end of a connection concerns only its client, which notices it.
    let _ = watcher.watch(connection.into_owned()).await;
}
