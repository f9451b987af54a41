//! A server of HTTP/2 that reads and writes frames itself (RFC 9113): what a client sends is judged
//! without the library that the client uses.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use dyno_loadgen::clock::{Clock, MILLISECOND, Nanos, SECOND};
use dyno_loadgen::qsl::SampleIndex;
use dyno_loadgen::record::Failure;
use dyno_loadgen::settings::Scenario;
use dyno_net::client::{Cancellation, Options};
use dyno_net::exchange::{HttpVersion, Request};
use dyno_net::protocol::{Protocol, Reader};
use dyno_net::trouble::Kind;

use super::faults::Faulty;
use super::played::{client, endpoint, play, settings};
use super::protocols::Lines;
use super::troubles::check_all_fail;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const MAX_CONCURRENT_STREAMS: u8 = 3;
const INITIAL_WINDOW_SIZE: u8 = 4;
/// Code of `RST_STREAM`.
const CANCEL: u32 = 8;
/// Maximum payload that a client accepts without other settings.
const FRAME: usize = 16_384;
/// Window of a connection without other settings.
const WINDOW: usize = 65_535;
/// Longer than any machine takes.
const PATIENCE: u64 = 60 * SECOND;

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// A connection of a client.
struct Frames {
    socket: TcpStream,
    /// Bytes that may be sent on all streams together.
    window: usize,
}

impl Frames {
    /// Greets a client that may open so many streams.
    fn greet(mut socket: TcpStream, streams: u32) -> Option<Self> {
        let mut preface = [0; 24];
        socket.read_exact(&mut preface).ok()?;
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        socket.set_nodelay(true).ok()?;
        let mut frames = Self { socket, window: WINDOW };
        frames.set(MAX_CONCURRENT_STREAMS, streams);
        Some(frames)
    }

    /// Sends a setting.
    fn set(&mut self, setting: u8, value: u32) {
        self.send(SETTINGS, 0, 0, &[&[0, setting][..], &value.to_be_bytes()].concat());
    }

    /// Sends a frame. The client may be gone, which the next read shows.
    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        let _ = self.socket.write_all(&[&head[..], payload].concat());
    }

    fn send_data(&mut self, stream: u32, flags: u8, payload: &[u8]) {
        self.window = self.window.checked_sub(payload.len()).expect("the client gave window");
        self.send(DATA, flags, stream, payload);
    }

    /// Sends the head of an answer with status 200, which is entry 8 of the static table of HPACK.
    fn send_head(&mut self, stream: u32) {
        self.send(HEADERS, END_HEADERS, stream, &[0x88]);
    }

    /// Sends a whole answer of the protocol `Lines`.
    fn answer(&mut self, stream: u32) {
        self.send_head(stream);
        self.send_data(stream, END_STREAM, b"end\n");
    }

    /// Receives the next frame, and acknowledges settings and pings; `None` at the end.
    fn receive(&mut self) -> Option<Frame> {
        loop {
            let frame = self.read()?;
            match (frame.kind, frame.flags & ACK) {
                (SETTINGS, 0) => self.send(SETTINGS, ACK, 0, &[]),
                (PING, 0) => self.send(PING, ACK, 0, &frame.payload),
                (SETTINGS | PING, _) => {}
                (WINDOW_UPDATE, _) if frame.stream == 0 => {
                    self.window += number(&frame) as usize;
                    return Some(frame);
                }
                _ => return Some(frame),
            }
        }
    }

    fn read(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.socket.read_exact(&mut head).ok()?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.socket.read_exact(&mut payload).ok()?;
        Some(Frame { kind, flags, stream: u32::from_be_bytes(stream), payload })
    }
}

/// The number that a frame consists of: the code of `RST_STREAM`, the bytes of `WINDOW_UPDATE`.
fn number(frame: &Frame) -> u32 {
    u32::from_be_bytes(frame.payload[..4].try_into().unwrap())
}

/// What the server saw of cancellations.
#[derive(Default)]
struct Resets {
    /// Codes of the first reset of each stream.
    codes: Mutex<BTreeMap<u32, u32>>,
    requests: AtomicUsize,
    connections: AtomicUsize,
    /// Bytes that were sent on streams after their cancellation.
    late: AtomicUsize,
    most_open: AtomicUsize,
}

impl Resets {
    fn note(&self, frame: &Frame) -> bool {
        self.codes.lock().unwrap().insert(frame.stream, number(frame)).is_none()
    }

    fn assert_cancelled(&self, streams: impl Iterator<Item = u32>) {
        let expected: BTreeMap<u32, u32> = streams.map(|stream| (stream, CANCEL)).collect();
        assert_eq!(*self.codes.lock().unwrap(), expected);
    }
}

fn options(cancel: &str) -> Options {
    let cancellation = Some(cancel.parse::<Cancellation>().unwrap());
    let time_limit = Some(PATIENCE);
    Options { connections: 1, time_limit, connect_limit: PATIENCE, cancellation, ..quiet() }
}

fn quiet() -> Options {
    Options { threads: std::num::NonZero::new(1), ..Options::default() }
}

/// Waits for a condition of a server, which acts a moment after the client.
fn wait_until(is_so: impl Fn() -> bool, what: &str) {
    let clock = Clock::start();
    while !is_so() {
        assert!(clock.now() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

/// More than the client's window of a connection (16 MiB) comes on streams after their cancellation.
#[test]
fn a_cancelled_stream_is_reset_and_what_still_comes_is_ignored() {
    const QUERIES: u64 = 100;
    const LATE: usize = 1 << 19;
    let options = options("50%@1tok");
    let cancellation = options.cancellation.unwrap();
    let seen = Arc::<Resets>::default();
    let server = Faulty::start({
        let seen = seen.clone();
        move |socket| {
            let Some(mut frames) = Frames::greet(socket, 100) else { return };
            seen.connections.fetch_add(1, SeqCst);
            let mut owed: VecDeque<(u32, usize)> = VecDeque::new();
            while let Some(frame) = frames.receive() {
                if frame.kind == HEADERS {
                    let query = u64::from(frame.stream / 2);
                    frames.send_head(frame.stream);
                    if cancellation.chooses(0, query) {
                        frames.send_data(frame.stream, 0, b"x\n");
                    } else {
                        frames.send_data(frame.stream, END_STREAM, b"x\nend\n");
                    }
                } else if frame.kind == RST_STREAM && seen.note(&frame) {
                    owed.push_back((frame.stream, LATE));
                }
                while let Some((stream, left)) = owed.front_mut() {
                    let bytes = FRAME.min(*left).min(frames.window);
                    if bytes == 0 {
                        break;
                    }
                    frames.send_data(*stream, 0, &vec![b'x'; bytes]);
                    seen.late.fetch_add(bytes, SeqCst);
                    *left -= bytes;
                    if *left == 0 {
                        owed.pop_front();
                    }
                }
            }
        }
    });
    let (client, library) = client(Lines(HttpVersion::Http2), &[endpoint(server.address)], options);
    // One request after the other, so that streams have the order of the samples.
    let played = play(&client, &library, &settings(Scenario::SingleStream, QUERIES, 1.0));
    let chosen: Vec<u64> = (0..QUERIES).filter(|query| cancellation.chooses(0, *query)).collect();
    let late = chosen.len() * LATE;
    assert!(late > 17 << 20, "{late}");
    wait_until(|| seen.late.load(SeqCst) == late, "the window of the connection is lost");
    let failed: Vec<_> = chosen.iter().map(|query| (*query, Failure::Cancelled)).collect();
    assert_eq!((played.record.missing(), &played.record.failed), (0, &failed));
    let statistics = client.statistics();
    assert_eq!((statistics.answered, statistics.failed()), (QUERIES - failed.len() as u64, 0));
    assert_eq!((statistics.connects, statistics.lost_connections), (1, 0), "{statistics:?}");
    assert_eq!(seen.connections.load(SeqCst), 1);
    seen.assert_cancelled(chosen.iter().map(|query| 2 * *query as u32 + 1));
}

/// Far more streams are cancelled than libraries remember, and far more small frames come for them
/// than libraries accept from a hostile server.
#[test]
fn thousands_of_cancellations_leave_the_connection_open() {
    const SAMPLES: u64 = 4_000;
    const LATE_FRAMES: usize = 12;
    let seen = Arc::<Resets>::default();
    let server = Faulty::start({
        let seen = seen.clone();
        move |socket| {
            let Some(mut frames) = Frames::greet(socket, 1_000) else { return };
            seen.connections.fetch_add(1, SeqCst);
            while let Some(frame) = frames.receive() {
                if frame.kind == HEADERS {
                    seen.requests.fetch_add(1, SeqCst);
                    frames.send_head(frame.stream);
                    frames.send_data(frame.stream, 0, b"x\n");
                } else if frame.kind == RST_STREAM && seen.note(&frame) {
                    (0..LATE_FRAMES).for_each(|_| frames.send_data(frame.stream, 0, b"x\n"));
                }
            }
        }
    });
    let (client, library) =
        client(Lines(HttpVersion::Http2), &[endpoint(server.address)], options("100%@1tok"));
    // When the second run ends, the client has read all that came late in the first one.
    for samples in [SAMPLES, 10] {
        let played = play(&client, &library, &settings(Scenario::Offline, samples, 1.0));
        assert_eq!(played.record.missing(), 0, "{:?}", client.trouble());
        assert_eq!(played.record.failed.len() as u64, samples);
        let is_cancelled = |(_, why): &(u64, Failure)| *why == Failure::Cancelled;
        assert!(played.record.failed.iter().all(is_cancelled), "{:?}", client.trouble());
    }
    let statistics = client.statistics();
    assert_eq!((statistics.connects, statistics.lost_connections), (1, 0), "{statistics:?}");
    assert_eq!(seen.connections.load(SeqCst), 1);
    let sent = SAMPLES as u32 + 10;
    assert_eq!(seen.requests.load(SeqCst), sent as usize);
    wait_until(|| seen.codes.lock().unwrap().len() == sent as usize, "a stream was not reset");
    seen.assert_cancelled((0..sent).map(|request| 2 * request + 1));
}

/// A sample waits until a cancelled stream has freed its place, and its time counts from then on.
#[test]
fn requests_beyond_the_limit_of_the_server_wait_and_the_limit_is_stated() {
    const SAMPLES: u64 = 6;
    let seen = Arc::<Resets>::default();
    let server = Faulty::start({
        let seen = seen.clone();
        move |socket| {
            let Some(mut frames) = Frames::greet(socket, 2) else { return };
            let mut open = 0_usize;
            while let Some(frame) = frames.receive() {
                if frame.kind == HEADERS {
                    seen.requests.fetch_add(1, SeqCst);
                    open += 1;
                    seen.most_open.fetch_max(open, SeqCst);
                } else if frame.kind == RST_STREAM && seen.note(&frame) {
                    open -= 1;
                }
            }
        }
    });
    let (client, library) =
        client(Lines(HttpVersion::Http2), &[endpoint(server.address)], options("100%@50ms"));
    let played = play(&client, &library, &settings(Scenario::Offline, SAMPLES, 1.0));
    assert_eq!((played.record.missing(), played.record.failed.len()), (0, SAMPLES as usize));
    wait_until(|| seen.codes.lock().unwrap().len() == SAMPLES as usize, "not all were reset");
    assert_eq!(seen.requests.load(SeqCst), SAMPLES as usize);
    assert_eq!(seen.most_open.load(SeqCst), 2);
    seen.assert_cancelled((0..SAMPLES as u32).map(|request| 2 * request + 1));
    let statistics = client.statistics();
    assert_eq!(statistics.stream_limit, Some(2));
    assert!(statistics.queue_waits >= SAMPLES - 2, "{statistics:?}");
    assert_eq!(statistics.failed(), 0);
}

/// The first connection gets four requests, of which GOAWAY excludes two. The other two go on until
/// a later connection has answered a request.
#[test]
fn goaway_leaves_the_streams_up_to_the_last_and_the_others_are_sent_again() {
    const SAMPLES: u64 = 10;
    let connections = AtomicUsize::new(0);
    let answered = AtomicUsize::new(0);
    let server = Faulty::start(move |socket| {
        let number = connections.fetch_add(1, SeqCst);
        let Some(mut frames) = Frames::greet(socket, 4) else { return };
        let mut requests = 0;
        while let Some(frame) = frames.receive() {
            if frame.kind != HEADERS {
                continue;
            }
            requests += 1;
            if number > 0 {
                frames.answer(frame.stream);
                answered.fetch_add(1, SeqCst);
            } else if requests == 4 {
                // The last stream, and no error.
                frames.send(GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]);
                wait_until(|| answered.load(SeqCst) > 0, "no new connection was used");
                [1, 3].into_iter().for_each(|stream| frames.answer(stream));
            }
        }
    });
    let time_limit = Some(2 * PATIENCE);
    let options = Options { connections: 1, time_limit, connect_limit: PATIENCE, ..quiet() };
    let (client, library) = client(Lines(HttpVersion::Http2), &[endpoint(server.address)], options);
    let played = play(&client, &library, &settings(Scenario::Offline, SAMPLES, 1.0));
    let (record, seen) = (&played.record, client.statistics());
    assert_eq!((record.missing(), record.failed.len()), (0, 0), "{seen:?}");
    assert_eq!((seen.answered, seen.connects), (SAMPLES, 2), "{seen:?}");
    // The server did not process them, so that they are no failures and need no `retries`.
    assert_eq!((seen.retries.len(), seen.retries[&Kind::Closed]), (1, 2), "{seen:?}");
    assert!(seen.troubles.is_empty(), "{seen:?}");
    assert_eq!(client.retries(0, SAMPLES as usize).iter().sum::<u64>(), 2);
}

#[test]
fn requests_that_a_server_never_processes_fail() {
    let server = Faulty::start(|socket| {
        let Some(mut frames) = Frames::greet(socket, 100) else { return };
        while let Some(frame) = frames.receive() {
            if frame.kind == HEADERS {
                frames.send(GOAWAY, 0, 0, &[0; 8]);
            }
        }
    });
    let options = Options { connections: 1, connect_limit: PATIENCE, ..quiet() };
    let words = "ended the connection without processing the request";
    check_all_fail(lines, &endpoint(server.address), &options, Kind::Refused, words);
}

#[test]
fn a_server_that_ends_each_connection_before_any_request_is_named() {
    let server = Faulty::start(|socket| {
        let Some(mut frames) = Frames::greet(socket, 100) else { return };
        frames.send(GOAWAY, 0, 0, &[0; 8]);
        // It answers no ping any more.
        while frames.read().is_some() {}
    });
    let options = Options { connections: 1, connect_limit: PATIENCE, ..quiet() };
    let words = "ended the connection before any request";
    check_all_fail(lines, &endpoint(server.address), &options, Kind::Closed, words);
}

#[test]
fn frames_without_data_that_the_client_does_not_read_are_no_refusal() {
    let server = Faulty::start(|socket| {
        let Some(mut frames) = Frames::greet(socket, 100) else { return };
        while let Some(frame) = frames.receive() {
            if frame.kind == HEADERS {
                frames.send_head(frame.stream);
                (0..200).for_each(|_| frames.send(DATA, 0, frame.stream, b""));
            }
        }
    });
    let options = Options { connections: 1, connect_limit: PATIENCE, ..quiet() };
    let words = "sent more frames without data than the client reads";
    check_all_fail(lines, &endpoint(server.address), &options, Kind::Malformed, words);
}

/// After four answers the server ends the connection, and it takes its time to accept the next one. Returns
/// when the client counts the last request as sent, and a time before which there was no new connection, both
/// in ns since the start of the run.
fn play_with_an_outage() -> (Nanos, Nanos) {
    const SAMPLES: u64 = 20;
    let (clock, connections) = (Clock::start(), AtomicUsize::new(0));
    let times = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let seen_times = times.clone();
    let server = Faulty::start(move |socket| {
        let [first_request, greeting] = &*seen_times;
        let number = connections.fetch_add(1, SeqCst);
        if number == 1 {
            std::thread::park_timeout(std::time::Duration::from_secs(1));
            greeting.store(clock.now(), SeqCst);
        }
        let Some(mut frames) = Frames::greet(socket, 100) else { return };
        let mut requests = 0;
        while let Some(frame) = frames.receive() {
            if frame.kind != HEADERS {
                continue;
            }
            let _ = first_request.compare_exchange(0, clock.now(), SeqCst, SeqCst);
            frames.answer(frame.stream);
            requests += 1;
            if number == 0 && requests == 4 {
                let last = frame.stream.to_be_bytes();
                frames.send(GOAWAY, 0, 0, &[&last[..], &[0; 4]].concat());
            }
        }
    });
    let time_limit = Some(PATIENCE);
    let options = Options { connections: 1, time_limit, connect_limit: PATIENCE, ..quiet() };
    let (client, library) = client(Lines(HttpVersion::Http2), &[endpoint(server.address)], options);
    let played = play(&client, &library, &settings(Scenario::Server, SAMPLES, 200.0));
    let (record, seen) = (&played.record, client.statistics());
    assert_eq!((record.missing(), record.failed.len()), (0, 0), "{seen:?}");
    assert!(seen.connection_waits > 0 && seen.queue_waits == 0, "{seen:?}");
    let accepted = client.accepted(0, SAMPLES as usize);
    // The run began before the server saw its first request.
    let [first_request, greeting] = times.each_ref().map(|at| at.load(SeqCst));
    (accepted[SAMPLES as usize - 1], greeting - first_request)
}

/// Only a machine that stops the client for a second after it has got the new connection makes the order
/// another one.
#[test]
fn waits_for_a_new_connection_are_no_queue_of_the_client() {
    let mut runs = (0..3).map(|_| play_with_an_outage());
    // A request counts as sent when it would have been with a connection.
    assert!(runs.any(|(sent_at, connected_at)| sent_at < connected_at));
}

fn lines() -> Box<dyn Protocol> {
    Box::new(Lines(HttpVersion::Http2))
}

fn impatient() -> Options {
    Options { time_limit: Some(300 * MILLISECOND), connect_limit: PATIENCE, ..quiet() }
}

#[test]
fn a_server_that_permits_no_stream_is_waited_for_as_long_as_for_an_answer() {
    let server = Faulty::start(|socket| {
        let Some(mut frames) = Frames::greet(socket, 0) else { return };
        while frames.receive().is_some() {}
    });
    let words = "permitted no stream within 0.3 s (SETTINGS_MAX_CONCURRENT_STREAMS is 0)";
    check_all_fail(lines, &endpoint(server.address), &impatient(), Kind::TimedOut, words);
}

#[test]
fn a_server_that_accepts_no_body_is_waited_for_as_long_as_for_an_answer() {
    let server = Faulty::start(|socket| {
        let Some(mut frames) = Frames::greet(socket, 100) else { return };
        frames.set(INITIAL_WINDOW_SIZE, 0);
        while frames.receive().is_some() {}
    });
    let words = "its SETTINGS_INITIAL_WINDOW_SIZE is 0";
    check_all_fail(lines, &endpoint(server.address), &impatient(), Kind::TimedOut, words);
}

/// Lines with a body that is larger than the window of a connection.
struct LongBodies(Lines);

impl Protocol for LongBodies {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn version(&self) -> HttpVersion {
        self.0.version()
    }
    fn sample_count(&self) -> usize {
        self.0.sample_count()
    }
    fn request(&self, sample: SampleIndex) -> Request {
        Request { body: vec![b'x'; 100_000].into(), ..self.0.request(sample) }
    }
    fn is_streaming(&self) -> bool {
        self.0.is_streaming()
    }
    fn reader(&self) -> Box<dyn Reader> {
        self.0.reader()
    }
}

#[test]
fn a_server_that_never_raises_the_window_of_a_connection_is_named() {
    let server = Faulty::start(|socket| {
        let Some(mut frames) = Frames::greet(socket, 100) else { return };
        frames.set(INITIAL_WINDOW_SIZE, 1 << 20);
        while frames.receive().is_some() {}
    });
    let long = || -> Box<dyn Protocol> { Box::new(LongBodies(Lines(HttpVersion::Http2))) };
    let words = "it permits 65535 bytes of bodies on the connection so far (WINDOW_UPDATE)";
    check_all_fail(long, &endpoint(server.address), &impatient(), Kind::TimedOut, words);
}

/// The client learns the limit of 0 before it opens a stream, and the higher one while samples wait.
#[test]
fn samples_go_on_when_a_server_permits_streams_again() {
    const SAMPLES: u64 = 6;
    let server = Faulty::start(|socket| {
        let Some(mut frames) = Frames::greet(socket, 0) else { return };
        loop {
            let Some(frame) = frames.read() else { return };
            match (frame.kind, frame.flags & ACK) {
                (SETTINGS, 0) => frames.send(SETTINGS, ACK, 0, &[]),
                (PING, 0) => {
                    frames.send(PING, ACK, 0, &frame.payload);
                    break;
                }
                _ => {}
            }
        }
        std::thread::park_timeout(std::time::Duration::from_millis(200));
        frames.set(MAX_CONCURRENT_STREAMS, 2);
        while let Some(frame) = frames.receive() {
            if frame.kind == HEADERS {
                frames.answer(frame.stream);
            }
        }
    });
    let time_limit = Some(PATIENCE);
    let options = Options { connections: 1, time_limit, connect_limit: PATIENCE, ..quiet() };
    let (client, library) = client(Lines(HttpVersion::Http2), &[endpoint(server.address)], options);
    let played = play(&client, &library, &settings(Scenario::Offline, SAMPLES, 1.0));
    let seen = client.statistics();
    assert_eq!((played.record.missing(), played.record.failed.len()), (0, 0), "{seen:?}");
    assert_eq!((seen.answered, seen.connects), (SAMPLES, 1), "{seen:?}");
}
