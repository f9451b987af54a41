//! Stamps are those of reads from the socket: no parser is in them.
//!
//! No bound of time is asserted. A parser is held at a gate that the test opens, and the test
//! notes when it does: a stamp before that moment cannot hold the time of the parser, however
//! slow the machine is, and one that was taken after the parser cannot be before it.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use dyno_loadgen::clock::{Clock, Nanos, SECOND};
use dyno_loadgen::qsl::SampleIndex;
use dyno_loadgen::settings::{Scenario, TestSettings};
use dyno_net::client::Options;
use dyno_net::endpoint::Endpoint;
use dyno_net::exchange::{Fields, HttpVersion, Method, Request};
use dyno_net::ledger::AcceptedClasses;
use dyno_net::openai::{self, Input, OpenAi};
use dyno_net::protocol::{Answer, Protocol, ReadProgress, Reader, ReaderCall};
use dyno_net::tls::Trust;
use dyno_net::trouble::Trouble;
use dyno_net::workload::{Prompt, Workload};
use rustls::{ServerConnection, StreamOwned};

use super::encrypted::certified;
use super::faults::{Faulty, request, silence};
use super::http2;
use super::played::{client, endpoint, play_timed, settings};
use super::protocols::{Fixed, SMALL};

/// Longer than any machine takes; who waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the reader of a slow answer waits.
#[derive(Default)]
struct Gate {
    /// Whether a reader is there, and whether it may go on.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        self.state.lock().unwrap().0 = true;
        self.changed.notify_all();
        self.wait(|(_, is_open)| is_open);
    }

    fn wait(&self, until: impl Fn((bool, bool)) -> bool) {
        let state = self.state.lock().unwrap();
        let waited = self.changed.wait_timeout_while(state, PATIENCE, |state| !until(*state));
        assert!(!waited.unwrap().1.timed_out(), "nothing happens at the gate");
    }

    fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

/// Takes any answer; one that begins with `slow` is held at the gate.
struct Gated {
    version: HttpVersion,
    gate: Arc<Gate>,
}

struct GatedReader {
    gate: Arc<Gate>,
    body: Vec<u8>,
}

impl Protocol for Gated {
    fn name(&self) -> &str {
        "gated"
    }
    fn version(&self) -> HttpVersion {
        self.version
    }
    fn sample_count(&self) -> usize {
        64
    }
    fn request(&self, _: SampleIndex) -> Request {
        let body = Bytes::from_static(b"?");
        Request { method: Method::Post, path: "/".into(), fields: Vec::new(), body }
    }
    fn is_streaming(&self) -> bool {
        false
    }
    fn reader(&self) -> Box<dyn Reader> {
        Box::new(GatedReader { gate: self.gate.clone(), body: Vec::new() })
    }
}

impl Reader for GatedReader {
    fn begin(&mut self, _: u16, _: &dyn Fields) -> Result<(), Trouble> {
        self.body.clear();
        Ok(())
    }
    fn data(&mut self, bytes: &[u8]) -> Result<ReadProgress, Trouble> {
        self.body.extend_from_slice(bytes);
        Ok(ReadProgress::default())
    }
    fn end(&mut self, _: Option<&dyn Fields>) -> Result<Answer<'_>, Trouble> {
        if self.body.starts_with(b"slow") {
            self.gate.pass();
        }
        Ok(Answer::without_tokens(&self.body))
    }
    fn effort(&self, next: ReaderCall) -> usize {
        match next {
            ReaderCall::Data(_) => 0,
            ReaderCall::End => self.body.len(),
        }
    }
}

/// Answers the first request slowly to parse, with so many bytes, and others quickly.
struct Server {
    slow: usize,
    requests: AtomicUsize,
    clock: Clock,
    /// When the last byte of the slow answer was about to be written.
    wrote_at: AtomicU64,
}

impl Server {
    fn new(slow: usize) -> &'static Self {
        let (requests, wrote_at) = (AtomicUsize::new(0), AtomicU64::new(0));
        Box::leak(Box::new(Self { slow, requests, clock: Clock::start(), wrote_at }))
    }

    fn answer(&self) -> Vec<u8> {
        match self.requests.fetch_add(1, SeqCst) {
            0 => b"slow".iter().copied().chain(std::iter::repeat(b'.')).take(self.slow).collect(),
            _ => b"quick".to_vec(),
        }
    }

    /// HTTP/1.1 over any connection.
    fn serve(&self, mut stream: impl Read + Write) {
        while request(&mut stream).is_some() {
            let body = self.answer();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            let (last, first) = body.split_last().unwrap();
            let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(first));
            if body.starts_with(b"slow") {
                self.wrote_at.store(self.clock.now(), SeqCst);
            }
            if sent.and_then(|()| stream.write_all(&[*last])).is_err() {
                return;
            }
            let _ = stream.flush();
        }
    }
}

/// What carries the answers.
#[derive(Debug, Clone, Copy)]
enum Wire {
    Plain,
    Tls,
    Http2,
}

impl Wire {
    fn version(self) -> HttpVersion {
        match self {
            Self::Plain | Self::Tls => HttpVersion::Http1,
            Self::Http2 => HttpVersion::Http2,
        }
    }

    /// Starts the server. Returns what keeps it, where it is, and whom to trust.
    fn start(self, server: &'static Server) -> (Option<Faulty>, Endpoint, Trust) {
        match self {
            Self::Plain => {
                let served = Faulty::start(move |stream| server.serve(stream));
                let node = endpoint(served.address);
                (Some(served), node, Trust::default())
            }
            Self::Tls => {
                let (config, pem) = certified("localhost", 4096, b"http/1.1");
                let served = Faulty::start(move |stream| {
                    let connection = ServerConnection::new(config.clone()).unwrap();
                    server.serve(StreamOwned::new(connection, stream));
                });
                let node = format!("https://localhost:{}", served.address.port());
                (Some(served), node.parse().unwrap(), Trust::only(pem))
            }
            Self::Http2 => {
                let address = http2::serve(None, move |_, mut respond| async move {
                    let body = server.answer();
                    if body.starts_with(b"slow") {
                        server.wrote_at.store(server.clock.now(), SeqCst);
                    }
                    let head = http::Response::new(());
                    let mut sending = respond.send_response(head, false).unwrap();
                    sending.send_data(body.into(), true).unwrap();
                });
                (None, endpoint(address), Trust::default())
            }
        }
    }
}

/// Plays a run of which the first answer is held until all others are there. Checks that the
/// stamps of all of them, and its own, are before that.
fn check(wire: Wire, slow: usize, queries: u64) {
    let (gate, server) = (Arc::new(Gate::default()), Server::new(slow));
    let (_served, node, trust) = wire.start(server);
    let options = Options {
        connections: 2,
        // All connections are read by one thread.
        threads: std::num::NonZero::new(1),
        time_limit: None,
        connect_limit: 30 * SECOND,
        trust,
        ..Options::default()
    };
    let gated = Gated { version: wire.version(), gate: gate.clone() };
    let (client, library) = client(gated, &[node], options);
    let test_clock = Clock::start();
    let wanted = settings(Scenario::Offline, queries, 1.0);
    let (played, opened_at, run_clock) = std::thread::scope(|scope| {
        let play = scope.spawn(|| play_timed(&client, &library, &wanted));
        gate.wait(|(is_there, _)| is_there);
        let limit = test_clock.now() + PATIENCE.as_nanos() as Nanos;
        while client.statistics().answered < queries - 1 {
            assert!(test_clock.now() < limit, "{wire:?}: others wait for the parser");
            std::thread::yield_now();
        }
        let opened_at = test_clock.now();
        gate.open();
        let (played, run_clock) = play.join().unwrap();
        (played, opened_at, run_clock)
    });
    let record = &played.tenants[0].record;
    assert_eq!((record.missing(), record.failed.len()), (0, 0), "{:?}", client.trouble());
    assert_eq!(record.misuse.impossible_times, 0);
    let opened_at = run_clock.when(&test_clock, opened_at) - played.started_at;
    let wrote_at = run_clock.when(&server.clock, server.wrote_at.load(SeqCst)) - played.started_at;
    for &at in &record.completed_at {
        assert!(at < opened_at, "{wire:?}: {at} ns, where the parser went on at {opened_at} ns");
    }
    let is_slow = |sequence: u64| {
        record.responses.iter().any(|r| r.sequence == sequence && r.data.starts_with(b"slow"))
    };
    let slow = (0..queries).find(|&sequence| is_slow(sequence)).unwrap();
    assert!(record.completed_at[slow as usize] >= wrote_at, "{wire:?}: before it was written");
}

#[test]
fn a_large_answer_that_takes_long_to_parse_delays_no_stamp() {
    for wire in [Wire::Plain, Wire::Tls, Wire::Http2] {
        check(wire, 1 << 20, 9);
    }
}

#[test]
fn a_small_answer_that_takes_long_to_parse_has_the_time_of_its_read() {
    for wire in [Wire::Plain, Wire::Tls, Wire::Http2] {
        check(wire, 64, 1);
    }
}

fn texts() -> OpenAi {
    texts_over(HttpVersion::Http1)
}

/// Texts whose answers are streamed.
pub fn texts_over(version: HttpVersion) -> OpenAi {
    let prompt = Prompt::new(Input::Text("word".into()));
    let workload = Workload { prompts: vec![prompt], ..Workload::default() };
    let settings = openai::Settings {
        model: "m".into(),
        is_streaming: true,
        asks_usage: true,
        max_tokens: None,
        limit_member: openai::LimitMember::default(),
        others: serde_json::Map::new(),
        tokenizer: None,
        accepted: AcceptedClasses::default(),
        version,
        ..openai::Settings::default()
    };
    OpenAi::new(Arc::new(workload), settings)
}

/// A stream that says `usage`, `[DONE]` and its end long after the last output is complete with
/// that output.
#[test]
fn a_stream_is_complete_with_its_last_output() {
    static HELD: Mutex<bool> = Mutex::new(true);
    static CHANGED: Condvar = Condvar::new();
    fn event(json: &str) -> String {
        let text = format!("data: {json}\n\n");
        format!("{:x}\r\n{text}\r\n", text.len())
    }
    fn words() -> String {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        head.to_owned() + &event(r#"{"choices":[{"text":" word"}]}"#).repeat(3)
    }
    let server = Faulty::start(|mut stream| {
        while request(&mut stream).is_some() {
            stream.write_all(words().as_bytes()).unwrap();
            let held = CHANGED.wait_timeout_while(HELD.lock().unwrap(), PATIENCE, |held| *held);
            assert!(!held.unwrap().1.timed_out());
            let usage = r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":3}}"#;
            let rest = event(usage) + &event("[DONE]") + "0\r\n\r\n";
            stream.write_all(rest.as_bytes()).unwrap();
        }
    });
    let options = Options { connections: 1, time_limit: None, ..Options::default() };
    let (client, library) = client(texts(), &[endpoint(server.address)], options);
    let test_clock = Clock::start();
    let wanted =
        TestSettings { use_token_latencies: true, ..settings(Scenario::SingleStream, 1, 1.0) };
    let (played, heard_at, run_clock) = std::thread::scope(|scope| {
        let play = scope.spawn(|| play_timed(&client, &library, &wanted));
        let limit = test_clock.now() + PATIENCE.as_nanos() as Nanos;
        while client.statistics().bytes_received < words().len() as u64 {
            assert!(test_clock.now() < limit, "the words do not come");
            std::thread::yield_now();
        }
        let heard_at = test_clock.now();
        *HELD.lock().unwrap() = false;
        CHANGED.notify_all();
        let (played, run_clock) = play.join().unwrap();
        (played, heard_at, run_clock)
    });
    let record = &played.tenants[0].record;
    assert_eq!((record.missing(), record.tokens[0]), (0, 3), "{:?}", client.trouble());
    let heard_at = run_clock.when(&test_clock, heard_at) - played.started_at;
    let (first, last) = (record.first_token_at[0], record.completed_at[0]);
    assert!(0 < first && first <= last && last <= heard_at, "{first}, {last}, {heard_at}");
}

/// A stream that goes on behind `[DONE]` is read to its end, unless it brings no output for a second.
#[test]
fn output_behind_the_end_is_awaited() {
    const PAUSE: Duration = Duration::from_millis(700);
    let server = Faulty::start(|mut stream| {
        let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        let word = chunk("data: {\"choices\":[{\"text\":\" word\"}]}\n\n");
        let done = chunk("data: [DONE]\n\n");
        while request(&mut stream).is_some() {
            for part in [head.to_owned() + &word + &done, word.clone(), word.clone() + &done] {
                if stream.write_all(part.as_bytes()).is_err() {
                    return;
                }
                std::thread::park_timeout(PAUSE);
            }
            if stream.write_all(b"0\r\n\r\n").is_err() {
                return;
            }
        }
    });
    let options = Options { connections: 1, time_limit: None, ..Options::default() };
    let (client, library) = client(texts(), &[endpoint(server.address)], options);
    let wanted =
        TestSettings { use_token_latencies: true, ..settings(Scenario::SingleStream, 1, 1.0) };
    let (played, _) = play_timed(&client, &library, &wanted);
    let record = &played.tenants[0].record;
    assert_eq!((record.missing(), record.tokens[0]), (0, 3), "{:?}", client.trouble());
}

/// A body that does not end behind `[DONE]` is ended by the client, and its answer counts.
#[test]
fn a_body_that_does_not_end_is_ended_by_the_client() {
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    let server = Faulty::start(|mut stream| {
        if request(&mut stream).is_none() {
            return;
        }
        let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        let word =
            chunk("data: {\"choices\":[{\"text\":\" word\",\"finish_reason\":\"stop\"}]}\n\n");
        let done = chunk("data: [DONE]\n\n");
        stream.write_all(format!("{head}{word}{done}").as_bytes()).unwrap();
        silence(stream);
        ENDED.fetch_add(1, SeqCst);
    });
    let options = Options { connections: 1, grows: true, time_limit: None, ..Options::default() };
    let (client, library) = client(texts(), &[endpoint(server.address)], options);
    let wanted = settings(Scenario::SingleStream, 2, 1.0);
    let (played, _) = play_timed(&client, &library, &wanted);
    let record = &played.tenants[0].record;
    assert_eq!((record.missing(), record.failed.len()), (0, 0), "{:?}", client.trouble());
    let (clock, limit) = (Clock::start(), PATIENCE.as_nanos() as Nanos);
    while ENDED.load(SeqCst) < 2 {
        assert!(clock.now() < limit, "the client does not end the bodies");
        std::thread::yield_now();
    }
    assert_eq!(client.statistics().lost_connections, 0);
}

/// A server that does not read a request, which no socket takes at once, makes the request wait. That
/// is no delay of the client.
#[test]
fn a_request_is_not_late_because_the_server_does_not_read_it() {
    static READ_AT: AtomicU64 = AtomicU64::new(0);
    let clock = Clock::start();
    let server = Faulty::start(move |mut stream| {
        // The client has begun to send.
        if stream.peek(&mut [0]).is_ok_and(|n| n > 0) {
            std::thread::park_timeout(Duration::from_secs(2));
            READ_AT.store(clock.now(), SeqCst);
        }
        while request(&mut stream).is_some() {
            if stream.write_all(b"HTTP/1.1 204 x\r\n\r\n").is_err() {
                return;
            }
        }
    });
    let large = Fixed { samples: 1, body: 32 << 20, ..SMALL };
    let options = Options { connections: 1, time_limit: None, ..Options::default() };
    let (client, library) = client(large, &[endpoint(server.address)], options);
    let wanted = settings(Scenario::SingleStream, 1, 1.0);
    let (played, run_clock) = play_timed(&client, &library, &wanted);
    assert_eq!(played.tenants[0].record.missing(), 0, "{:?}", client.trouble());
    let accepted = client.accepted(0, 1)[0];
    let read_at = run_clock.when(&clock, READ_AT.load(SeqCst)) - played.started_at;
    assert!(0 < accepted && accepted < read_at, "{accepted} ns, read at {read_at} ns");
    assert!(played.tenants[0].record.completed_at[0] > read_at);
}

/// An event that no empty line ends is output when the body ends, with the time of its bytes.
#[test]
fn the_last_event_of_a_stream_is_a_token_without_its_empty_line() {
    let server = Faulty::start(|mut stream| {
        if request(&mut stream).is_some() {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            let event = r#"data: {"choices":[{"text":" word","finish_reason":"stop"}]}"#;
            let _ = stream.write_all(format!("{head}{event}").as_bytes());
        }
    });
    let options = Options { connections: 1, time_limit: None, ..Options::default() };
    let (client, library) = client(texts(), &[endpoint(server.address)], options);
    let wanted =
        TestSettings { use_token_latencies: true, ..settings(Scenario::SingleStream, 1, 1.0) };
    let (played, _) = play_timed(&client, &library, &wanted);
    let record = &played.tenants[0].record;
    assert_eq!((record.missing(), record.tokens[0]), (0, 1), "{:?}", client.trouble());
    assert_eq!(record.misuse.first_token_missing, 0);
    assert_eq!(record.first_token_at[0], record.completed_at[0]);
}
