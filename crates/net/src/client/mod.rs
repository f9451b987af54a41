//! Client of one or several servers, as a system under test.
//!
//! One sample is one request. Over HTTP/1.1 the issuing thread writes it to a free connection, so
//! the due time and the time on the wire differ by one system call; without a free connection the
//! sample waits, and the wait is counted. Over HTTP/2 a sample becomes a stream.

mod accepted;
mod answering;
mod backoff;
mod cancellation;
mod capacity;
mod gaps;
mod held;
mod http1;
mod http2;
mod kernel;
mod ledger;
mod library;
mod parsers;
mod retries;
mod run_chunks;
mod session_nodes;
mod start_error;
mod statistics;
mod tenants;
mod texts;
mod tool_calls;
mod whole;

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

use dyno_loadgen::clock::{Clock, Nanos, SECOND};
use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::qsl::SampleIndex;
use dyno_loadgen::sut::{InFlight, QuerySample, ResponseId, SampleMemory, SystemUnderTest};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

pub use backoff::NO_DESCRIPTOR;
pub use cancellation::{CancelPoint, Cancellation};
pub use gaps::Gaps;
pub(crate) use held::half_of_memory;
pub(crate) use http1::MOST_FIELDS;
pub use http1::{Framing, Part};
pub use kernel::LateRead;
pub use library::Library;
pub use retries::RetryTimes;
pub use start_error::StartError;
pub use statistics::ClientStatistics;
pub use tenants::{Clients, Libraries};
pub use texts::AnswerText;
pub use tool_calls::{MOST_RESULT_WORDS, RunEnd, ToolRunner, random_results};

use crate::coding::Coding;
use crate::compressed::CompressedProtocol;
use crate::endpoint::Endpoint;
use crate::exchange::HttpVersion;
use crate::ledger::Entry;
use crate::protocol::{Protocol, Reader};
use crate::tls::{self, Trust};
use crate::trouble::{Kind, Trouble};
use accepted::SampleTimes;
use kernel::LateReads;
use ledger::Ledger;
use library::Requests;
use parsers::Parsers;
use retries::{FailedAttempt, Retries};
use session_nodes::SessionNodes;
use start_error::{check, raise_descriptor_limit};
use statistics::{Counters, ThreadCounters};
use texts::Texts;
use tool_calls::ToolCalls;

/// Settings of a client.
#[derive(Clone)]
pub struct Options {
    /// Connections to each node (>= 1). Over HTTP/1.1 this is also the maximum of concurrent
    /// requests. A run opens the connections that it needs before its clock starts.
    pub connections: usize,
    /// Whether a run may open more connections: as many as its fixed concurrency, and as many as
    /// its rate turns out to need. Over HTTP/1.1 those of a rate are opened for requests that find none
    /// idle, and closed when idle, or at once if their request took another one. Over HTTP/2 a run
    /// opens no more than `connections`, and only those that its requests need.
    pub grows: bool,
    /// Maximum number of concurrent requests to all nodes together; others wait. Their wait is part
    /// of their latency and is counted separately from waits for connections.
    pub max_in_flight: Option<NonZero<usize>>,
    /// Maximum number of streams on an HTTP/2 connection (>= 1); the server's limit may be lower.
    pub streams: usize,
    /// Whether an HTTP/1.1 connection carries one request after the other. Some servers close it
    /// after an answer without notice, and a request in flight is lost then.
    pub keep_alive: bool,
    /// Threads that read answers; `None` is one for each two cores.
    pub threads: Option<NonZero<usize>>,
    /// Time limit of a request from when it is sent, in ns.
    pub time_limit: Option<Nanos>,
    /// Time limit for establishing a connection, in ns.
    pub connect_limit: Nanos,
    /// Maximum number of retries of a request that found no connection, was refused, or whose
    /// connection or server failed. Its latency still counts from when it was due.
    pub retries: u8,
    /// Fields of each request, such as `authorization`. Names are in lower case.
    pub fields: Vec<(String, String)>,
    /// How servers are verified.
    pub trust: Trust,
    /// Secrets of requests beside the values of `fields`, which messages must not repeat.
    pub secrets: Vec<String>,
    /// How requests are compressed when their samples are loaded, which is untimed.
    pub compress: Option<Coding>,
    /// How answers may be compressed. They are decompressed after their time is taken.
    pub accept: Option<Coding>,
    /// Whether connections are opened. Without them a client can only be planned with.
    pub connects: bool,
    /// Whether the texts of answers are kept for [`Client::take_texts`].
    pub keeps_texts: bool,
    /// Requests that the client gives up on purpose.
    pub cancellation: Option<Cancellation>,
    /// Answers calls of tools in live sessions; `None` takes the recorded results.
    pub tools: Option<ToolRunner>,
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
            trust: Trust::default(),
            secrets: Vec::new(),
            compress: None,
            accept: None,
            connects: true,
            keeps_texts: false,
            cancellation: None,
            tools: None,
        }
    }
}

/// Hides the values of fields, which are secrets.
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

/// One server, or several, as a system under test. Of several, a request goes to the next one in turn
/// that has a free connection.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use dyno_net::client::{Client, Library, Options};
/// use dyno_net::endpoint::Endpoint;
/// use dyno_net::protocol::Protocol;
///
/// fn connect(
///     protocol: Arc<dyn Protocol>,
/// ) -> Result<(Client, Library), Box<dyn std::error::Error>> {
///     let server: Endpoint = "http://localhost:8000/v1".parse()?;
///     let options = Options { connections: 8, ..Options::default() };
///     let (client, library) = Client::start(protocol, &[server], options)?;
///     client.reach()?;
///     Ok((client, library))
/// }
/// ```
pub struct Client {
    name: String,
    shared: Arc<ClientCore>,
    transport: Transport,
}

enum Transport {
    Http1(http1::Http1),
    Http2(http2::Http2),
}

/// State that all threads of a client share.
struct ClientCore {
    protocol: Arc<dyn Protocol>,
    nodes: Vec<Node>,
    options: Options,
    requests: Arc<Requests>,
    clock: Clock,
    counters: Counters,
    threads: Vec<ThreadCounters>,
    accepted: SampleTimes,
    /// Time until which each sample waited for the limit of concurrent requests.
    held: SampleTimes,
    /// Reads that happened late after the arrival of their bytes.
    late_reads: LateReads,
    parsers: Parsers,
    /// Readers for reuse, with their memory.
    readers: Mutex<Vec<Box<dyn Reader>>>,
    ledger: Ledger,
    texts: Option<Texts>,
    /// Requests that wait for their retry.
    retries: Retries,
    /// Nodes of the sessions in progress, if there are several nodes.
    session_nodes: Option<SessionNodes>,
    tool_calls: ToolCalls,
}

/// A server.
struct Node {
    endpoint: Endpoint,
    /// Its addresses, or why they are unknown.
    addresses: Result<Vec<SocketAddr>, Trouble>,
    /// Index of the address that was reached last. The others are tried after it.
    reached: AtomicUsize,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// Reserves and touches memory for this many waiting samples, so that the page faults of a large
/// Offline query fall before the timed part.
fn make_room(waiting: &mut VecDeque<(Job, Nanos)>, samples: usize) {
    waiting.clear();
    if waiting.capacity() < samples {
        // Nonzero, because the allocator provides zeros without touching memory.
        let job = Job { id: ResponseId(1), index: 1, tries: 1, resent: 0, node: None };
        waiting.resize(samples, (job, 1));
        waiting.clear();
    }
}

/// Reason why a sample waited before its request was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitCause {
    /// For a connection to be established.
    Connecting,
    /// For a connection or stream that another request was using.
    Queue,
    /// For the limit [`Options::max_in_flight`].
    Limit,
}

/// A sample to be sent.
#[derive(Debug, Clone, Copy)]
struct Job {
    id: ResponseId,
    index: SampleIndex,
    /// Number of earlier attempts.
    tries: u8,
    /// How often it was sent again because the server ended the connection without processing it.
    resent: u8,
    /// The node of its session, if it must go to one.
    node: Option<u16>,
}

impl Job {
    #[inline]
    fn for_sample(sample: &QuerySample) -> Self {
        let index = u32::try_from(sample.index).unwrap_or(u32::MAX);
        Self { id: sample.id, index, tries: 0, resent: 0, node: None }
    }

    /// Returns whether the sample may go to a node.
    fn may_go_to(&self, node: usize) -> bool {
        self.node.is_none_or(|own| usize::from(own) == node)
    }
}

impl Client {
    /// Starts the threads of a client, which begin to connect to the nodes at once, and raises the limit on
    /// descriptors of the process for them. Names are resolved now; a name without an address becomes the
    /// trouble of its samples.
    ///
    /// # Errors
    /// Settings that make a client impossible, regardless of the servers.
    pub fn start(
        protocol: Arc<dyn Protocol>,
        nodes: &[Endpoint],
        options: Options,
    ) -> Result<(Self, Library), StartError> {
        check(&*protocol, nodes, &options)?;
        raise_descriptor_limit(protocol.version(), nodes.len(), &options)?;
        let protocol = CompressedProtocol::around(protocol, options.compress, options.accept);
        let is_tls = nodes.iter().any(Endpoint::is_tls);
        let config = if is_tls {
            Some(tls::config(&options.trust, protocol.version()).map_err(StartError::Trust)?)
        } else {
            None
        };
        let mut fields = options.fields.clone();
        if !options.keep_alive {
            fields.push(("connection".into(), "close".into()));
        }
        let requests = Requests::new(protocol.clone(), nodes.to_vec(), fields);
        let requests = Arc::new(requests);
        let threads = options.thread_count();
        let shared = Arc::new(ClientCore {
            nodes: nodes
                .iter()
                .map(|endpoint| Node::new(endpoint, config.as_ref(), &options))
                .collect(),
            requests: requests.clone(),
            clock: Clock::start(),
            counters: Counters::default(),
            threads: (0..threads).map(|_| ThreadCounters::new()).collect(),
            accepted: SampleTimes::new(),
            held: SampleTimes::new(),
            late_reads: LateReads::new(),
            parsers: Parsers::default(),
            readers: Mutex::default(),
            ledger: Ledger::new(),
            texts: options.keeps_texts.then(Texts::default),
            retries: Retries::new(),
            tool_calls: ToolCalls::default(),
            session_nodes: SessionNodes::for_requests(&requests, nodes.len()),
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

    /// Returns the client with another name.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Returns whether it gives requests up on purpose.
    pub fn cancels(&self) -> bool {
        self.shared.options.cancellation.is_some()
    }

    /// Waits until connections are established, for at most the connect limit.
    ///
    /// # Errors
    /// The trouble, if no connection could be established.
    pub fn reach(&self) -> Result<(), Trouble> {
        self.prepare(0);
        let open = match &self.transport {
            Transport::Http1(http1) => http1.open(),
            Transport::Http2(http2) => http2.open(),
        };
        if open > 0 {
            return Ok(());
        }
        let refused = self.statistics().refused_connects;
        let first = refused.into_iter().max_by_key(|(_, (count, _))| *count);
        Err(first.map_or_else(
            || Trouble::new(Kind::Connect, format!("{} does not answer", self.name)),
            |(kind, (_, words))| Trouble::new(kind, words),
        ))
    }

    /// Waits for connections, and reserves memory for this many waiting samples.
    fn prepare(&self, samples: usize) {
        self.shared.accepted.expect_run();
        self.shared.session_nodes.iter().for_each(SessionNodes::expect_run);
        self.shared.tool_calls.expect_run();
        self.shared.ledger.expect_run();
        self.shared.held.expect_run();
        self.shared.retries.expect_run();
        self.shared.late_reads.expect_run();
        match &self.transport {
            Transport::Http1(http1) => http1.prepare(samples),
            Transport::Http2(http2) => http2.prepare(samples),
        }
    }

    /// Returns a snapshot of the statistics so far.
    pub fn statistics(&self) -> ClientStatistics {
        let mut statistics = self.shared.counters.snapshot(self.shared.threads.iter());
        statistics.parser_cpu_ns = self.shared.parsers.cpu_ns();
        statistics.parser_waits = self.shared.parsers.waits();
        statistics
    }

    /// Returns the trouble so far for people, with a line for each kind.
    pub fn trouble(&self) -> Option<String> {
        self.statistics().trouble()
    }

    /// Returns when the client sent the request of each of the first `samples` samples of a tenant in the
    /// last run, in ns since its start; 0 if no socket took the whole request. The difference to a query's
    /// due time is the lateness of its request. Over HTTP/1.1 it does not include the time in which a
    /// connection was established for the request, over HTTP/2 that in which its thread had no connection,
    /// nor over any version that in which the socket took no more bytes because the server did not read.
    pub fn accepted(&self, tenant: u8, samples: usize) -> Vec<Nanos> {
        self.shared.accepted.stamps(tenant, samples)
    }

    /// Returns the reads of the last run that happened at least 5 us after their bytes arrived,
    /// with times by `clock`. That span is the client's delay. An answer completed by such a read
    /// has the time of the read. Empty if the operating system does not report arrival times.
    pub fn late_reads(&self, clock: &Clock) -> Vec<LateRead> {
        self.shared.late_reads.by(clock, &self.shared.clock)
    }

    /// Returns the accounts of the answers to the first `samples` samples of a tenant in the last
    /// run; `None` if no answer ended. Empty if answers are not text.
    pub fn ledger(&self, tenant: u8, samples: usize) -> Vec<Option<Entry>> {
        self.shared.ledger.entries(tenant, samples)
    }

    /// Returns until when each of the first `samples` samples of a tenant waited in the last run
    /// because of [`Options::max_in_flight`], in ns since its start; 0 if it did not wait.
    pub fn held(&self, tenant: u8, samples: usize) -> Vec<Nanos> {
        self.shared.held.stamps(tenant, samples)
    }
}

impl Node {
    fn new(endpoint: &Endpoint, config: Option<&Arc<ClientConfig>>, options: &Options) -> Self {
        let mut addresses = if options.connects {
            endpoint.resolve()
        } else {
            Err(Trouble::new(Kind::Connect, "no connection is opened for a plan"))
        };
        let mut tls = None;
        if let (true, Some(config)) = (endpoint.is_tls(), config) {
            match tls::server_name(endpoint) {
                Ok(name) => tls = Some((config.clone(), name)),
                Err(trouble) => addresses = Err(trouble),
            }
        }
        Self { endpoint: endpoint.clone(), addresses, reached: AtomicUsize::new(0), tls }
    }
}

impl ClientCore {
    /// Returns a reader for an answer.
    fn reader(&self) -> Box<dyn Reader> {
        let kept = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| self.protocol.reader())
    }

    /// Returns a reader for reuse.
    fn keep(&self, reader: Box<dyn Reader>) {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
    }

    /// Records the account of an answer whose end was read at `ended_at`, in ns since the start of
    /// the run.
    fn enter(&self, job: Job, entry: Option<Entry>, ended_at: Nanos) {
        if let Some(entry) = entry {
            self.ledger.enter(job.id, Entry { ended_at, ..entry });
        }
    }

    /// Counts the wait of a sample that is measured.
    fn note_wait(&self, job: Job, to: &Responder, span: Nanos, thread: usize, cause: WaitCause) {
        let counters = &self.threads[thread];
        if !to.is_measured(job.id) {
            return;
        }
        match cause {
            WaitCause::Limit => {
                counters.was_limited(span);
                self.held.stamp(job.id, to.now());
            }
            WaitCause::Queue => counters.was_queued(span),
            WaitCause::Connecting => counters.waited(span),
        }
    }

    fn timed_out(&self, endpoint: &Endpoint, has_begun: bool) -> Trouble {
        let seconds = self.options.time_limit.unwrap_or(0) as f64 / SECOND as f64;
        let words = if has_begun {
            format!("{endpoint} did not complete its answer within {seconds} s")
        } else {
            format!("{endpoint} did not answer within {seconds} s")
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

    fn expect(&self, in_flight: &[InFlight]) {
        match &self.transport {
            Transport::Http1(http1) => http1.expect(in_flight),
            Transport::Http2(http2) => http2.expect(in_flight),
        }
    }

    fn end_run(&self) {
        self.shared.tool_calls.end();
    }

    /// The instrument calls this before each run, so connections are opened here, untimed.
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
