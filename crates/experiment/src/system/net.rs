//! Systems over the network: `oip:`, `oip-grpc:`, `openai:` and `raw:`.

mod contradictions;
mod dataset;
mod discover;
mod measured;
mod metrics;
mod model_names;
mod models;
mod oip;
mod openai;
mod prompts;
mod raw;
mod ready;
mod recordings;
mod replay;
mod secrets;
mod sequences;
mod sessions;
mod spec_keys;
mod tools;

use std::num::NonZero;
use std::sync::Arc;

use dyno_loadgen::clock::{Clock, Nanos};
use dyno_loadgen::plan::{Load, Plan};
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::settings::{Arrivals, Origin, Scenario, Setting as _, Settings, TestMode};
use dyno_loadgen::sut::SystemUnderTest;
use dyno_net::client::{
    AnswerText, CancelPoint, Cancellation, Client, ClientStatistics, Clients, Libraries, Library,
    Options,
};
use dyno_net::endpoint::Endpoint;
use dyno_net::exchange::HttpVersion;
use dyno_net::oip::Model;
use dyno_net::protocol::Protocol;
use dyno_net::trouble::{Kind, printable};
use dyno_net::workload::Workload;
use dyno_sut::tensors::{Elements, TensorLibrary};
use serde_json::json;

use super::kind::{Drive, OpenedSystem, Request, Resources, SystemKind};
use super::target::is_url;
use crate::environment;
use crate::failure::Failure;
use crate::options::{RunOptions, is_open};
pub use discover::identify;
pub use measured::{WireTimes, measured, measured_entries, measured_retries, measured_stamps};
pub use metrics::MetricsSource;
use metrics::is_on_this_machine;
pub use replay::Replay;
use replay::RequestSource;
pub use secrets::{literal_secret, without_secrets};
use sessions::Sessions;
use spec_keys::{SpecKeys, named};

pub(super) const OIP: SystemKind = SystemKind {
    name: "oip",
    operand: "URL/MODEL",
    help: "a model behind the Open Inference Protocol over HTTP; binary=true sends tensors as \
         bytes. --data [INPUT=]FILE.npy contains the samples, --labels FILE.npy their classes; \
         without --data they are random. output=NAME is the scored output, version=V the version \
         of the model. sequences=N plays N sequences of a stateful model, each with its \
         sequence_id: steps=LENGTHS requests (100), the next one after the answer and think=TIMES, \
         or every=TIME from one due time to the next (as many sequences as --max-concurrency). Keys of all servers: see raw:URL",
    accepts: &["data", "shape", "labels", "warm-up", "ready-timeout", "max-concurrency"],
    resources: |operand| named("oip", operand),
    check: None,
    open: |request| Ok(load("oip", request)?.into()),
};

pub(super) const OIP_GRPC: SystemKind = SystemKind {
    name: "oip-grpc",
    operand: "HOST:PORT/MODEL",
    help: "the same over gRPC; form=raw (as is), typed or stream (ModelStreamInfer, \
     any number of answers). Keys of all servers: see raw:URL",
    accepts: &["data", "shape", "labels", "warm-up", "ready-timeout", "max-concurrency"],
    resources: |operand| named("oip-grpc", operand),
    check: None,
    open: |request| Ok(load("oip-grpc", request)?.into()),
};

pub(super) const OPENAI: SystemKind = SystemKind {
    name: "openai",
    operand: "URL",
    help: "a text server with the OpenAI interface: model=NAME, stream=false for whole answers, \
           chat=true or false, max-tokens=N, limit-member=max_tokens or max_completion_tokens \
           (member of the limit; by default what the server accepts), usage=false where the server \
           refuses stream_options or counts wrongly, api=NAME (completions, chat, responses, \
           generate, messages, gemini, ollama, cohere, tgi, triton, transcriptions, embeddings, rerank or \
           images), tokenizer=FILE.json, accept-answers=CLASS,... (empty, \
           cut, aborted, filtered or short: further answers that count as success), KEY:=JSON for \
           any member of the request, KEY:= or without=KEY to remove one, body-env.KEY=VARIABLE \
           and body-file.KEY=FILE for a secret one. --data FILE or FOLDER contains the prompts \
           (JSON lines, JSON, CSV; WAV or FLAC files for transcriptions; recorded traces are played at their times, speed=X times as \
           fast, repeat=N times; row-members=all, known or none: members of rows that are sent; \
           prompt-column=NAME, split=NAME, turns=N); without it they are generated: input=LENGTHS, \
           output=LENGTHS, lengths=INPUT/OUTPUT*WEIGHT,..., prefix=N, groups=N, ids=N (random \
           tokens below N), image=WxH*N, documents=N. exact-input=usage, tokenize or tokenizer \
           fits words to tokens, force-output=true forces the length of answers, \
           unique-prefix=true keeps requests out of caches. sessions=live runs conversations whose \
           turns contain the server's own answers (history=recorded: the recorded ones; sessions=once: \
           each once), with think=TIMES \
           before each turn, or every=TIME from one due time of a user to the next (as many users as \
           --max-concurrency), and turns=LENGTHS if they are generated. models=A*3+B mixes models by \
           weight. tools=COMMAND runs a program for each call of a tool (its words, without a shell; \
           the call as JSON on its standard input, the result on its standard output; \
           tools-limit=TIME, 30s). steps=N continues a turn while the answers call tools, with at \
           most N requests, each with the results after tools-delay=TIMES; tools-result=LENGTHS \
           answers calls with random words instead. TIMES: TIME, TIME-TIME, \
           normal:MEAN:DEVIATION, lognormal:MEDIAN:SIGMA. LENGTHS: N, N-M, normal:MEAN:DEVIATION, \
           lognormal:MEDIAN:SIGMA. Keys of all servers: see raw:URL",
    accepts: &[
        "data",
        "warm-up",
        "ready-timeout",
        "max-concurrency",
        "percentile-metrics",
        "metric-percentiles",
        "texts",
    ],
    resources: |operand| named("openai", operand),
    check: None,
    open: |request| Ok(load("openai", request)?.into()),
};

pub(super) const RAW: SystemKind = SystemKind {
    name: "raw",
    operand: "URL",
    help: "any other HTTP interface: method=GET or POST, body=@FILE, the template of the body, in \
           which {NAME} is a field of the sample; --data FILE contains the samples (JSON lines, \
           JSON, CSV); pointer=/JSON/POINTER to the answer. This system and the three above accept \
           node=URL (once for each further server; a request goes to the next one in turn that has a \
           free connection), connections=N (for each server; over HTTP/1.1 \
           as many as the run needs: with a fixed concurrency opened before the run, otherwise on \
           demand; 64 for Offline and HTTP/2, or N for openai and raw over HTTP/2 with \
           max-concurrency=N, of which a run opens those that its streams need), streams=N (16, on \
           each connection of HTTP/2), \
           max-concurrency=N (maximum requests in flight at all servers together; others wait, \
           which counts in their latency and is shown separately), timeout=TIME (60s), \
           cancel=SHARE%@TIME or SHARE%@Ntok (that share of the requests is given up after a time or \
           N parts of a stream, and not measured), retries=N (0, counted; after a \
           refusal Dyno waits for Retry-After, or for increasing times), threads=N, http2=true, \
           keep-alive=false (one connection per request), compress=gzip or deflate (requests, when \
           samples are loaded), accept=gzip or deflate (requests compressed answers, which are \
           decompressed after their timestamp), ca=FILE.pem (authorities, or the server's own \
           certificate), fingerprint=SHA256 (only the server with this certificate), insecure=true \
           (any certificate), metrics=URL or off (Prometheus metrics page, once for each server; \
           default for openai and oip: /metrics), metrics-interval=TIME (1s), \
           client-cert=FILE.pem, client-key=FILE.pem, proxy=http://HOST:PORT, proxy-login-env=NAME \
           (environment variable with USER:PASSWORD for the proxy), header.NAME=TEXT and \
           query.NAME=TEXT, or header-env.NAME=VARIABLE, header-file.NAME=FILE, \
           query-env.NAME=VARIABLE, query-file.NAME=FILE (values are never written), \
           token-env=NAME (environment variable with a bearer token), sigv4=SERVICE/REGION \
           (requests are signed for AWS with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and \
           AWS_SESSION_TOKEN of the environment; sigv4-env=NAME replaces AWS in these names)",
    accepts: &["data", "warm-up", "ready-timeout", "max-concurrency"],
    resources: |operand| named("raw", operand),
    check: None,
    open: |request| Ok(load("raw", request)?.into()),
};

/// A server under test.
pub struct Remote {
    client: Arc<Clients>,
    /// Kind of its answers.
    answers: Answers,
    /// Whether answers are streamed, so that the first part has a time.
    pub is_streaming: bool,
    /// Threads of the client.
    pub threads: usize,
    /// Metrics pages of the servers.
    pub metrics: MetricsSource,
    /// Most servers that share the requests of a tenant.
    pub servers: usize,
    /// Whether all servers run on this machine.
    pub is_local: bool,
    /// Recorded arrival times of samples or sessions, if any.
    schedule: Option<Arc<[Nanos]>>,
    sessions: Option<Sessions>,
    requests: RequestSource,
}

/// Kinds of answers, for scoring.
enum Answers {
    /// Elements of a tensor.
    Tensor(Arc<Model>),
    /// Texts.
    Text {
        /// Correct answers, where they are known.
        references: Vec<Option<String>>,
        /// What is sent.
        workload: Arc<Workload>,
        /// Whether a request asks for several choices, whose tokens come mixed.
        has_choices: bool,
    },
    /// Bytes of unknown meaning.
    Bytes,
}

/// A connected server with its samples.
struct LoadedServer {
    /// The server.
    pub remote: Remote,
    /// Requests, which are encoded when they are loaded.
    pub library: Arc<dyn SampleLibrary>,
    /// Samples, if they are tensors.
    pub tensors: Option<Arc<TensorLibrary>>,
    /// Class of each sample, if known.
    pub labels: Option<Vec<i64>>,
    /// Whether samples are generated, not read from a file.
    pub is_synthetic: bool,
    /// Remarks for readers.
    pub remarks: Vec<String>,
}

impl From<LoadedServer> for OpenedSystem {
    fn from(loaded: LoadedServer) -> Self {
        Self {
            labels: loaded.labels,
            tensors: loaded.tensors,
            is_synthetic: loaded.is_synthetic,
            // They may name what servers reported.
            remarks: loaded.remarks.iter().map(|text| printable(text).into_owned()).collect(),
            ..Self::new(Drive::Remote(Box::new(loaded.remote)), loaded.library)
        }
    }
}

/// Connects to the servers of a specification.
///
/// # Errors
/// An invalid specification, a file that cannot be used, or a server that does not answer or has
/// different inputs.
fn load(name: &str, request: &Request<'_>) -> Result<LoadedServer, Failure> {
    let run = request.run;
    let mut all = vec![start(name, request.operand, run)?];
    let mut of_tenant = Vec::new();
    for spec in &run.tenant_systems {
        let Some(spec) = spec else {
            of_tenant.push(0);
            continue;
        };
        let identified = is_url(spec)
            .then(|| discover::system_of(spec, run, Some(request.watch)))
            .transpose()?;
        let spec = identified.as_ref().unwrap_or(spec);
        let (name, argument) = spec.split_once(':').unwrap_or((spec, ""));
        if !NAMES.contains(&name) {
            let spec = without_secrets(spec);
            let problem = format!("`{spec}`, the system of a tenant, is not a server");
            let hint = format!("those are URLs, and {}", NAMES.join(", "));
            return Err(Failure::usage(problem).hint(hint));
        }
        of_tenant.push(all.len());
        all.push(start(name, argument, run)?);
    }
    Ok(StartedServer::together(all, of_tenant))
}

/// Names of systems over the network.
const NAMES: [&str; 4] = ["oip", "oip-grpc", "openai", "raw"];

/// Starts the client of a server, and tries again for as long as the server may take to be ready.
fn start(name: &str, argument: &str, run: &RunOptions) -> Result<StartedServer, Failure> {
    ready::retry(run.ready_timeout.unwrap_or(0), || {
        let mut given = SpecKeys::read(name, argument)?;
        match name {
            "oip" | "oip-grpc" => oip::load(&mut given, name == "oip-grpc", run),
            "openai" => openai::load(&mut given, run),
            _ => raw::load(&mut given, run),
        }
    })
}

/// Returns what to do about a server that cannot be reached, or whose certificate is not accepted.
fn reach_hint(kind: Kind, otherwise: &'static str) -> &'static str {
    match kind {
        Kind::Tls => {
            "after the URL, ca=FILE.pem accepts a certificate or those of its authority, \
             fingerprint=SHA256 one certificate, and insecure=true any certificate"
        }
        _ => otherwise,
    }
}

/// A client of one server, or of several servers in turn.
struct StartedServer {
    client: Client,
    library: Library,
    /// Number of threads of the client.
    threads: usize,
    wired: ServerGroup,
}

impl StartedServer {
    /// Combines clients to one system, which is described by the first one.
    fn together(all: Vec<Self>, of_tenant: Vec<usize>) -> LoadedServer {
        let is_streaming = all.iter().any(|one| one.wired.protocol.is_streaming());
        let threads = all.iter().map(|one| one.threads).sum();
        let is_synthetic = all.iter().any(|one| one.wired.is_synthetic);
        let is_local = all.iter().flat_map(|one| &one.wired.nodes).all(is_on_this_machine);
        let (mut clients, mut libraries, mut wired) = (Vec::new(), Vec::new(), Vec::new());
        let (mut metrics, mut remarks) = (None::<MetricsSource>, Vec::new());
        for mut one in all {
            match &mut metrics {
                None => metrics = Some(one.wired.metrics.clone()),
                Some(metrics) => metrics.add(&one.wired.metrics),
            }
            clients.push(one.client);
            libraries.push(one.library);
            for remark in one.wired.remarks.drain(..) {
                if !remarks.contains(&remark) {
                    remarks.push(remark);
                }
            }
            wired.push(one.wired);
        }
        let requests = RequestSource::new(&wired[0], wired.len());
        let servers = wired.iter().map(|one| one.nodes.len()).max().unwrap_or(1);
        let first = wired.swap_remove(0);
        LoadedServer {
            remote: Remote {
                client: Arc::new(Clients::new(clients, of_tenant)),
                answers: first.answers,
                is_streaming,
                threads,
                metrics: metrics.unwrap_or_default(),
                servers,
                is_local,
                schedule: first.schedule,
                sessions: first.sessions,
                requests,
            },
            library: Arc::new(Libraries(libraries)),
            tensors: first.tensors,
            labels: first.labels,
            is_synthetic,
            remarks,
        }
    }
}

/// Servers of one protocol.
struct ServerGroup {
    protocol: Arc<dyn Protocol>,
    nodes: Vec<Endpoint>,
    /// Names that the servers report, if they were asked.
    names: Vec<String>,
    options: Options,
    answers: Answers,
    metrics: MetricsSource,
    schedule: Option<Arc<[Nanos]>>,
    sessions: Option<Sessions>,
    tensors: Option<Arc<TensorLibrary>>,
    labels: Option<Vec<i64>>,
    is_synthetic: bool,
    remarks: Vec<String>,
}

impl ServerGroup {
    /// Starts the client, and checks that a server answers.
    fn start(mut self) -> Result<StartedServer, Failure> {
        let name = self.protocol.name().to_owned();
        if let Some(Cancellation { point: CancelPoint::Tokens(_), .. }) = self.options.cancellation
            && !self.protocol.is_streaming()
        {
            let problem = format!("{name}: cancel: answers come whole, without parts to count");
            return Err(Failure::usage(problem).hint("use a time, such as cancel=5%@2s"));
        }
        let threads = self.options.threads.map_or((environment::cores() / 2).max(1), NonZero::get);
        let options = self.options.clone();
        let (client, library) =
            Client::start(self.protocol.clone(), &self.nodes, options).map_err(Failure::set_up)?;
        if self.options.connects {
            client.reach().map_err(|trouble| {
                Failure::server(trouble.kind, format!("{name}: {trouble}"))
                    .hint(reach_hint(trouble.kind, "start the server, or check the URL"))
            })?;
        }
        if self.options.trust.is_unverified && self.nodes.iter().any(Endpoint::is_tls) {
            let remark = "insecure=true: the certificate of the server was not verified.";
            self.remarks.insert(0, remark.into());
        }
        self.remarks.extend(named_alike(&self.names));
        if self.nodes.len() > 1 {
            self.remarks.push(match self.sessions {
                Some(_) => format!(
                    "{} servers share the sessions; each session stays on one server.",
                    self.nodes.len()
                ),
                None => format!(
                    "{} servers share the requests: each goes to the next one in turn that has a free \
                     connection, so that a faster server may answer more of them.",
                    self.nodes.len()
                ),
            });
        }
        let client = match self.names.join(", ") {
            names if names.is_empty() => client,
            names => client.named(format!("{names} ({name})")),
        };
        Ok(StartedServer { client, library, threads, wired: self })
    }
}

/// Returns a remark on nodes with equal names. The rules of the network division require unique
/// names that contain "Network SUT".
fn named_alike(names: &[String]) -> Option<String> {
    let is_new = |(at, name): (usize, &String)| !names[..at].contains(name);
    let twice = names.iter().enumerate().find(|all| !is_new(*all)).map(|(_, name)| name)?;
    Some(format!(
        "Several servers are named `{twice}`; the network division requires unique names."
    ))
}

impl Remote {
    /// Returns the system under test.
    pub fn client(&self) -> Arc<dyn SystemUnderTest> {
        self.client.clone()
    }

    /// Returns its name in logs.
    pub fn name(&self) -> &str {
        self.client.name()
    }

    /// Returns the client's counters since its start.
    pub fn seen(&self) -> ClientStatistics {
        self.client.statistics()
    }

    /// Returns the first failure so far, if any.
    pub fn trouble(&self) -> Option<String> {
        self.client.statistics().trouble()
    }

    /// Returns whether its data have arrival times.
    pub fn has_schedule(&self) -> bool {
        self.schedule.is_some()
    }

    /// Sets settings that follow from the server, unless they are set.
    pub fn complete(&self, settings: &mut Settings) {
        let is_server = settings.values.scenario == Scenario::Server;
        let set = |settings: &mut Settings, key: &str, value: String, why| {
            if is_open(settings, key) {
                settings.set(key, &value, Origin::Code(why)).expect("a setting that exists");
            }
        };
        if self.is_streaming {
            set(settings, "use_token_latencies", "true".into(), "answers come in parts");
        }
        if let (Some(times), true) = (&self.schedule, is_server) {
            let why = "the times of the recorded trace";
            set(settings, "server_arrivals", Arrivals::Replay(times.clone()).show(), why);
            // Each request is sent once, in recorded order.
            set(settings, "performance_issue_unique", "true".into(), why);
        }
        if self.sessions.as_ref().is_some_and(|sessions| sessions.is_once) {
            set(settings, "performance_issue_unique", "true".into(), "sessions=once");
        }
        let is_default =
            matches!(settings.origin("min_duration_ms"), Some(Origin::Code("profile llm")));
        let is_replay = matches!(settings.values.server_arrivals, Arrivals::Replay(_));
        if self.schedule.is_some() && is_server && is_replay && is_default {
            // The trace has a length, which the default of a profile must not exceed.
            let origin = Origin::Code("the times of the recorded trace");
            settings.set("min_duration_ms", "0", origin).expect("it reads");
        }
    }

    /// Returns the maximum number of requests in flight of the first tenant; `None` if connections
    /// are opened as needed.
    pub fn most_in_flight(&self) -> Option<usize> {
        self.client.most_in_flight(0)
    }

    /// Returns the limit of the requests in flight of the first tenant, if the settings have one and no
    /// lower number of connections.
    pub fn limit_in_flight(&self) -> Option<usize> {
        self.client.limit_in_flight(0)
    }

    /// Returns the number of streams on each connection of HTTP/2 of the first tenant; `None` over
    /// HTTP/1.1.
    pub fn streams(&self) -> Option<u64> {
        self.client.streams(0).map(|streams| streams as u64)
    }

    /// Returns the plan of a run that plays the sessions of the server, if it has any.
    ///
    /// # Errors
    /// A run that cannot play them, and a remedy.
    pub fn with_sessions(&self, plan: Plan) -> Result<Plan, String> {
        match &self.sessions {
            None => Ok(plan),
            Some(_) if matches!(plan.mode, TestMode::AccuracyOnly | TestMode::SubmissionRun) => {
                Err("sessions have live answers, which have no references; use --mode performance"
                    .into())
            }
            Some(sessions) => {
                let plan = plan.with_sessions(sessions.chains.clone())?;
                let plan = plan.with_tasks(sessions.steps)?;
                match sessions.interval {
                    Some(interval) => plan.with_turn_interval(interval),
                    None => Ok(plan),
                }
            }
        }
    }

    /// Returns the number of sessions; `None` if samples are independent.
    pub fn sessions(&self) -> Option<u64> {
        self.sessions.as_ref().map(|sessions| sessions.chains.len() as u64)
    }

    /// Checks that a tenant's run can have its requested number of requests in flight. Otherwise
    /// they would wait in the client, which would look like a slow server.
    ///
    /// # Errors
    /// The limit and a remedy.
    pub fn check(&self, tenant: usize, plan: &Plan) -> Result<(), String> {
        let most = self.client.most_in_flight(u8::try_from(tenant).unwrap_or(u8::MAX));
        let wanted = match &plan.load {
            Load::Server(server) => match server.arrivals {
                Arrivals::Concurrency(in_flight) => u64::from(in_flight),
                _ => return Ok(()),
            },
            Load::MultiStream { .. } => plan.samples_per_query,
            Load::SingleStream { .. } | Load::Offline => return Ok(()),
        };
        match most {
            Some(most) if (most as u64) < wanted => Err(format!(
                "expected a client that keeps {wanted} requests in flight, found one that keeps \
                 {most}; raise connections=N (or streams=N over HTTP/2), or remove it, and leave \
                 out a lower max-concurrency=N"
            )),
            _ => Ok(()),
        }
    }

    /// Returns the class of an answer, if it has one. Scores of several samples have none.
    pub fn class(&self, data: &[u8]) -> Option<i64> {
        match &self.answers {
            Answers::Tensor(model) => {
                let element = model.answer_type()?.element()?;
                let found = Elements::read(element, data)?;
                let is_one = model.answer_length().is_none_or(|length| length == found.len());
                found.class().filter(|_| is_one)
            }
            Answers::Text { .. } | Answers::Bytes => None,
        }
    }

    /// Returns the references, if at least one is known.
    pub fn references(&self) -> Option<&[Option<String>]> {
        match &self.answers {
            Answers::Text { references, .. } if references.iter().any(Option::is_some) => {
                Some(references)
            }
            _ => None,
        }
    }

    /// Returns the requests of a tenant in the last run with their answers, as JSON lines; empty
    /// unless the run keeps them. Requests of the ramp and cancelled ones are marked by `is_measured`.
    pub fn take_texts(&self, tenant: u8, test: &str, is_measured: &dyn Fn(u64) -> bool) -> String {
        let Answers::Text { workload, .. } = &self.answers else { return String::new() };
        let mut lines = String::new();
        for AnswerText { sequence, sample, answer } in self.client.take_texts(tenant) {
            let request = workload.input_json(sample as usize);
            let mut line = json!({
                "test": test, "query": sequence, "sample": sample, "request": request,
            });
            if !is_measured(sequence) {
                line["measured"] = false.into();
            }
            match answer {
                Ok(text) => line["answer"] = text.into(),
                Err(why) => line["error"] = why.into(),
            }
            lines += &line.to_string();
            lines.push('\n');
        }
        lines
    }

    /// Returns the late reads of the last run: their times by `clock`, and how late they were, ns.
    pub fn late_reads(&self, clock: &Clock) -> Vec<dyno_net::client::LateRead> {
        self.client.late_reads(clock)
    }
}

/// Returns the requested version of HTTP, by default HTTP/1.1.
fn version(given: &mut SpecKeys) -> Result<HttpVersion, Failure> {
    Ok(if given.switch("http2", false)? { HttpVersion::Http2 } else { HttpVersion::Http1 })
}
