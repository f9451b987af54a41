//! How many connections a client keeps and how many requests it has in flight, by the count of a
//! server that serves each connection with a thread of its own.

use std::io::{Read as _, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use dyno_loadgen::clock::{Clock, SECOND};
use dyno_loadgen::settings::{Arrivals, Scenario, TestSettings};
use dyno_net::client::Options;
use dyno_net::exchange::HttpVersion;
use dyno_net::tls::Trust;
use rustls::{ServerConnection, StreamOwned};

use super::encrypted::certified;
use super::faults::{Faulty, request};
use super::http2;
use super::played::{client, endpoint, play, settings};
use super::protocols::{Fixed, SMALL};
use super::stamps::texts_over;

/// Longer than any machine takes; who waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the server counts.
#[derive(Default)]
struct Counts {
    connections: AtomicUsize,
    open: AtomicUsize,
    in_flight: Mutex<usize>,
    most_in_flight: AtomicUsize,
    changed: Condvar,
}

impl Counts {
    fn new() -> &'static Self {
        Box::leak(Box::default())
    }

    fn came(&self) {
        let mut in_flight = self.in_flight.lock().unwrap();
        *in_flight += 1;
        self.most_in_flight.fetch_max(*in_flight, SeqCst);
        self.changed.notify_all();
    }

    /// Waits until so many requests have been in flight at once.
    fn wait_for(&self, requests: usize) {
        let in_flight = self.in_flight.lock().unwrap();
        let too_few = |_: &mut usize| self.most_in_flight.load(SeqCst) < requests;
        let waited = self.changed.wait_timeout_while(in_flight, PATIENCE, too_few).unwrap();
        assert!(!waited.1.timed_out(), "never {requests} requests in flight");
    }

    /// Waits until so many connections are open: the server notices a closed one a moment later.
    fn wait_until_open(&self, connections: usize) {
        let clock = Clock::start();
        while self.open.load(SeqCst) != connections {
            assert!(clock.now() < PATIENCE.as_nanos() as u64, "not {connections} connections");
            std::thread::yield_now();
        }
    }

    fn goes(&self) {
        *self.in_flight.lock().unwrap() -= 1;
    }

    /// Serves a connection; no request is answered before so many were in flight at once.
    fn serve(&self, mut stream: TcpStream, at_once: usize) {
        self.connections.fetch_add(1, SeqCst);
        self.open.fetch_add(1, SeqCst);
        while request(&mut stream).is_some() {
            self.came();
            self.wait_for(at_once);
            self.goes();
            if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes").is_err() {
                break;
            }
        }
        self.open.fetch_sub(1, SeqCst);
    }
}

fn options(connections: usize, grows: bool) -> Options {
    let time_limit = Some(PATIENCE.as_nanos() as u64);
    Options { connections, grows, time_limit, connect_limit: 30 * SECOND, ..Options::default() }
}

fn concurrency(in_flight: u32, queries: u64) -> TestSettings {
    let server_arrivals = Arrivals::Concurrency(in_flight);
    TestSettings { server_arrivals, ..settings(Scenario::Server, queries, 1.0) }
}

#[test]
fn a_concurrency_of_any_size_is_in_flight_over_as_many_connections() {
    for in_flight in [1, 3, 96] {
        let counts = Counts::new();
        let at_once = in_flight as usize;
        let server = Faulty::start(move |stream| counts.serve(stream, at_once));
        let (client, library) = client(SMALL, &[endpoint(server.address)], options(64, true));
        let played = play(&client, &library, &concurrency(in_flight, 300));
        assert_eq!((played.record.missing(), played.record.failed.len()), (0, 0));
        assert_eq!(counts.most_in_flight.load(SeqCst), at_once);
        assert_eq!(counts.connections.load(SeqCst), at_once);
        let seen = client.statistics();
        assert_eq!((seen.connection_waits, seen.lost_connections), (0, 0), "{in_flight}");
    }
}

#[test]
fn a_run_keeps_the_connections_that_it_needs_and_closes_others() {
    let counts = Counts::new();
    let server = Faulty::start(move |stream| counts.serve(stream, 1));
    let (client, library) = client(SMALL, &[endpoint(server.address)], options(64, true));
    client.reach().unwrap();
    counts.wait_until_open(1);
    for (wanted, settings) in [
        (1, settings(Scenario::Offline, 1, 1.0)),
        (1, settings(Scenario::SingleStream, 20, 1.0)),
        (8, settings(Scenario::MultiStream, 5, 1.0)),
        (2, concurrency(2, 20)),
        (1, settings(Scenario::SingleStream, 20, 1.0)),
    ] {
        let before = counts.connections.load(SeqCst);
        let open = counts.open.load(SeqCst);
        let played = play(&client, &library, &settings);
        assert_eq!(played.record.missing(), 0);
        let made = counts.connections.load(SeqCst) - before;
        assert!(made <= usize::saturating_sub(wanted, open), "{made} made for {wanted}");
        counts.wait_until_open(wanted);
    }
    assert_eq!(client.statistics().lost_connections, 0);
}

#[test]
fn a_rate_makes_connections_on_demand() {
    let counts = Counts::new();
    // The first answers come when six requests are in flight.
    let server = Faulty::start(move |stream| counts.serve(stream, 6));
    let (client, library) = client(SMALL, &[endpoint(server.address)], options(1, true));
    let played = play(&client, &library, &settings(Scenario::Server, 60, 2_000.0));
    assert_eq!((played.record.missing(), played.record.failed.len()), (0, 0));
    let most = counts.most_in_flight.load(SeqCst);
    assert!((6..=60).contains(&most), "{most}");
    assert!(counts.connections.load(SeqCst) >= most);
}

/// Connections that carry nothing would keep others from a server with few threads.
#[test]
fn a_rate_opens_no_connection_that_carries_no_request() {
    static UNUSED: AtomicUsize = AtomicUsize::new(0);
    let counts = Counts::new();
    // All requests of a time are in flight at once.
    let server = Faulty::start(move |mut stream| {
        counts.connections.fetch_add(1, SeqCst);
        let mut served = 0;
        while request(&mut stream).is_some() {
            served += 1;
            counts.came();
            if served == 1 {
                counts.wait_for(6);
            }
            counts.goes();
            if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes").is_err() {
                break;
            }
        }
        UNUSED.fetch_add(usize::from(served == 0), SeqCst);
    });
    let (client, library) = client(SMALL, &[endpoint(server.address)], options(1, true));
    // Six at once, and later four.
    let at = |seconds: u64, queries: usize| std::iter::repeat_n(seconds * SECOND, queries);
    let times: Vec<_> = at(0, 6).chain(at(1, 4)).collect();
    let server_arrivals = Arrivals::Replay(times.into());
    let wanted = TestSettings { server_arrivals, ..settings(Scenario::Server, 10, 1.0) };
    let played = play(&client, &library, &wanted);
    assert_eq!((played.record.missing(), played.record.failed.len()), (0, 0));
    assert_eq!(client.statistics().connects, 6);
    drop(client);
    assert_eq!((counts.connections.load(SeqCst), UNUSED.load(SeqCst)), (6, 0));
}

#[test]
fn a_request_takes_a_connection_that_becomes_idle_before_its_own_is_made() {
    static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);
    static ANSWERED: AtomicUsize = AtomicUsize::new(0);
    static ABANDONED: AtomicUsize = AtomicUsize::new(0);
    fn wait_for(count: &AtomicUsize, least: usize) {
        let clock = Clock::start();
        while count.load(SeqCst) < least {
            assert!(clock.now() < PATIENCE.as_nanos() as u64, "waits for {least} in vain");
            std::thread::yield_now();
        }
    }
    let (config, pem) = certified("localhost", 4096, b"http/1.1");
    let server = Faulty::start(move |mut stream| {
        if CONNECTIONS.fetch_add(1, SeqCst) > 0 {
            // No handshake: it ends when the client gives the attempt up.
            let mut buffer = [0; 4096];
            while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
            ABANDONED.fetch_add(1, SeqCst);
            return;
        }
        let connection = ServerConnection::new(config.clone()).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        while request(&mut stream).is_some() {
            // The first answer comes when the client makes a connection for the second request.
            wait_for(&CONNECTIONS, 2);
            ANSWERED.fetch_add(1, SeqCst);
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes";
            if stream.write_all(answer).and_then(|()| stream.flush()).is_err() {
                return;
            }
        }
    });
    let node = format!("https://localhost:{}", server.address.port()).parse().unwrap();
    let trust = Trust::only(pem);
    // Longer than the test waits: nothing else ends the attempt.
    let options = Options { trust, connect_limit: 600 * SECOND, ..options(1, true) };
    let (client, library) = client(SMALL, &[node], options);
    let times = vec![0, 0].into();
    let server_arrivals = Arrivals::Replay(times);
    let wanted = TestSettings { server_arrivals, ..settings(Scenario::Server, 2, 1.0) };
    let played = play(&client, &library, &wanted);
    assert_eq!((played.record.missing(), played.record.failed.len()), (0, 0));
    assert_eq!(ANSWERED.load(SeqCst), 2);
    wait_for(&ABANDONED, 1);
    let seen = client.statistics();
    assert_eq!((seen.connects, seen.lost_connections), (1, 0), "{seen:?}");
}

/// One of two connections is never established, so that each request waits for the next connection after that
/// of another one.
#[test]
fn a_request_is_not_late_because_the_server_does_not_establish_its_connection() {
    const SERVICE: Duration = Duration::from_millis(40);
    const QUERIES: u64 = 20;
    static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);
    let (config, pem) = certified("localhost", 4096, b"http/1.1");
    let server = Faulty::start(move |mut stream| {
        // The first two are opened before the run.
        if CONNECTIONS.fetch_add(1, SeqCst) == 2 {
            let mut buffer = [0; 4096];
            while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
            return;
        }
        let connection = ServerConnection::new(config.clone()).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        while request(&mut stream).is_some() {
            std::thread::park_timeout(SERVICE);
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes";
            if stream.write_all(answer).and_then(|()| stream.flush()).is_err() {
                return;
            }
        }
    });
    let node = format!("https://localhost:{}", server.address.port()).parse().unwrap();
    let trust = Trust::only(pem);
    let options =
        Options { trust, keep_alive: false, connect_limit: 600 * SECOND, ..options(2, true) };
    let (client, library) = client(SMALL, &[node], options);
    let played = play(&client, &library, &concurrency(2, QUERIES));
    let record = &played.record;
    assert_eq!((record.missing(), record.failed.len()), (0, 0), "{:?}", client.trouble());
    let accepted = client.accepted(0, QUERIES as usize);
    let is_late = |(sample, at): &(usize, &u64)| {
        at.saturating_sub(record.scheduled(*sample)) > SERVICE.as_nanos() as u64 / 2
    };
    let late = accepted.iter().enumerate().filter(is_late).count();
    assert!(late < QUERIES as usize / 2, "{late} of {QUERIES} requests are late");
}

/// For the server a request is in flight until the body of its answer has ended.
#[test]
fn a_request_is_in_flight_until_the_body_of_its_answer_ends() {
    const WORD: &str = "data: {\"choices\":[{\"text\":\" word\",\"finish_reason\":\"stop\"}]}\n\n";
    const DONE: &str = "data: [DONE]\n\n";
    const LATER: Duration = Duration::from_millis(30);
    let counts = Counts::new();
    let server = Faulty::start(move |mut stream| {
        counts.connections.fetch_add(1, SeqCst);
        while request(&mut stream).is_some() {
            counts.came();
            let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                        transfer-encoding: chunked\r\n\r\n";
            let answer = format!("{head}{}{}", chunk(WORD), chunk(DONE));
            stream.write_all(answer.as_bytes()).unwrap();
            std::thread::park_timeout(LATER);
            counts.goes();
            if stream.write_all(b"0\r\n\r\n").is_err() {
                return;
            }
        }
    });
    let (client, library) =
        client(texts_over(HttpVersion::Http1), &[endpoint(server.address)], options(64, true));
    let played = play(&client, &library, &concurrency(2, 12));
    assert_eq!((played.record.missing(), played.record.failed.len()), (0, 0));
    assert_eq!(counts.most_in_flight.load(SeqCst), 2);
    assert_eq!(counts.connections.load(SeqCst), 2);
}

#[test]
fn a_stream_of_http2_is_in_flight_until_it_ends() {
    let counts = Counts::new();
    let address = http2::serve(None, move |_, mut respond| async move {
        counts.came();
        let head = http::Response::builder().header("content-type", "text/event-stream");
        let mut sending = respond.send_response(head.body(()).unwrap(), false).unwrap();
        let events = "data: {\"choices\":[{\"text\":\" word\",\"finish_reason\":\"stop\"}]}\n\n\
                      data: [DONE]\n\n";
        sending.send_data(bytes::Bytes::from_static(events.as_bytes()), false).unwrap();
        tokio::time::sleep(Duration::from_millis(30)).await;
        counts.goes();
        sending.send_data(bytes::Bytes::new(), true).unwrap();
    });
    let protocol = texts_over(HttpVersion::Http2);
    let (client, library) = client(protocol, &[endpoint(address)], options(1, false));
    let played = play(&client, &library, &concurrency(2, 12));
    assert_eq!((played.record.missing(), played.record.failed.len()), (0, 0));
    assert_eq!(counts.most_in_flight.load(SeqCst), 2);
}

/// Of any limit, over both versions, to one and to two servers: never more, all of it is used,
/// and who waits for it waits for nothing else.
#[test]
fn a_limit_of_requests_in_flight_is_never_exceeded() {
    for limit in [1_usize, 2, 3, 7] {
        for (version, nodes) in
            [(HttpVersion::Http1, 1), (HttpVersion::Http1, 2), (HttpVersion::Http2, 1)]
        {
            if limit < nodes {
                continue;
            }
            let counts = Counts::new();
            let mut servers = Vec::new();
            let addresses = (0..nodes).map(|_| match version {
                HttpVersion::Http1 => {
                    let server = Faulty::start(move |stream| counts.serve(stream, limit));
                    let address = server.address;
                    servers.push(server);
                    address
                }
                HttpVersion::Http2 => http2::serve(None, move |_, mut respond| async move {
                    counts.came();
                    while counts.most_in_flight.load(SeqCst) < limit {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    counts.goes();
                    let mut sending =
                        respond.send_response(http::Response::new(()), false).unwrap();
                    sending.send_data(bytes::Bytes::from_static(b"yes"), true).unwrap();
                }),
            });
            let nodes: Vec<_> = addresses.map(endpoint).collect();
            let max_in_flight = std::num::NonZero::new(limit);
            let options = Options { max_in_flight, ..options(64, true) };
            let protocol = Fixed { version, ..SMALL };
            let (client, library) = client(protocol, &nodes, options);
            let played = play(&client, &library, &settings(Scenario::Server, 200, 1e6));
            let record = &played.record;
            assert_eq!((record.missing(), record.failed.len()), (0, 0), "{:?}", client.trouble());
            assert_eq!(counts.most_in_flight.load(SeqCst), limit, "{version:?}");
            let seen = client.statistics();
            // There are more connections and streams than requests. A busy thread is no queue.
            assert_eq!(seen.queue_waits, 0, "{version:?}, {limit}: {seen:?}");
            assert!(seen.limit_waits > 0 && seen.limited_ns >= seen.longest_limited_ns);
            let (held, accepted) = (client.held(0, 200), client.accepted(0, 200));
            let waited = held.iter().filter(|&&at| at > 0).count() as u64;
            assert_eq!(waited, seen.limit_waits);
            for (sample, (&held, &accepted)) in held.iter().zip(&accepted).enumerate() {
                assert!(held <= accepted, "sample {sample}");
                assert!(held == 0 || held >= record.scheduled(sample), "sample {sample}");
            }
        }
    }
}

#[test]
fn fewer_connections_than_a_rate_needs_are_a_queue_of_the_clients() {
    let counts = Counts::new();
    let server = Faulty::start(move |stream| counts.serve(stream, 2));
    let (client, library) = client(SMALL, &[endpoint(server.address)], options(2, false));
    assert_eq!(client.most_in_flight(), Some(2));
    let played = play(&client, &library, &settings(Scenario::Server, 100, 1e6));
    assert_eq!(played.record.missing(), 0);
    assert_eq!(counts.most_in_flight.load(SeqCst), 2);
    let seen = client.statistics();
    assert!(seen.queue_waits > 0 && seen.limit_waits == 0, "{seen:?}");
    assert!(client.held(0, 100).iter().all(|&at| at == 0));
}

#[test]
fn a_limit_below_the_number_of_servers_is_refused() {
    let nodes = ["http://127.0.0.1:1", "http://127.0.0.1:2"].map(|url| url.parse().unwrap());
    let options = Options { max_in_flight: std::num::NonZero::new(1), ..options(1, true) };
    let started = dyno_net::client::Client::start(Arc::new(SMALL), &nodes, options);
    assert!(started.is_err_and(|error| error.to_string().contains("each of 2 servers")));
}

/// Such as one with a thread for each connection, and one thread: connections that carry nothing
/// would keep it from all others.
#[test]
fn a_server_of_one_connection_at_a_time_answers_one_query_at_a_time() {
    let counts = Counts::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            counts.serve(stream.unwrap(), 1);
        }
    });
    let (client, library) = client(SMALL, &[endpoint(address)], options(64, true));
    client.reach().unwrap();
    for settings in [
        settings(Scenario::Offline, 1, 1.0),
        settings(Scenario::SingleStream, 50, 1.0),
        concurrency(1, 50),
    ] {
        let played = play(&client, &library, &settings);
        let record = &played.record;
        assert_eq!((record.missing(), record.failed.len()), (0, 0), "{:?}", client.trouble());
    }
    assert_eq!(counts.connections.load(SeqCst), 1);
}
