//! Whatever servers do, each failure is counted and explained, and the run ends.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dyno_loadgen::clock::{Clock, MILLISECOND, SECOND};
use dyno_loadgen::record::Failure;
use dyno_loadgen::settings::Scenario;
use dyno_net::client::{ClientStatistics, Options};
use dyno_net::endpoint::Endpoint;
use dyno_net::exchange::HttpVersion;
use dyno_net::protocol::Protocol;
use dyno_net::trouble::Kind;

use super::faults::{Faulty, always, nobody, once, request, silence};
use super::played::{client, endpoint, play, settings};
use super::protocols::{Fixed, Lines, SMALL};

const SAMPLES: u64 = 40;
/// No run of these tests has reason to take longer, on however slow a machine.
const DEADLINE: u64 = 30 * SECOND;

/// Patient: a busy machine may take its time.
fn options() -> Options {
    let time_limit = Some(20 * SECOND);
    Options { connections: 4, time_limit, connect_limit: 20 * SECOND, ..Options::default() }
}

/// For servers that never answer.
fn impatient() -> Options {
    Options { time_limit: Some(300 * MILLISECOND), ..options() }
}

/// Plays Offline, where all samples wait for connections, and Server, where the issuing thread
/// finds them; checks that all of them failed, of this kind, in these words.
pub fn check_all_fail(
    protocol: impl Fn() -> Box<dyn Protocol>,
    node: &Endpoint,
    options: &Options,
    kind: Kind,
    words: &str,
) {
    for scenario in [Scenario::Offline, Scenario::Server] {
        let (client, library) =
            client(Boxed(protocol()), std::slice::from_ref(node), options.clone());
        let clock = Clock::start();
        let played = play(&client, &library, &settings(scenario, SAMPLES, 200.0));
        assert!(clock.now() < DEADLINE, "{scenario:?} took {} ms", clock.now() / MILLISECOND);
        let (record, seen) = (&played.record, client.statistics());
        assert_eq!((record.missing(), record.misuse.total()), (0, 0), "{scenario:?}: {seen:?}");
        let failed = failures(kind.failure());
        let mut found = record.failed.clone();
        found.sort_unstable();
        assert_eq!(found, failed, "{scenario:?}: {seen:?}");
        let (count, first) = &seen.troubles[&kind];
        assert_eq!((*count, seen.answered), (SAMPLES, 0), "{scenario:?}: {first}");
        assert!(first.contains(words), "{scenario:?}: {first}");
        assert!(client.trouble().unwrap().contains("40 samples failed: "));
    }
}

fn failures(why: Failure) -> Vec<(u64, Failure)> {
    (0..SAMPLES).map(|sample| (sample, why)).collect()
}

struct Boxed(Box<dyn Protocol>);

impl Protocol for Boxed {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn version(&self) -> HttpVersion {
        self.0.version()
    }
    fn sample_count(&self) -> usize {
        self.0.sample_count()
    }
    fn request(&self, sample: u32) -> dyno_net::exchange::Request {
        self.0.request(sample)
    }
    fn is_streaming(&self) -> bool {
        self.0.is_streaming()
    }
    fn reader(&self) -> Box<dyn dyno_net::protocol::Reader> {
        self.0.reader()
    }
}

fn small() -> Box<dyn Protocol> {
    Box::new(SMALL)
}

fn lines() -> Box<dyn Protocol> {
    Box::new(Lines(HttpVersion::Http1))
}

fn check(server: &Faulty, kind: Kind, words: &str) {
    check_all_fail(small, &endpoint(server.address), &options(), kind, words);
}

#[test]
fn a_server_that_is_not_there() {
    let node = endpoint(nobody());
    check_all_fail(small, &node, &options(), Kind::Connect, "is the server running there?");
    let (client, _) = client(SMALL, &[node], options());
    assert_eq!(client.reach().map_err(|trouble| trouble.kind), Err(Kind::Connect));
}

#[test]
fn a_name_without_an_address() {
    let node = "http://nobody.invalid:8000".parse().unwrap();
    check_all_fail(small, &node, &options(), Kind::Resolve, "\"nobody.invalid\" has no address");
}

#[test]
fn a_server_that_is_silent() {
    let server = Faulty::start(silence);
    let (node, words) = (endpoint(server.address), "did not answer within 0.3 s");
    check_all_fail(small, &node, &impatient(), Kind::TimedOut, words);
}

#[test]
fn a_server_that_stalls_in_an_answer() {
    let server = Faulty::start(|mut stream| {
        request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf");
        silence(stream);
    });
    let (node, words) = (endpoint(server.address), "did not complete its answer within 0.3 s");
    check_all_fail(small, &node, &impatient(), Kind::TimedOut, words);
}

#[test]
fn a_server_that_hangs_up_on_requests() {
    let server = Faulty::start(|mut stream| {
        request(&mut stream);
    });
    check(&server, Kind::Closed, "");
}

#[test]
fn a_server_that_hangs_up_at_once() {
    check(&Faulty::start(drop), Kind::Closed, "");
}

#[test]
fn a_server_that_closes_in_the_middle_of_a_body() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"[..],
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n8\r\nhalf",
        b"HTTP/1.1 200 OK\r\ncontent-le",
    ] {
        check(&Faulty::start(once(answer)), Kind::Closed, "in the middle of an answer");
    }
}

#[test]
fn a_stream_that_breaks_off() {
    // Without a length, only the protocol can tell.
    let server = Faulty::start(once(b"HTTP/1.1 200 OK\r\n\r\na\nb\n"));
    check_all_fail(lines, &endpoint(server.address), &options(), Kind::Malformed, "has no end");
}

#[test]
fn a_server_of_something_else() {
    let server = Faulty::start(always(b"\x00\xff220 smtp.example ESMTP\r\n\r\n"));
    check(&server, Kind::Malformed, "is not HTTP/1.1");
    let server = Faulty::start(always(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nno"));
    check(&server, Kind::Malformed, "hexadecimal size");
}

#[test]
fn more_than_was_asked_for_costs_the_connection_and_no_answer() {
    let server = Faulty::start(always(b"HTTP/1.1 204 a\r\n\r\nHTTP/1.1 204 b\r\n\r\n"));
    let (client, library) = client(SMALL, &[endpoint(server.address)], options());
    let played = play(&client, &library, &settings(Scenario::Offline, SAMPLES, 1.0));
    assert_eq!((played.record.failed.len(), played.record.missing()), (0, 0));
    assert!(client.statistics().connects >= SAMPLES);
}

#[test]
fn answers_of_the_wrong_shape() {
    let server = Faulty::start(always(b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nwrong shape"));
    check(&server, Kind::Mismatch, "another shape");
}

#[test]
fn storms_of_errors() {
    for (answer, kind) in [
        (&b"HTTP/1.1 500 Oh\r\ncontent-length: 2\r\n\r\nno"[..], Kind::Server),
        (
            b"HTTP/1.1 503 Busy\r\ntransfer-encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
            Kind::Refused,
        ),
        (b"HTTP/1.1 429 Later\r\ncontent-length: 0\r\n\r\n", Kind::Refused),
        (b"HTTP/1.1 404 What\r\ncontent-length: 0\r\n\r\n", Kind::Request),
    ] {
        check(&Faulty::start(always(answer)), kind, "the server says");
    }
}

#[test]
fn retries_are_counted_and_bounded() {
    let server = Faulty::start(always(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n"));
    let options = Options { retries: 2, ..options() };
    let (client, library) = client(SMALL, &[endpoint(server.address)], options);
    let played = play(&client, &library, &settings(Scenario::Offline, SAMPLES, 1.0));
    let seen = client.statistics();
    assert_eq!(played.record.failed.len() as u64, SAMPLES);
    assert_eq!((seen.sent, seen.retries[&Kind::Refused]), (3 * SAMPLES, 2 * SAMPLES));
}

#[test]
fn a_retry_that_helps_is_seen_and_no_failure() {
    let requests = AtomicUsize::new(0);
    let server = Faulty::start(move |mut stream| {
        while request(&mut stream).is_some() {
            let answer = match requests.fetch_add(1, Ordering::SeqCst) % 2 {
                0 => &b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n"[..],
                _ => b"HTTP/1.1 204 Well\r\n\r\n",
            };
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    });
    let options = Options { retries: 1, connections: 1, ..options() };
    let (client, library) = client(SMALL, &[endpoint(server.address)], options);
    let played = play(&client, &library, &settings(Scenario::SingleStream, SAMPLES, 1.0));
    let seen = client.statistics();
    assert_eq!((played.record.failed.len(), played.record.missing()), (0, 0));
    assert_eq!((seen.answered, seen.retries[&Kind::Server]), (SAMPLES, SAMPLES));
}

#[test]
fn a_server_that_dies_leaves_what_was_measured() {
    let left = Arc::new(AtomicUsize::new(10));
    let counted = left.clone();
    let server = Faulty::start(move |mut stream| {
        while request(&mut stream).is_some() {
            if counted
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
                .is_err()
                || stream.write_all(b"HTTP/1.1 204 x\r\n\r\n").is_err()
            {
                return;
            }
        }
    });
    let (client, library) = client(SMALL, &[endpoint(server.address)], options());
    let clock = Clock::start();
    let played = play(&client, &library, &settings(Scenario::Offline, 1_000, 1.0));
    assert!(clock.now() < DEADLINE);
    let seen: ClientStatistics = client.statistics();
    assert_eq!((seen.answered, seen.failed()), (10, 990));
    assert_eq!((played.record.missing(), played.record.failed.len()), (0, 990));
}

#[test]
fn a_server_that_is_back_soon_loses_only_what_was_under_way() {
    let answer = b"HTTP/1.1 204 x\r\n\r\n";
    // Each connection is good for five answers, then it is gone.
    let server = Faulty::start(move |mut stream| {
        for _ in 0..5 {
            if request(&mut stream).is_none() || stream.write_all(answer).is_err() {
                return;
            }
        }
    });
    // A connection takes one request with it at most, after five answers: of 200 samples there
    // are no more than 40 such, and if luck made them all one sample's.
    let options = Options { retries: 40, ..options() };
    let (client, library) = client(SMALL, &[endpoint(server.address)], options);
    let played = play(&client, &library, &settings(Scenario::Offline, 200, 1.0));
    let seen = client.statistics();
    assert_eq!((played.record.missing(), seen.answered), (0, 200), "{:?}", client.trouble());
    assert!(seen.connects >= 40 && seen.lost_connections > 0);
}

#[test]
fn a_connection_that_may_not_be_used_again_is_made_anew() {
    let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
    let server = Faulty::start(once(answer));
    let (client, library) = client(SMALL, &[endpoint(server.address)], options());
    for scenario in [Scenario::Offline, Scenario::SingleStream] {
        let played = play(&client, &library, &settings(scenario, SAMPLES, 1.0));
        assert_eq!((played.record.failed.len(), played.record.missing()), (0, 0));
    }
    assert_eq!((client.statistics().failed(), client.statistics().lost_connections), (0, 0));
}

#[test]
fn large_requests_go_out_piece_by_piece() {
    // The server waits for the whole body, which no socket takes at once.
    let server = Faulty::start(|mut stream| {
        while let Some(body) = request(&mut stream) {
            let sum: u64 = body.iter().map(|&b| u64::from(b)).sum();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{sum:020}");
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    const LEN: usize = 6 << 20;
    let protocol = Fixed { version: HttpVersion::Http1, samples: 4, body: LEN };
    let (client, library) = client(protocol, &[endpoint(server.address)], options());
    let played = play(&client, &library, &settings(Scenario::Offline, 8, 1.0));
    assert_eq!(played.record.missing(), 0, "{:?}", client.trouble());
    for response in played.record.responses.iter() {
        let sample = played.record.indices[response.sequence as usize];
        let body = super::protocols::body_of(sample, LEN);
        let sum: u64 = body.iter().map(|&b| u64::from(b)).sum();
        assert_eq!(response.data, format!("{sum:020}").as_bytes());
    }
    assert_eq!(client.statistics().sent, 8);
}

#[test]
fn an_answer_before_the_request_is_out_counts_and_ends_the_connection() {
    let server = Faulty::start(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 413 Too large\r\ncontent-length: 0\r\n\r\n");
        // Never reads: the request cannot leave.
        std::thread::park_timeout(std::time::Duration::from_secs(5));
    });
    let protocol =
        || Box::new(Fixed { version: HttpVersion::Http1, samples: 4, body: 8 << 20 }) as Box<_>;
    check_four_fail(protocol, &endpoint(server.address));
}

/// The answer may come before anything was asked: then it is one too many.
fn check_four_fail(protocol: impl Fn() -> Box<dyn Protocol>, node: &Endpoint) {
    let (client, library) = client(Boxed(protocol()), std::slice::from_ref(node), options());
    let played = play(&client, &library, &settings(Scenario::Offline, 4, 1.0));
    assert_eq!((played.record.missing(), played.record.failed.len()), (0, 4));
}

#[test]
fn an_answer_that_comes_with_its_connection_is_heard() {
    let server = Faulty::start(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 204 Early\r\nconnection: close\r\n\r\n");
        silence(stream);
    });
    let (client, library) = client(SMALL, &[endpoint(server.address)], options());
    // So many connections that on some both come as one event.
    let played = play(&client, &library, &settings(Scenario::Offline, 1_000, 1.0));
    let seen = client.statistics();
    assert_eq!(played.record.missing(), 0);
    assert!(!seen.troubles.contains_key(&Kind::TimedOut), "{seen:?}");
}

#[test]
fn several_nodes_take_turns_and_a_dead_one_is_passed_over() {
    let served = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let servers = served.clone().map(|served| {
        Faulty::start(move |mut stream| {
            while request(&mut stream).is_some() {
                served.fetch_add(1, Ordering::SeqCst);
                if stream.write_all(b"HTTP/1.1 204 x\r\n\r\n").is_err() {
                    return;
                }
            }
        })
    });
    let mut nodes = servers.iter().map(|server| endpoint(server.address)).collect::<Vec<_>>();
    let (both, library) = client(SMALL, &nodes, options());
    let played = play(&both, &library, &settings(Scenario::SingleStream, SAMPLES, 1.0));
    assert_eq!(played.record.failed.len(), 0);
    assert_eq!(served.clone().map(|n| n.load(Ordering::SeqCst)), [20, 20]);
    nodes.push(endpoint(nobody()));
    let (three, library) = client(SMALL, &nodes, options());
    let played = play(&three, &library, &settings(Scenario::SingleStream, SAMPLES, 1.0));
    assert_eq!((played.record.failed.len(), played.record.missing()), (0, 0));
    assert!(three.trouble().unwrap().contains("could not be made"));
}

#[test]
fn a_server_at_an_address_of_ipv6() {
    let Ok(probe) = std::net::TcpListener::bind("[::1]:0") else {
        return eprintln!("skipped: this machine has no IPv6");
    };
    let address = probe.local_addr().unwrap();
    drop(probe);
    let server = Faulty::on(address, always(b"HTTP/1.1 204 x\r\n\r\n"));
    let (client, library) = client(SMALL, &[endpoint(server.address)], options());
    let played = play(&client, &library, &settings(Scenario::Offline, SAMPLES, 1.0));
    assert_eq!((played.record.failed.len(), client.statistics().answered), (0, SAMPLES));
}

#[test]
fn runs_follow_each_other_on_one_client() {
    let server = Faulty::start(always(b"HTTP/1.1 204 x\r\n\r\n"));
    let (client, library) = client(SMALL, &[endpoint(server.address)], options());
    for run in 1..=5 {
        let played = play(&client, &library, &settings(Scenario::Server, SAMPLES, 2_000.0));
        assert_eq!((played.record.missing(), played.record.misuse.total()), (0, 0), "run {run}");
        assert!(client.accepted(0, SAMPLES as usize).iter().all(|&at| at > 0));
    }
    assert_eq!((client.statistics().answered, client.statistics().connects), (5 * SAMPLES, 4));
}
