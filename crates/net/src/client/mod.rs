//! A server as a system under test.
//!
//! One sample is one request. Over HTTP/1.1 the issuing thread itself writes it to a connection
//! that is free, so that the time it was due and the time it is on the wire differ by one
//! system call; where none is free it waits, which is counted. Over HTTP/2 it becomes a stream.

mod accepted;
mod answering;
mod backoff;
mod gaps;
mod http1;
mod http2;
mod kernel;
mod ledger;
mod library;
mod parsers;
mod seen;
mod start_error;
mod tenants;

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};

use dyno_loadgen::clock::{Clock, Nanos, SECOND};
use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::qsl::SampleIndex;
use dyno_loadgen::sut::{InFlight, QuerySample, ResponseId, SampleMemory, SystemUnderTest};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

pub use gaps::Gaps;
pub use kernel::LateRead;
pub use library::Library;
pub use seen::Seen;
pub use start_error::StartError;
pub use tenants::{Clients, Libraries};

use crate::coding::Coding;
use crate::compressed::Compressed;
use crate::endpoint::Endpoint;
use crate::exchange::HttpVersion;
use crate::ledger::Entry;
use crate::protocol::{Protocol, Reader};
use crate::tls::{self, Trust};
use crate::trouble::{Kind, Trouble};
use accepted::Accepted;
use kernel::LateReads;
use ledger::Ledger;
use library::Requests;
use parsers::Parsers;
use seen::{Counters, ThreadCounters};
use start_error::check;

/// How a client reaches its servers.
#[derive(Clone)]
pub struct Options {
    /// Connections to each node (>= 1). Over HTTP/1.1 so many requests are under way at most.
    /// A run opens those that it needs before its clock starts.
    pub connections: usize,
    /// Whether there are more connections where a run needs more: as many as its fixed
    /// concurrency, and as many as its rate turns out to need, which are opened on demand and
    /// closed when they are idle.
    pub grows: bool,
    /// Requests under way at most, to all nodes together; others wait. Their wait counts in
    /// their latency and is counted apart from waits for connections.
    pub max_in_flight: Option<NonZero<usize>>,
    /// Streams on a connection of HTTP/2 at most, where the server permits as many (>= 1).
    pub streams: usize,
    /// Whether a connection of HTTP/1.1 carries one request after the other. Some servers close it
    /// after an answer without a word, and a request that is under way then is lost.
    pub keep_alive: bool,
    /// Threads that read answers; `None` is one for each two cores.
    pub threads: Option<NonZero<usize>>,
    /// Time that a request may take from when it is sent, in ns.
    pub time_limit: Option<Nanos>,
    /// Time that a connection may take to be made, in ns.
    pub connect_limit: Nanos,
    /// How often a request is sent again that found no connection, was refused, or whose
    /// connection or server failed. Its latency still counts from when it was due.
    pub retries: u8,
    /// Fields of each request, such as `authorization`. Names are in lower case.
    pub fields: Vec<(String, String)>,
    /// Who may vouch for the servers.
    pub trust: Trust,
    /// How requests are compressed when their samples are loaded, which is untimed.
    pub compress: Option<Coding>,
    /// How answers may be compressed. They are decompressed after their time was taken.
    pub accept: Option<Coding>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections: 64,
            grows: false,
            max_in_flight: None,
            streams: usize::MAX,
            keep_alive: true,
            threads: None,
            time_limit: Some(60 * SECOND),
            connect_limit: 5 * SECOND,
            retries: 0,
            fields: Vec::new(),
            trust: Trust::Public,
            compress: None,
            accept: None,
        }
    }
}

/// Connections of HTTP/1.1 to all nodes that a rate makes on demand at most: beyond it samples
/// wait.
const MOST_ON_DEMAND: usize = 1024;

impl Options {
    /// Returns how many places for requests to open before a run of these tenants, at all nodes
    /// together, and how many there may be; before the first run, those that show that servers
    /// answer.
    fn places(&self, nodes: usize, in_flight: Option<&[InFlight]>) -> (usize, usize) {
        let given = self.connections.saturating_mul(nodes);
        let limit = self.max_in_flight.map_or(usize::MAX, NonZero::get);
        let each = |tenant: &InFlight| match tenant {
            InFlight::AtMost(samples) => {
                let samples = usize::try_from(*samples).unwrap_or(usize::MAX);
                let most = if self.grows { samples.max(nodes) } else { given };
                (samples.clamp(nodes.min(most), most), most)
            }
            InFlight::AtOnce(samples) => {
                let samples = usize::try_from(*samples).unwrap_or(usize::MAX);
                (samples.clamp(nodes.min(given), given), given)
            }
            InFlight::Unknown if self.grows => (nodes, MOST_ON_DEMAND.max(nodes)),
            InFlight::Unknown => (given, given),
        };
        let add = |(a, b): (usize, usize), (c, d): (usize, usize)| {
            (a.saturating_add(c), b.saturating_add(d))
        };
        let (first, most) = match in_flight {
            None => (nodes, nodes),
            Some(tenants) => tenants.iter().map(each).reduce(add).unwrap_or((nodes, nodes)),
        };
        let most = if self.grows { most } else { most.min(given) };
        (first.min(most).min(limit), most.min(limit))
    }
}

/// Values of fields are secrets.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.fields.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Options")
            .field("connections", &self.connections)
            .field("grows", &self.grows)
            .field("max_in_flight", &self.max_in_flight)
            .field("streams", &self.streams)
            .field("keep_alive", &self.keep_alive)
            .field("threads", &self.threads)
            .field("time_limit", &self.time_limit)
            .field("retries", &self.retries)
            .field("fields", &names)
            .field("compress", &self.compress)
            .field("accept", &self.accept)
            .finish_non_exhaustive()
    }
}

/// A server, or several that take turns, as a system under test.
pub struct Client {
    name: String,
    shared: Arc<Shared>,
    transport: Transport,
}

enum Transport {
    Http1(http1::Http1),
    Http2(http2::Http2),
}

/// What all threads of a client share.
struct Shared {
    protocol: Arc<dyn Protocol>,
    nodes: Vec<Node>,
    options: Options,
    requests: Arc<Requests>,
    clock: Clock,
    counters: Counters,
    threads: Vec<ThreadCounters>,
    accepted: Accepted,
    /// Until when samples waited because as many requests were under way as may be.
    held: Accepted,
    /// Reads that came late behind what they read.
    late_reads: LateReads,
    parsers: Parsers,
    /// Used again, with their memory.
    readers: Mutex<Vec<Box<dyn Reader>>>,
    ledger: Ledger,
}

/// A server.
struct Node {
    endpoint: Endpoint,
    /// Where it is, or why nobody knows.
    addresses: Result<Vec<SocketAddr>, Trouble>,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// Memory for so many samples that wait, touched, so that the page faults of a large Offline
/// query fall before the timed part.
fn make_room(waiting: &mut VecDeque<(Job, Nanos)>, samples: usize) {
    waiting.clear();
    if waiting.capacity() < samples {
        // Not zero, which the allocator provides without touching anything.
        waiting.resize(samples, (Job { id: ResponseId(1), index: 1, tries: 1 }, 1));
        waiting.clear();
    }
}

/// Why a sample waited before its request was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    /// Until a connection was made.
    Connecting,
    /// Until a connection, or a stream, was free that another request had.
    Queue,
    /// As many requests were under way as [`Options::max_in_flight`] permits.
    Limit,
}

/// A sample on its way.
#[derive(Debug, Clone, Copy)]
struct Job {
    id: ResponseId,
    index: SampleIndex,
    /// How often it was sent before.
    tries: u8,
}

impl Job {
    #[inline]
    fn of(sample: &QuerySample) -> Self {
        let index = u32::try_from(sample.index).unwrap_or(u32::MAX);
        Self { id: sample.id, index, tries: 0 }
    }
}

impl Client {
    /// Starts the threads of a client, which at once begin to connect to the nodes. Names
    /// are looked up now; one without an address is trouble of the samples.
    ///
    /// # Errors
    /// What makes a client impossible, whatever the servers do.
    pub fn start(
        protocol: Arc<dyn Protocol>,
        nodes: &[Endpoint],
        options: Options,
    ) -> Result<(Self, Library), StartError> {
        check(&*protocol, nodes, &options)?;
        let protocol = Compressed::around(protocol, options.compress, options.accept);
        let is_tls = nodes.iter().any(Endpoint::is_tls);
        let config = match is_tls {
            true => {
                Some(tls::config(&options.trust, protocol.version()).map_err(StartError::Trust)?)
            }
            false => None,
        };
        let mut fields = options.fields.clone();
        if !options.keep_alive {
            fields.push(("connection".into(), "close".into()));
        }
        let requests = Requests::new(protocol.clone(), nodes.to_vec(), fields);
        let requests = Arc::new(requests);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = options.threads.map_or((cores / 2).max(1), NonZero::get);
        let shared = Arc::new(Shared {
            nodes: nodes.iter().map(|endpoint| Node::new(endpoint, config.as_ref())).collect(),
            requests: requests.clone(),
            clock: Clock::start(),
            counters: Counters::default(),
            threads: (0..threads).map(|_| ThreadCounters::new()).collect(),
            accepted: Accepted::new(),
            held: Accepted::new(),
            late_reads: LateReads::new(),
            parsers: Parsers::default(),
            readers: Mutex::default(),
            ledger: Ledger::new(),
            protocol,
            options,
        });
        let transport = match shared.protocol.version() {
            HttpVersion::Http1 => http1::Http1::start(shared.clone()).map(Transport::Http1),
            HttpVersion::Http2 => http2::Http2::start(&shared).map(Transport::Http2),
        };
        let transport = transport.map_err(StartError::System)?;
        let name = format!("{} at {}", shared.protocol.name(), nodes[0]);
        Ok((Self { name, shared, transport }, Library::new(requests)))
    }

    /// The same client under another name.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Returns how many requests can be under way at once; `None` where connections are made as
    /// a run needs them.
    #[must_use]
    pub fn most_in_flight(&self) -> Option<usize> {
        let options = &self.shared.options;
        let connections = options.connections.saturating_mul(self.shared.nodes.len());
        let given = match self.transport {
            Transport::Http1(_) if options.grows => None,
            Transport::Http1(_) => Some(connections),
            Transport::Http2(_) => Some(connections.saturating_mul(options.streams)),
        };
        let limit = options.max_in_flight.map(NonZero::get);
        given.into_iter().chain(limit).min()
    }

    /// Waits until connections stand, at most as long as one may take.
    ///
    /// # Errors
    /// What is in the way, where none stands.
    pub fn reach(&self) -> Result<(), Trouble> {
        self.prepare(0);
        let open = match &self.transport {
            Transport::Http1(http1) => http1.open(),
            Transport::Http2(http2) => http2.open(),
        };
        if open > 0 {
            return Ok(());
        }
        let refused = self.seen().refused_connects;
        let first = refused.into_iter().max_by_key(|(_, (count, _))| *count);
        Err(first.map_or_else(
            || Trouble::new(Kind::Connect, format!("{} does not answer", self.name)),
            |(kind, (_, words))| Trouble::new(kind, words),
        ))
    }

    /// Waits for connections, and makes room for so many samples to wait.
    fn prepare(&self, samples: usize) {
        self.shared.accepted.expect_run();
        self.shared.ledger.expect_run();
        self.shared.held.expect_run();
        self.shared.late_reads.expect_run();
        match &self.transport {
            Transport::Http1(http1) => http1.prepare(samples),
            Transport::Http2(http2) => http2.prepare(samples),
        }
    }

    /// A snapshot of what was seen so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        let mut seen = self.shared.counters.seen(self.shared.threads.iter());
        seen.parser_cpu_ns = self.shared.parsers.cpu_ns();
        seen.parser_waits = self.shared.parsers.waits();
        seen
    }

    /// What went wrong so far, for people: a line for each kind.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.seen().trouble()
    }

    /// When the request of each of the first `samples` samples of a tenant was handed to a socket
    /// in the last run, all of it, in ns since its start; 0 where it never was. With the time a
    /// query was due, that is how late its request was.
    #[must_use]
    pub fn accepted(&self, tenant: u8, samples: usize) -> Vec<Nanos> {
        self.shared.accepted.stamps(tenant, samples)
    }

    /// Returns the reads of the last run that came at least 5 us after the bytes that they
    /// brought, with their times by `clock`. That span is the client's delay. An answer that such
    /// a read completed has its time. Empty where the operating system does not tell when bytes
    /// come.
    #[must_use]
    pub fn late_reads(&self, clock: &Clock) -> Vec<LateRead> {
        self.shared.late_reads.by(clock, &self.shared.clock)
    }

    /// Returns the accounts of the answers to the first `samples` samples of a tenant in the
    /// last run; `None` where no answer ended. Empty where answers are not text.
    #[must_use]
    pub fn ledger(&self, tenant: u8, samples: usize) -> Vec<Option<Entry>> {
        self.shared.ledger.entries(tenant, samples)
    }

    /// Until when each of the first `samples` samples of a tenant waited in the last run because
    /// [`Options::max_in_flight`] requests were under way, in ns since its start; 0 where it did
    /// not.
    #[must_use]
    pub fn held(&self, tenant: u8, samples: usize) -> Vec<Nanos> {
        self.shared.held.stamps(tenant, samples)
    }
}

impl Node {
    fn new(endpoint: &Endpoint, config: Option<&Arc<ClientConfig>>) -> Self {
        let mut addresses = endpoint.resolve();
        let mut tls = None;
        if let (true, Some(config)) = (endpoint.is_tls(), config) {
            match tls::server_name(endpoint) {
                Ok(name) => tls = Some((config.clone(), name)),
                Err(trouble) => addresses = Err(trouble),
            }
        }
        Self { endpoint: endpoint.clone(), addresses, tls }
    }
}

impl Shared {
    /// Returns a reader for an answer.
    fn reader(&self) -> Box<dyn Reader> {
        let kept = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| self.protocol.reader())
    }

    /// Keeps a reader for another answer.
    fn keep(&self, reader: Box<dyn Reader>) {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
    }

    /// Enters the account of an answer whose end was read at `ended_at`, ns since the start of
    /// the run.
    fn enter(&self, job: Job, entry: Option<Entry>, ended_at: Nanos) {
        if let Some(entry) = entry {
            self.ledger.enter(job.id, Entry { ended_at, ..entry });
        }
    }

    /// Counts what happened to a sample, and reports that it failed at `at` by the client's
    /// clock. Returns whether it is to be sent again instead.
    fn settle_failure(
        &self,
        job: Job,
        responder: &Responder,
        trouble: &Trouble,
        is_heard: bool,
        at: Nanos,
    ) -> bool {
        let may_pass = match trouble.kind {
            Kind::Connect
            | Kind::Closed
            | Kind::TimedOut
            | Kind::Refused
            | Kind::Server
            | Kind::Cut
            | Kind::Aborted
            | Kind::InBand => true,
            // The last three are answers that the server finished: the next one may be no better.
            Kind::Resolve
            | Kind::Tls
            | Kind::Request
            | Kind::Malformed
            | Kind::Mismatch
            | Kind::Empty
            | Kind::Filtered
            | Kind::Short => false,
        };
        let may_repeat = may_pass && !is_heard && job.tries < self.options.retries;
        if may_repeat && !responder.is_over() {
            self.counters.repeated(trouble.kind);
            return true;
        }
        self.counters.failed(trouble);
        let at = responder.time_of(&self.clock, at);
        responder.fail_at(&[job.id], trouble.kind.failure(), at);
        false
    }

    /// Counts that a sample has waited for its turn.
    fn waited(&self, (job, to): (Job, &Responder), span: Nanos, thread: usize, cause: Waited) {
        let counters = &self.threads[thread];
        match cause {
            Waited::Limit => {
                counters.was_limited(span);
                self.held.stamp(job.id, to.now());
            }
            Waited::Queue => counters.was_queued(span),
            Waited::Connecting => counters.waited(span),
        }
    }

    fn timed_out(&self, endpoint: &Endpoint, has_begun: bool) -> Trouble {
        let seconds = self.options.time_limit.unwrap_or(0) as f64 / SECOND as f64;
        let words = match has_begun {
            true => format!("{endpoint} did not finish its answer within {seconds} s"),
            false => format!("{endpoint} gave no answer within {seconds} s"),
        };
        Trouble::new(Kind::TimedOut, words)
    }
}

impl SystemUnderTest for Client {
    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn issue(&self, samples: &[QuerySample], responder: &Responder) {
        match &self.transport {
            Transport::Http1(http1) => http1.issue(samples, responder),
            Transport::Http2(http2) => http2.issue(samples, responder),
        }
    }

    /// Nothing is held back to fill a batch.
    fn flush(&self) {}

    fn expect(&self, in_flight: &[InFlight]) {
        match &self.transport {
            Transport::Http1(http1) => http1.expect(in_flight),
            // Streams need no connection of their own.
            Transport::Http2(_) => {}
        }
    }

    /// Asked for before each run: connections are made then, untimed.
    fn sample_memory(&self, samples: usize) -> SampleMemory {
        self.prepare(samples);
        Box::new(vec![QuerySample { id: ResponseId(1), index: 1 }; samples])
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("name", &self.name).finish_non_exhaustive()
    }
}
