//! `dyno serve`: serves a system over the protocols of model servers.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgAction, Args};
use dyno_experiment::effect::check_served;
use dyno_experiment::options::{BatchSizes, RunOptions, ShapeOption};
use dyno_experiment::system::BATCH_DEFAULT;
use dyno_experiment::system::by_value::{self, ServerModel};
use dyno_experiment::{Failure, Interrupt, environment};
use dyno_loadgen::clock::Nanos;
use dyno_net::faults::{self, FaultServer, Mode};
use dyno_net::serve::{
    self, Answers, DrainOutcome, Limits, Listener, Model, Queue, SequenceLimits, Server, Settings,
    Token,
};
use dyno_results::units::{counted, parse_duration};
use dyno_sut::batch::Policy;
use dyno_sut::cores::Cores;
use dyno_sut::infer::InferenceModel;

use crate::exit::Exit;
use crate::interrupt;
use crate::output;

/// Flags of `dyno serve`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Serve {
    /// System to serve; see below
    #[arg(long, value_name = "SPEC", default_value = "digits")]
    system: String,
    /// Name of the model [default: that of the system or of its file]
    #[arg(long, value_name = "NAME")]
    model_name: Option<String>,
    /// Name of this node, unique among all nodes [default: host and port]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Address to listen on; port 0 selects a free port [default: 127.0.0.1:8000]
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// Second address to listen on, for gRPC; both addresses speak all protocols [default: none]
    #[arg(long, value_name = "ADDR")]
    grpc: Option<String>,
    /// TLS: certificate chain, a PEM file
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// TLS: private key of the certificate, a PEM file
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// TLS: authorities of clients, a PEM file; clients without a certificate of one of them are
    /// rejected
    #[arg(long, value_name = "FILE", requires = "cert")]
    client_ca: Option<PathBuf>,
    /// Maximum number of requests that wait for the model; further ones are rejected
    #[arg(long, value_name = "N", default_value_t = QUEUE_DEFAULT)]
    queue: NonZero<usize>,
    /// Maximum size of a request body in bytes, compressed and decompressed
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().body)]
    max_body: usize,
    /// Memory for the bodies of all requests in bytes; requests that do not fit are rejected
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().memory)]
    body_memory: usize,
    /// Compress answers for clients that accept it (gzip, deflate), except streams
    #[arg(long)]
    compress: bool,
    /// Maximum number of connections
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    connections: usize,
    /// Time limit of a request, and of a client that does not read its answer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    request_limit: Duration,
    /// Time limit for the complete head of a request
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    head_limit: Duration,
    /// Time limit of an idle HTTP/2 connection
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time)]
    idle_limit: Duration,
    /// How long to drain accepted requests on shutdown
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    drain_limit: Duration,
    /// Maximum number of concurrent calls of the model
    #[arg(long, value_name = "N", default_value_t = NonZero::<usize>::MIN)]
    workers: NonZero<usize>,
    /// Maximum number of requests per call
    #[arg(long, value_name = "N", default_value_t = BATCH_DEFAULT)]
    batch: NonZero<usize>,
    /// How long a request waits for others to share its batch
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = nanos)]
    batch_wait: Nanos,
    /// Maximum number of sequences in progress (sequence_id), whose states are kept
    #[arg(long, value_name = "N", default_value_t = SequenceLimits::default().most)]
    sequences: usize,
    /// How long the states of a sequence without requests are kept
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    sequence_limit: Duration,
    /// Threads of one call, for systems that use several [default: the processors of the process,
    /// shared by the workers]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// Processors of the model, such as 0-3,6 [default: all]
    #[arg(long, value_name = "LIST")]
    cores: Option<Cores>,
    /// Number of calls with zeros before the server is ready
    #[arg(long, value_name = "N", default_value_t = 1)]
    warm_up: usize,
    /// Shape of an input in these calls, such as input_ids=1x128, for dynamic dimensions [default: 1
    /// for each]
    #[arg(long, value_name = "INPUT=DIMS,..", action = ArgAction::Append)]
    shape: Vec<String>,
    /// Shared library of ONNX Runtime [default: found through Python's onnxruntime]
    #[arg(long, value_name = "FILE")]
    ort_lib: Option<PathBuf>,
    /// Serve faulty answers instead of a system, to test clients: a mode, such as cut or hang, or
    /// `path` for the mode that the first segment of each request's path names; `list` prints all.
    /// MODE:SHARE% gives that share of the requests the fault, and correct answers to the others
    #[arg(long, value_name = "MODE[:SHARE%]", conflicts_with_all = SYSTEM_FLAGS)]
    faults: Option<String>,
}

/// Flags that have no effect with `--faults`: all except `--http`.
const SYSTEM_FLAGS: [&str; 26] = [
    "system",
    "model_name",
    "node",
    "grpc",
    "cert",
    "key",
    "client_ca",
    "queue",
    "max_body",
    "body_memory",
    "compress",
    "connections",
    "request_limit",
    "head_limit",
    "idle_limit",
    "drain_limit",
    "workers",
    "batch",
    "batch_wait",
    "sequences",
    "sequence_limit",
    "threads",
    "cores",
    "warm_up",
    "shape",
    "ort_lib",
];

/// Default number of waiting requests.
const QUEUE_DEFAULT: NonZero<usize> = NonZero::new(1_024).expect("1024 is not 0");

/// Default address.
const ADDRESS: &str = "127.0.0.1:8000";

const AFTER_HELP: &str = "\
Serves the Open Inference Protocol over HTTP (JSON and binary tensors) and gRPC, and the OpenAI
interface (/v1/completions, /v1/chat/completions) for systems that generate text, over HTTP/1.1 and
HTTP/2, HTTP/2 also without TLS. Health is at /v2/health, metrics for Prometheus at /metrics.

Systems: digits, digits-lstm, null, onnx:FILE, tuned:model=FILE,formats=FILE, tuned:packed=FILE and
rnn:MODEL, as dyno info systems describes them, and
  tokens:first=TIME,each=TIME,tokens=N,slots=N,text=words|echo,replay=FILE
which streams words: the first word after the time `first`, each further word after the time `each`,
for up to SLOTS concurrent requests.

On Ctrl-C and SIGTERM the server reports not ready, rejects new requests, drains the accepted ones and
exits with 0. A second signal ends it at once.
Exit codes: 0 all accepted requests were answered, 2 usage, 3 set-up, 4 not all were answered within
--drain-limit, 130 ended at once.";

fn nanos(text: &str) -> Result<Nanos, String> {
    parse_duration(text)
}

fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text).map(Duration::from_nanos)
}

/// Interval between two checks for an interrupt.
const GLANCE: Duration = Duration::from_millis(20);

/// Waits for an interrupt, and reports once that requests of a model no longer share calls.
fn wait(interrupt: &Interrupt, model: Option<&dyn InferenceModel>) {
    let mut is_reported = false;
    while !interrupt.is_asked() {
        std::thread::park_timeout(GLANCE);
        let why = model.filter(|_| !is_reported).and_then(InferenceModel::contradiction);
        if let Some(why) = why {
            is_reported = true;
            output::say(format_args!("warning: requests do not share calls from now on: {why}"));
        }
    }
}

impl Serve {
    /// Serves until an interrupt.
    ///
    /// # Errors
    /// The server cannot be set up.
    pub fn execute(self) -> Result<Exit, Failure> {
        // Set up first, because a signal must also end the loading of a model.
        let interrupt = interrupt::listen().map_err(Failure::set_up)?;
        if let Some(mode) = &self.faults {
            return self.serve_faults(mode, &interrupt);
        }
        let token = token()?;
        let given = [
            ("threads", self.threads.is_some()),
            ("cores", self.cores.is_some()),
            ("ort-lib", self.ort_lib.is_some()),
            ("batch-wait", self.batch_wait > 0),
            ("shape", !self.shape.is_empty()),
        ];
        check_served(&self.system, &given)?;
        let run = self.run_options()?;
        let listeners = self.listeners()?;
        let loaded = by_value::load(&self.system, self.queue.get(), &run)?;
        let name = self.model_name.clone().unwrap_or_else(|| default_name(&self.system));
        let (mut page, mut served) = (String::new(), None);
        let answers = match loaded {
            ServerModel::Text(tokens) => {
                let _ = writeln!(page, "model {name}: text to text (OpenAI interface)");
                Answers::Text(tokens)
            }
            ServerModel::Tensors(model, stations, remark) => {
                let failed = self.warm_up(&*model, &run)?;
                let _ = writeln!(page, "model {name}: {}", signature(&*model));
                let remarks = remark.iter().chain(&failed);
                remarks.for_each(|remark| page.push_str(&format!("{remark}\n")));
                let largest = NonZero::new(model.info().largest_batch);
                let max_size = largest.map_or(self.batch, |largest| self.batch.min(largest));
                let policy = Policy { max_size, max_wait: self.batch_wait };
                let sequences = SequenceLimits { most: self.sequences, idle: self.sequence_limit };
                served = Some(Arc::clone(&model));
                let queue = Queue::start(model, policy, stations, self.queue.get(), sequences);
                Answers::Tensors(queue.map_err(|error| {
                    Failure::set_up(format!("cannot start workers: {error}"))
                        .hint("lower --workers")
                })?)
            }
        };
        let settings = Settings {
            node: self.node_name(&listeners),
            limits: self.limits(),
            compresses: self.compress,
            token,
        };
        self.warn_beyond_loopback(settings.token.is_some(), &listeners);
        let scheme = if self.cert.is_some() { "https" } else { "http" };
        let node = settings.node.clone();
        let server = Server::start(settings, vec![Model { name, answers }], listeners);
        let server = server.map_err(|error| Failure::set_up(format!("cannot serve: {error}")))?;
        for (what, address) in self.addresses().into_iter().zip(server.addresses()) {
            let _ = writeln!(page, "{what} {scheme}://{address}");
        }
        output::show(format!("{page}node {node}\nready\n"))?;
        wait(&interrupt, served.as_deref());
        output::say("stopping: draining accepted requests; a second signal stops at once");
        match server.drain(self.drain_limit) {
            DrainOutcome::Answered => Ok(Exit::Valid),
            DrainOutcome::Left(requests) => Err(Failure::aborted(format!(
                "{} not answered within {:?}",
                counted(requests as u64, "request was", "requests were"),
                self.drain_limit
            ))
            .hint("raise --drain-limit, or lower --queue")),
        }
    }

    /// Calls a model before it is ready. Returns a sentence if it fails with sizes that are only guesses:
    /// requests have their own.
    fn warm_up(
        &self,
        model: &dyn InferenceModel,
        run: &RunOptions,
    ) -> Result<Option<String>, Failure> {
        let mut shapes = model.inputs().iter().map(|input| &input.shape);
        let is_open = shapes.any(|shape| shape.iter().skip(1).any(Option::is_none));
        match by_value::warm_up(model, self.warm_up, &self.system, run) {
            Err(failure) if is_open && run.shapes.is_empty() => Ok(Some(format!(
                "The model was not called before it was ready: {}; --shape sets its dimensions.",
                failure.problems().join("; ")
            ))),
            called => called.map(|()| None),
        }
    }

    /// Serves the answers of a fault mode until an interrupt.
    fn serve_faults(&self, mode: &str, interrupt: &Interrupt) -> Result<Exit, Failure> {
        let mode = match mode {
            "list" => {
                return output::print(faults::modes().join("\n") + "\n").map(|()| Exit::Valid);
            }
            mode => Mode::parse(mode).map_err(|problem| {
                Failure::usage(format!("--faults: {problem}"))
                    .hint("dyno serve --faults list prints all modes")
            })?,
        };
        let address = self.http.as_deref().unwrap_or(ADDRESS);
        let server = FaultServer::start_in(address, mode)
            .map_err(|error| Failure::set_up(format!("cannot listen at {address}: {error}")))?;
        output::print(format!("http http://{}\nready\n", server.address))?;
        while !interrupt.is_asked() {
            std::thread::park_timeout(GLANCE);
        }
        Ok(Exit::Valid)
    }

    fn limits(&self) -> Limits {
        Limits {
            connections: self.connections,
            body: self.max_body,
            memory: self.body_memory,
            request: self.request_limit,
            head: self.head_limit,
            idle: self.idle_limit,
        }
    }

    /// Returns the options that loading a system reads.
    fn run_options(&self) -> Result<RunOptions, Failure> {
        let shapes = self.shape.iter().map(|text| ShapeOption::parse_all(text));
        let shapes = shapes.collect::<Result<Vec<_>, String>>();
        let shapes = shapes.map_err(|why| Failure::usage(format!("flag --shape: {why}")))?;
        Ok(RunOptions {
            shapes: shapes.concat(),
            ort_lib: self.ort_lib.clone(),
            workers: Some(self.workers.get()),
            threads: self.threads,
            cores: self.cores.clone(),
            batch: BatchSizes::parse(&self.batch.to_string()).ok(),
            ..RunOptions::default()
        })
    }

    /// Returns the addresses with their names.
    fn addresses(&self) -> Vec<&'static str> {
        let names = [("http", &self.http), ("grpc", &self.grpc)];
        let given = names.iter().filter(|(_, address)| address.is_some());
        let given: Vec<_> = given.map(|(name, _)| *name).collect();
        if given.is_empty() { vec!["http"] } else { given }
    }

    fn listeners(&self) -> Result<Vec<Listener>, Failure> {
        let tls = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                let tls = serve::tls(cert, key, self.client_ca.as_deref());
                Some(tls.map_err(Failure::set_up)?)
            }
            _ => None,
        };
        let given: Vec<&str> =
            [&self.http, &self.grpc].into_iter().flatten().map(|a| &**a).collect();
        let given = if given.is_empty() { vec![ADDRESS] } else { given };
        let listen = |address: &str| {
            let found = address.to_socket_addrs().map_err(|error| {
                Failure::usage(format!("cannot listen at `{address}`: {error}"))
                    .hint("expected HOST:PORT, such as 127.0.0.1:8000 or 0.0.0.0:8000")
            })?;
            let found: Vec<SocketAddr> = found.collect();
            let socket = TcpListener::bind(&found[..]).map_err(|error| {
                Failure::set_up(format!("cannot listen at {address}: {error}"))
                    .hint("use port 0 to select a free port")
            })?;
            Ok(Listener { socket, tls: tls.clone() })
        };
        given.into_iter().map(listen).collect()
    }

    /// Warns if anybody who reaches this machine may use the server, or may read its token.
    fn warn_beyond_loopback(&self, has_token: bool, listeners: &[Listener]) {
        let is_open = |listener: &&Listener| {
            let address = listener.socket.local_addr();
            address.is_ok_and(|address| !address.ip().to_canonical().is_loopback())
        };
        let Some(address) =
            listeners.iter().find(is_open).and_then(|open| open.socket.local_addr().ok())
        else {
            return;
        };
        if !has_token && self.client_ca.is_none() {
            output::say(format_args!(
                "warning: anyone who can reach {address} can use this server; set \
                 {TOKEN_VARIABLE}, or use --client-ca with --cert and --key"
            ));
        } else if has_token && self.cert.is_none() {
            output::say(format_args!(
                "warning: the token of {address} is sent without encryption; use --cert and --key"
            ));
        }
    }

    /// Returns a unique name that marks a network SUT, as the rules of the network division require.
    fn node_name(&self, listeners: &[Listener]) -> String {
        let own = self.node.clone().unwrap_or_else(|| {
            let port = listeners.first().and_then(|first| first.socket.local_addr().ok());
            let port = port.map_or(0, |address| address.port());
            let host = environment::host_name().unwrap_or_else(|| "localhost".into());
            format!("{host}:{port}")
        });
        if own.contains(NETWORK_SUT) { own } else { format!("{NETWORK_SUT} {own}") }
    }
}

/// Environment variable with the token that clients must send.
pub const TOKEN_VARIABLE: &str = "DYNO_SERVE_TOKEN";

/// Returns the token of the environment.
fn token() -> Result<Option<Token>, Failure> {
    match std::env::var(TOKEN_VARIABLE) {
        Ok(token) if token.trim().is_empty() => {
            Err(Failure::usage(format!("{TOKEN_VARIABLE} is empty"))
                .hint("unset it, or set it to a token"))
        }
        Ok(token) if token.trim() != token || token.contains(char::is_control) => {
            let problem = format!(
                "{TOKEN_VARIABLE} has control characters, or blanks at its ends, which no header \
                 field can carry"
            );
            Err(Failure::usage(problem).hint("remove them, such as a newline at the end"))
        }
        Ok(token) => Ok(Some(Token::new(&token))),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(Failure::usage(format!("{TOKEN_VARIABLE}: {error}"))),
    }
}

/// Text that the names of all network nodes contain.
const NETWORK_SUT: &str = "Network SUT";

/// Returns the name of a system, or of its file.
fn default_name(spec: &str) -> String {
    let (system, argument) = spec.split_once(':').unwrap_or((spec, ""));
    let file = argument.split(',').next().unwrap_or_default();
    let file = file.split_once('=').map_or(file, |(_, file)| file);
    match system {
        "onnx" | "tuned" | "rnn" => {
            let stem = std::path::Path::new(file).file_stem().unwrap_or_default();
            stem.to_string_lossy().replace(':', "-")
        }
        system => system.to_owned(),
    }
}

/// Returns a signature such as `ink float32 [-1, 64] -> scores float32 [-1, 10]`.
pub fn signature(model: &dyn InferenceModel) -> String {
    let about = model.info();
    let all = |ports: &[dyno_sut::engine::Port]| {
        let one = |port: &dyno_sut::engine::Port| {
            let dimension = |n: &Option<usize>| n.map_or("-1".into(), |n| n.to_string());
            let shape: Vec<String> = port.shape.iter().map(dimension).collect();
            format!("{} {} [{}]", port.name, port.element, shape.join(", "))
        };
        ports.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    format!("{} -> {}", all(&about.inputs), all(&about.outputs))
}
