//! A server with broken, empty, late and false answers, for tests of clients.
//!
//! Tests of the client need servers with exactly known bytes and pauses. Each *mode* is one
//! behavior of a server that speaks the OpenAI interface over HTTP/1.1. Most modes are rows of two
//! tables, [`streams`] and [`whole`]; [`rules`] choose among the rows by request. The server reads
//! and writes sockets with a thread for each connection, and shares no code with the clients that
//! it tests.

mod request;
mod rules;
mod script;
mod streams;
mod whole;

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use dyno_loadgen::clock::{Clock, MILLISECOND, Nanos};

use request::Incoming;
pub use request::Request;
use rules::{Decision, Memory, Play};
use script::Step;

/// Returns the names of all modes, sorted.
pub fn modes() -> Vec<&'static str> {
    rules::modes()
}

/// Source of the mode of a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Mode {
    /// The first segment of the path, such as `/ok/chat/completions`.
    #[default]
    Path,
    /// One mode for every path.
    Every(String),
    /// A mode for this share of the requests, spread evenly, and correct answers for the others.
    Share(String, f64),
}

impl Mode {
    /// Reads `path`, a mode, or `MODE:SHARE%`. A mode that selects requests itself, such as `hang`,
    /// then selects that share of them.
    ///
    /// # Errors
    /// An unknown mode or an invalid share.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "path" {
            return Ok(Self::Path);
        }
        let (mode, share) = match text.split_once(':') {
            Some((mode, share)) => (mode, Some(share)),
            None => (text, None),
        };
        if !modes().contains(&mode) {
            return Err(format!("unknown mode `{mode}`"));
        }
        let Some(share) = share else { return Ok(Self::Every(mode.to_owned())) };
        let percent: Option<f64> = share.strip_suffix('%').and_then(|share| share.parse().ok());
        match percent.filter(|percent| *percent > 0.0 && *percent <= 100.0) {
            Some(percent) => Ok(Self::Share(mode.to_owned(), percent / 100.0)),
            None => Err(format!("expected MODE:SHARE%, such as hang:5%, found `{text}`")),
        }
    }
}

/// Counts of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Requests without a complete answer.
    pub in_flight: u64,
    /// Maximum number of concurrent requests.
    pub max_in_flight: u64,
    /// Connections that were accepted.
    pub connections: u64,
    /// Open connections.
    pub open: u64,
    /// Maximum number of open connections.
    pub max_open: u64,
}

/// A running server. Its threads end when it is dropped.
#[derive(Debug)]
pub struct FaultServer {
    /// Address of the server.
    pub address: SocketAddr,
    shared: Arc<ServerState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct ServerState {
    mode: Mode,
    clock: Clock,
    memory: Mutex<Memory>,
    counts: Mutex<Counts>,
    requests: Mutex<Vec<Request>>,
    is_over: Mutex<bool>,
    over: Condvar,
}

/// How often an idle connection checks whether the server ends.
const GLANCE: Duration = Duration::from_millis(50);
/// Maximum number of requests kept for [`FaultServer::requests`].
const KEPT: usize = 1_000;

impl FaultServer {
    /// Starts a server whose mode is the first segment of each path.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn start(address: impl ToSocketAddrs) -> io::Result<Self> {
        Self::start_in(address, Mode::Path)
    }

    /// Starts a server with this source of modes.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn start_in(address: impl ToSocketAddrs, mode: Mode) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ServerState {
            mode,
            clock: Clock::start(),
            memory: Mutex::default(),
            counts: Mutex::default(),
            requests: Mutex::default(),
            is_over: Mutex::new(false),
            over: Condvar::new(),
        });
        let accepting = shared.clone();
        let thread = std::thread::Builder::new().name("faults".into()).spawn(move || {
            for stream in listener.incoming() {
                if accepting.is_over() {
                    return;
                }
                let Ok(stream) = stream else {
                    // Without resources for a connection, the next attempt fails as well.
                    std::thread::park_timeout(GLANCE);
                    continue;
                };
                let shared = accepting.clone();
                // If the system starts no further thread, the connection is closed.
                let _ = std::thread::Builder::new().spawn(move || shared.serve(&stream));
            }
        })?;
        Ok(Self { address, shared, thread: Some(thread) })
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        *lock(&self.shared.counts)
    }

    /// Returns the first requests, at most 1,000.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared.requests).clone()
    }
}

impl Drop for FaultServer {
    fn drop(&mut self) {
        *lock(&self.shared.is_over) = true;
        self.shared.over.notify_all();
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Locks a mutex, whose content is consistent even if a thread panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the connection is used for another request.
#[derive(PartialEq)]
enum ConnectionUse {
    Request,
    Nothing,
}

impl ServerState {
    fn is_over(&self) -> bool {
        *lock(&self.is_over)
    }

    /// Sleeps for this span.
    ///
    /// # Errors
    /// If the server ends meanwhile.
    fn pause(&self, span: Nanos) -> io::Result<()> {
        let until = self.clock.now() + span;
        let mut is_over = lock(&self.is_over);
        loop {
            let left = until.saturating_sub(self.clock.now());
            if *is_over {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if left == 0 {
                return Ok(());
            }
            let waited = self.over.wait_timeout(is_over, Duration::from_nanos(left));
            is_over = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Answers requests of a connection one after the other.
    fn serve(&self, stream: &TcpStream) {
        self.count(|counts| {
            counts.connections += 1;
            counts.open += 1;
            counts.max_open = counts.max_open.max(counts.open);
        });
        let is_set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(GLANCE)));
        let goes_on = || !self.is_over();
        let mut incoming = Incoming::new(stream, &goes_on);
        while is_set.is_ok()
            && let Some(request) = incoming.next()
        {
            if request.first_segment() == "stat" {
                if (&*stream).write_all(&self.stat()).is_err() {
                    break;
                }
                continue;
            }
            self.count(|counts| {
                counts.requests += 1;
                counts.in_flight += 1;
                counts.max_in_flight = counts.max_in_flight.max(counts.in_flight);
            });
            self.keep(&request);
            let next = self.answer(stream, &request);
            self.count(|counts| counts.in_flight -= 1);
            if !matches!(next, Ok(ConnectionUse::Request)) {
                break;
            }
        }
        self.count(|counts| counts.open -= 1);
    }

    /// Keeps a request. Before its answer, so that requests that follow one another are in order.
    fn keep(&self, request: &Request) {
        let mut kept = lock(&self.requests);
        if kept.len() < KEPT {
            kept.push(request.clone());
        }
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut lock(&self.counts));
    }

    /// Returns the counts as JSON, and resets the maxima and the number of requests.
    fn stat(&self) -> Vec<u8> {
        let mut counts = lock(&self.counts);
        let Counts { requests, in_flight, max_in_flight, connections, open, max_open } = *counts;
        (counts.requests, counts.max_in_flight, counts.max_open) = (0, 0, open);
        let body = format!(
            r#"{{"inflight": {in_flight}, "max_inflight": {max_in_flight}, "n": {requests}, "connections": {connections}, "open": {open}, "max_open": {max_open}}}"#
        );
        let length = body.len();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length:";
        format!("{head} {length}\r\n\r\n{body}").into_bytes()
    }

    fn answer(&self, mut stream: &TcpStream, request: &Request) -> io::Result<ConnectionUse> {
        let segment = request.first_segment();
        let mode = match &self.mode {
            Mode::Path => segment,
            // The target of a redirection is answered.
            Mode::Every(mode) if mode == "redirect" && segment == "ok" => "ok",
            Mode::Every(mode) | Mode::Share(mode, _) => mode,
        };
        let share = match &self.mode {
            Mode::Share(_, share) => Some(*share),
            Mode::Path | Mode::Every(_) => None,
        };
        let Decision { wait, play, closes } =
            lock(&self.memory).decide((mode, share), request, self.clock.now());
        if wait > 0 {
            self.pause(wait)?;
        }
        match play {
            Play::Stream(answer) => answer.play(&mut |step| match step {
                Step::Write(bytes) => stream.write_all(&bytes),
                Step::Pause(ms) => self.pause(ms * MILLISECOND),
            })?,
            Play::Whole(answer) => stream.write_all(&answer.bytes())?,
            Play::Redirect => {
                let rest = request.path.strip_prefix("/redirect").unwrap_or(&request.path);
                let head = "HTTP/1.1 307 Temporary Redirect\r\nLocation: /ok";
                stream
                    .write_all(format!("{head}{rest}\r\nContent-Length: 0\r\n\r\n").as_bytes())?;
            }
            Play::Silence => self.pause(Nanos::MAX / 4)?,
            Play::Reset => return self::reset(stream).map(|()| ConnectionUse::Nothing),
        }
        Ok(if closes { ConnectionUse::Nothing } else { ConnectionUse::Request })
    }
}

/// Makes the close of the connection a reset.
fn reset(stream: &TcpStream) -> io::Result<()> {
    tokio::net::TcpSocket::from_std_stream(stream.try_clone()?).set_zero_linger()
}
