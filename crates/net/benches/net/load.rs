//! The processes of a measurement: sinks, and our client under the load generator.

use std::sync::Arc;

use bytes::Bytes;
use dyno_loadgen::clock::{MILLISECOND, SECOND};
use dyno_loadgen::drive::real::RealTime;
use dyno_loadgen::drive::{Driver, Job, JobTenant, RunOutcome};
use dyno_loadgen::plan::{Library as Samples, Plan};
use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};
use dyno_loadgen::settings::{Arrivals, Scenario, TestSettings};
use dyno_loadgen::share::Share;
use dyno_loadgen::sut::SystemUnderTest;
use dyno_loadgen::trace::loadable_sets;
use dyno_net::client::{Client, Library, Options};
use dyno_net::exchange::{Fields, HttpVersion, Method, Request};
use dyno_net::ledger::AcceptedClasses;
use dyno_net::openai::{self, Input};
use dyno_net::protocol::{Answer, Protocol, ReadProgress, Reader, ReaderCall, TokenCounter};
use dyno_net::raw::{Raw, Template};
use dyno_net::sink::{Http1, Http2, StreamedAnswer};
use dyno_net::trouble::{Kind, Trouble};
use dyno_net::workload::{Format, Lengths, Prompt, SyntheticConversations, ThinkTimes, Workload};

use crate::CONCURRENCY;

const LOOPBACK: &str = "127.0.0.1:0";
const TOKENS: usize = 128;

/// Prints the address and runs until standard input ends.
fn until_input_ends(address: std::net::SocketAddr) {
    println!("{address}");
    let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
}

/// Answer of a sink to any path: media type and body.
pub const BYTES: (&str, &[u8]) = ("text/plain", b"0123456789abcdef0123456789abcdef");
/// Answer of a text server to a prompt: media type and body.
pub const COMPLETION: (&str, &[u8]) = ("application/json", br#"{"id":"1","object":"text_completion","created":1,"model":"tokens","choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3}}"#);

/// Answer of a text server to a chat: media type and body.
pub const MESSAGE: (&str, &[u8]) = ("application/json", br#"{"id":"1","object":"chat.completion","created":1,"model":"tokens","choices":[{"index":0,"message":{"role":"assistant","content":"an answer of about a hundred tokens: one two three four five six seven eight nine ten one two three four five six seven eight nine ten one two three four five six seven eight nine ten one two three four five six seven eight nine ten one two three four five six seven eight nine ten one two three four five six seven eight nine ten one two three four five six seven eight nine ten one two three four five six seven eight nine ten one two three four five six seven eight nine ten"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":100,"total_tokens":200}}"#);

pub fn sink_http1((media_type, body): (&str, &[u8])) {
    let loopback = LOOPBACK.parse().expect("an address");
    let sink = Http1::start(loopback, media_type, body).expect("a port is free");
    until_input_ends(sink.address());
}

/// Bytes of a large answer.
const LARGE: usize = 4_400_000;

/// Runs a sink whose answer takes long to parse: its text has an escaped character in each line.
pub fn sink_large() {
    let line = "and so on, word by word, until the line ends\\n";
    let text = line.repeat(LARGE / line.len());
    let body = format!(
        r#"{{"choices":[{{"index":0,"text":"{text}","finish_reason":"stop"}}],"usage":{{"prompt_tokens":2,"completion_tokens":900000}}}}"#
    );
    sink_http1(("application/json", body.leak().as_bytes()));
}

pub fn sink_http2(streams: &str) {
    let answer = StreamedAnswer {
        pieces: TOKENS,
        piece: Bytes::from_static(
            b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"}}]}\n\n",
        ),
        last: Bytes::from_static(b"data: [DONE]\n\n"),
        interval: MILLISECOND,
        // All are open at once before any token comes.
        held_until: streams.parse().expect("a number of streams"),
        streams: 100,
    };
    let sink = Http2::start(LOOPBACK.parse().expect("an address"), answer).expect("a port is free");
    until_input_ends(sink.address());
}

/// Requests a path and counts the pieces of a streamed answer.
struct Get {
    version: HttpVersion,
}

impl Protocol for Get {
    fn name(&self) -> &str {
        "get"
    }
    fn version(&self) -> HttpVersion {
        self.version
    }
    fn sample_count(&self) -> usize {
        1024
    }
    fn request(&self, _: SampleIndex) -> Request {
        Request { method: Method::Get, path: "/".into(), fields: Vec::new(), body: Bytes::new() }
    }
    fn is_streaming(&self) -> bool {
        self.version == HttpVersion::Http2
    }
    fn reader(&self) -> Box<dyn Reader> {
        let events = dyno_net::sse::Parser::default();
        Box::new(GetReader {
            streams: self.is_streaming(),
            status: 0,
            body: Vec::new(),
            events,
            tokens: 0,
        })
    }
}

struct GetReader {
    streams: bool,
    status: u16,
    body: Vec<u8>,
    events: dyno_net::sse::Parser,
    tokens: i64,
}

impl Reader for GetReader {
    fn begin(&mut self, status: u16, _: &dyn Fields) -> Result<(), Trouble> {
        (self.status, self.tokens) = (status, 0);
        self.body.clear();
        self.events.clear();
        Ok(())
    }
    fn data(&mut self, bytes: &[u8]) -> Result<ReadProgress, Trouble> {
        let mut beats = 0;
        if self.streams {
            let push = self.events.push(bytes, |event| beats += u32::from(event.data != b"[DONE]"));
            push.map_err(|_| Trouble::new(Kind::Malformed, "an event is too long"))?;
            self.tokens += i64::from(beats);
        } else {
            self.body.extend_from_slice(bytes);
        }
        Ok(ReadProgress { beats, ..ReadProgress::default() })
    }
    /// Events are split, not parsed, and bodies are copied.
    fn effort(&self, next: ReaderCall) -> usize {
        match next {
            ReaderCall::Data(bytes) => bytes / 16,
            ReaderCall::End => 0,
        }
    }
    fn end(&mut self, _: Option<&dyn Fields>) -> Result<Answer<'_>, Trouble> {
        match self.status {
            200 => Ok(Answer {
                data: &self.body,
                tokens: self.tokens,
                counted_by: TokenCounter::Events,
                entry: None,
                reply: None,
                other_model: None,
            }),
            status => Err(Trouble::of_status(Kind::Server, status, "")),
        }
    }
}

/// Returns a protocol that requests a path.
pub fn paths() -> Arc<dyn Protocol> {
    Arc::new(Get { version: HttpVersion::Http1 })
}

/// Returns a protocol that sends prompts of two words and gets whole answers.
pub fn texts() -> Arc<dyn Protocol> {
    let prompt = |number| Prompt::new(Input::Text(format!("word {number}")));
    let workload = Workload { prompts: (0..64).map(prompt).collect(), ..Workload::default() };
    Arc::new(openai::OpenAi::new(Arc::new(workload), whole_answers()))
}

fn whole_answers() -> openai::Settings {
    openai::Settings {
        model: "tokens".into(),
        is_streaming: false,
        asks_usage: false,
        max_tokens: None,
        limit_member: openai::LimitMember::default(),
        others: serde_json::Map::new(),
        tokenizer: None,
        accepted: dyno_net::ledger::AcceptedClasses::default(),
        ..openai::Settings::default()
    }
}

fn client(protocol: Arc<dyn Protocol>, address: &str, options: Options) -> (Arc<Client>, Library) {
    let node = format!("http://{address}").parse().expect("an endpoint");
    let (client, library) = Client::start(protocol, &[node], options).expect("a client starts");
    (Arc::new(client), library)
}

fn play(client: &Arc<Client>, library: &Library, settings: &TestSettings) -> RunOutcome {
    play_plan(client, library, plan(library, settings))
}

fn plan(library: &Library, settings: &TestSettings) -> Plan {
    let total = library.total_sample_count() as u64;
    Plan::resolve(settings, Samples { total, performance: total }).expect("the settings are sound")
}

fn play_plan(client: &Arc<Client>, library: &Library, plan: Plan) -> RunOutcome {
    let plan = Arc::new(plan);
    let set = loadable_sets(&plan, false, library.total_sample_count()).swap_remove(0);
    library.load(&set.samples);
    let system: Arc<dyn SystemUnderTest> = client.clone();
    let mut driver = RealTime::new(system);
    let epoch = driver.epoch(1);
    let tenant = JobTenant { plan, set: &set, samples_before: 0 };
    let played =
        driver.play(&Job { tenants: vec![tenant], accuracy: false, share: Share::WHOLE, epoch });
    let record = &played.tenants[0].record;
    assert_eq!((record.missing(), record.failed.len()), (0, 0), "{:?}", client.trouble());
    played
}

fn settings(scenario: Scenario, queries: &str) -> TestSettings {
    let queries = queries.parse().expect("a number of queries");
    TestSettings {
        scenario,
        min_duration_ms: 0,
        min_query_count: queries,
        max_query_count: queries,
        server_target_qps: 20_000.0,
        ..TestSettings::default()
    }
}

/// Prints the requests per second of an Offline run whose record holds every request.
pub fn rate(protocol: Arc<dyn Protocol>, address: &str, requests: &str) {
    let options = Options { connections: CONCURRENCY, ..Options::default() };
    let (client, library) = client(protocol, address, options);
    let played = play(&client, &library, &settings(Scenario::Offline, requests));
    let record = &played.tenants[0].record;
    let last = record.completed_at.iter().max().expect("at least one sample");
    println!("{}", record.completed_at.len() as f64 * SECOND as f64 / *last as f64);
}

/// Returns a protocol that takes the answer to a prompt unparsed.
fn raw() -> Arc<dyn Protocol> {
    let template = Template {
        method: Method::Post,
        path: "/v1/completions".into(),
        fields: vec![("content-type", "application/json".into())],
        body: r#"{"model":"tokens","prompt":{prompt}}"#.into(),
        pointer: None,
        accepted: AcceptedClasses::default(),
    };
    let rows = Format::JsonLines.rows(br#"{"prompt": "word"}"#).expect("a file");
    let rows = rows.collect::<Result<_, _>>().expect("a row");
    Arc::new(Raw::new(template, rows, HttpVersion::Http1).expect("the row has the field"))
}

/// Prints the ratio of the median latencies of a large answer, parsed and unparsed.
pub fn stamp_bias(address: &str, pairs: &str) {
    const QUERIES: &str = "10";
    let options = Options { connections: 1, ..Options::default() };
    let clients = [texts(), raw()].map(|protocol| client(protocol, address, options.clone()));
    let mut latencies = [Vec::new(), Vec::new()];
    for pair in 0..pairs.parse().expect("a number of pairs") {
        // In turn, so that neither is always the first.
        for side in [pair % 2, 1 - pair % 2] {
            let (client, library) = &clients[side];
            let played = play(client, library, &settings(Scenario::SingleStream, QUERIES));
            let record = &played.tenants[0].record;
            let ends = record.completed_at.iter().zip(&record.issued_at);
            latencies[side].extend(ends.map(|(done, issued)| (done - issued) as f64));
        }
    }
    let [parsed, as_it_is] = latencies.map(|mut all| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    });
    eprintln!("  parsed {:.1} us, taken as it is {:.1} us", parsed / 1e3, as_it_is / 1e3);
    println!("{}", parsed / as_it_is);
}

/// Prints the 99th percentile of how late requests were accepted by the socket, in us.
pub fn lateness(address: &str, queries: &str) {
    let options = Options { connections: CONCURRENCY, ..Options::default() };
    let (client, library) = client(paths(), address, options);
    let played = play(&client, &library, &settings(Scenario::Server, queries));
    let record = &played.tenants[0].record;
    let accepted = client.accepted(0, record.completed_at.len());
    let late = |query: usize| accepted[query].saturating_sub(record.scheduled(query));
    let mut late: Vec<u64> = (0..accepted.len()).map(late).collect();
    late.sort_unstable();
    let at = |quantile: f64| late[(late.len() as f64 * quantile) as usize] as f64 / 1e3;
    let mut latencies: Vec<u64> =
        record.completed_at.iter().enumerate().map(|(q, at)| at - record.scheduled(q)).collect();
    latencies.sort_unstable();
    let seen = client.statistics();
    eprintln!(
        "  lateness us: p50 {:.1}, p90 {:.1}, p99 {:.1}, p99.9 {:.1}; latency p50 {:.1}, p99 {:.1}; \
         {} waits; CPU {:.2} s",
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        latencies[latencies.len() / 2] as f64 / 1e3,
        latencies[latencies.len() * 99 / 100] as f64 / 1e3,
        seen.connection_waits,
        seen.cpu_ns as f64 / 1e9
    );
    println!("{}", at(0.99));
}

/// Prints the largest memory of a client that has all these streams open at once, in GB.
pub fn streams(address: &str, streams: &str, connections: &str) {
    let connections = connections.parse().expect("a number of connections");
    let time_limit = Some(600 * SECOND);
    let options = Options { connections, time_limit, ..Options::default() };
    let streamed = Arc::new(Get { version: HttpVersion::Http2 });
    let (client, library) = client(streamed, address, options);
    let wanted = TestSettings { use_token_latencies: true, ..settings(Scenario::Offline, streams) };
    let played = play(&client, &library, &wanted);
    let record = &played.tenants[0].record;
    assert!(record.tokens.iter().all(|&tokens| tokens == TOKENS as i64 - 1), "all tokens came");
    let seen = client.statistics();
    eprintln!(
        "  {} answers in {:.1} s over {} connections; gaps p50 {:?} ns; CPU {:.1} s",
        seen.answered,
        (played.finished_at - played.started_at) as f64 / 1e9,
        seen.connects,
        seen.gaps.quantile(0.5),
        seen.cpu_ns as f64 / 1e9
    );
    println!("{}", largest_memory() / 1e9);
}

/// Returns the largest memory of this process so far, in bytes.
fn largest_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = kib.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib * 1_024.0)
}

/// Prints the largest memory of a client with all these sessions in progress at once, in MB.
pub fn sessions(address: &str, sessions: &str) {
    let count: u32 = sessions.parse().expect("a number of sessions");
    let (turns, input) = (Lengths::Fixed(3), Lengths::Fixed(100));
    let made = SyntheticConversations {
        count: count as usize,
        turns,
        input,
        output: None,
        prefix: 0,
        seed: 1,
    };
    let workload = made.workload().expect("a size below the limit");
    // So long that all are in progress at once, although few requests are.
    let chains = workload.chains(Some(ThinkTimes(Lengths::Fixed(10_000_000))), None, 1);
    let protocol = Arc::new(openai::OpenAi::new(Arc::new(workload), whole_answers()));
    let options = Options { connections: CONCURRENCY, ..Options::default() };
    let (client, library) = client(protocol, address, options);
    let wanted = TestSettings {
        scenario: Scenario::Server,
        server_arrivals: Arrivals::Concurrency(count),
        performance_issue_unique: true,
        min_duration_ms: 0,
        min_query_count: 1,
        ..TestSettings::default()
    };
    let plan = plan(&library, &wanted).with_sessions(chains).expect("a load for sessions");
    let played = play_plan(&client, &library, plan);
    assert_eq!(played.tenants[0].record.query_count(), 3 * count as usize);
    println!("{}", largest_memory() / 1e6);
}
