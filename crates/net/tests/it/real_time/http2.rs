//! HTTP/2: streams, their limits, and what goes wrong on them.

use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use dyno_loadgen::clock::{MILLISECOND, SECOND};
use dyno_loadgen::settings::Scenario;
use dyno_net::client::Options;
use dyno_net::exchange::HttpVersion;
use dyno_net::protocol::{Protocol, TokenCounter};
use dyno_net::sink::{Http2, StreamedAnswer};
use dyno_net::trouble::Kind;
use h2::server::SendResponse;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use super::faults::{Faulty, nobody, silence};
use super::played::{client, endpoint, play, settings};
use super::protocols::{Fixed, Lines};
use super::troubles::check_all_fail;

const LOOPBACK: &str = "127.0.0.1:0";

/// Patient: a busy machine may take its time.
fn options() -> Options {
    let time_limit = Some(30 * SECOND);
    Options { connections: 2, time_limit, connect_limit: 30 * SECOND, ..Options::default() }
}

fn lines() -> Box<dyn Protocol> {
    Box::new(Lines(HttpVersion::Http2))
}

#[test]
fn more_samples_than_streams_are_all_answered() {
    let answer = StreamedAnswer {
        pieces: 5,
        piece: Bytes::from_static(b"x\n"),
        last: Bytes::from_static(b"end\n"),
        interval: MILLISECOND,
        held_until: 0,
        streams: 7,
    };
    let sink = Http2::start(LOOPBACK.parse().unwrap(), answer).unwrap();
    let lines = Lines(HttpVersion::Http2);
    let (client, library) = client(lines, &[endpoint(sink.address())], options());
    let mut samples = 0;
    for (scenario, queries) in
        [(Scenario::Offline, 300), (Scenario::Server, 100), (Scenario::SingleStream, 10)]
    {
        let played = play(&client, &library, &settings(scenario, queries, 1_000.0));
        let record = &played.record;
        assert_eq!((record.missing(), record.failed.len()), (0, 0), "{:?}", client.trouble());
        for response in record.responses.iter() {
            assert_eq!((response.data, response.tokens), (&b"x\nx\nx\nx\nend\n"[..], 5));
        }
        let accepted = client.accepted(0, queries as usize);
        let of_query = |sample: usize| sample / record.samples_per_query;
        assert!((0..accepted.len()).all(|i| accepted[i] >= record.scheduled(of_query(i))));
        samples += queries;
    }
    let seen = client.statistics();
    assert_eq!((seen.answered, seen.counted_by[&TokenCounter::Events]), (samples, samples));
    assert_eq!((seen.gaps.count(), seen.connects, sink.requests()), (4 * samples, 2, samples));
    assert!(seen.gaps.quantile(0.9).unwrap() > MILLISECOND / 10);
}

#[test]
fn connections_are_opened_as_a_load_needs_them() {
    use Scenario::{Offline, Server, SingleStream};
    let answer = StreamedAnswer {
        pieces: 1,
        piece: Bytes::from_static(b"x\n"),
        last: Bytes::from_static(b"end\n"),
        interval: 0,
        held_until: 0,
        streams: 100,
    };
    let sink = Http2::start(LOOPBACK.parse().unwrap(), answer).unwrap();
    let connects = |streams: usize, runs: &[(Scenario, u64)]| -> Vec<u64> {
        let threads = NonZero::new(1);
        let options = Options { connections: 8, streams, grows: true, threads, ..options() };
        let (client, library) =
            client(Lines(HttpVersion::Http2), &[endpoint(sink.address())], options);
        let after = |(scenario, queries): &(Scenario, u64)| {
            let played = play(&client, &library, &settings(*scenario, *queries, 1_000.0));
            assert_eq!((played.record.missing(), played.record.failed.len()), (0, 0));
            client.statistics().connects
        };
        runs.iter().map(after).collect()
    };
    // Four streams on each connection, and no more than 8 connections; none is closed between runs.
    let runs = [(SingleStream, 5), (Offline, 10), (Offline, 1_000), (SingleStream, 5)];
    assert_eq!(connects(4, &runs), [1, 3, 8, 8]);
    // A rate begins with places for 64 requests.
    assert_eq!(connects(16, &[(Server, 20)]), [4]);
}

#[test]
fn a_server_that_permits_few_streams_gets_more_connections() {
    use Scenario::{Offline, SingleStream};
    let answer = StreamedAnswer {
        pieces: 1,
        piece: Bytes::from_static(b"x\n"),
        last: Bytes::from_static(b"end\n"),
        interval: 0,
        held_until: 0,
        streams: 2,
    };
    let sink = Http2::start(LOOPBACK.parse().unwrap(), answer).unwrap();
    let threads = NonZero::new(1);
    let options = Options { connections: 8, streams: 16, grows: true, threads, ..options() };
    let (client, library) = client(Lines(HttpVersion::Http2), &[endpoint(sink.address())], options);
    for (scenario, queries, connects) in [(SingleStream, 5, 1), (Offline, 10, 5), (Offline, 99, 8)]
    {
        let played = play(&client, &library, &settings(scenario, queries, 1_000.0));
        assert_eq!((played.record.missing(), played.record.failed.len()), (0, 0));
        assert_eq!(client.statistics().connects, connects, "{scenario:?}, {queries} queries");
    }
}

#[test]
fn bodies_of_requests_arrive_whole() {
    let server = serve(None, |request, mut respond| async move {
        let mut body = request.into_body();
        let mut len = 0_usize;
        while let Some(data) = body.data().await {
            let data = data.unwrap();
            len += data.len();
            body.flow_control().release_capacity(data.len()).unwrap();
        }
        let mut sending = respond.send_response(http::Response::new(()), false).unwrap();
        sending.send_data(Bytes::from(len.to_string()), true).unwrap();
    });
    // More than any window lets through at once.
    let protocol = Fixed { version: HttpVersion::Http2, samples: 4, body: 1 << 20 };
    let (client, library) = client(protocol, &[endpoint(server)], options());
    let played = play(&client, &library, &settings(Scenario::Offline, 12, 1.0));
    assert_eq!(played.record.missing(), 0, "{:?}", client.trouble());
    assert!(played.record.responses.iter().all(|response| response.data == b"1048576"));
}

#[test]
fn a_server_that_is_not_there() {
    check_all_fail(lines, &endpoint(nobody()), &options(), Kind::Connect, "is the server running");
}

#[test]
fn a_server_that_says_nothing_at_all() {
    let server = Faulty::start(silence);
    let options = Options { connect_limit: SECOND, ..options() };
    check_all_fail(lines, &endpoint(server.address), &options, Kind::Connect, "within 1 s");
}

#[test]
fn a_server_that_is_silent_on_streams() {
    let server = serve(None, |_, respond| async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        drop(respond);
    });
    let options = Options { time_limit: Some(300 * MILLISECOND), ..options() };
    check_all_fail(
        lines,
        &endpoint(server),
        &options,
        Kind::TimedOut,
        "did not answer within 0.3 s",
    );
}

#[test]
fn a_server_of_something_else() {
    let answer = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n";
    let server = Faulty::start(move |mut stream| {
        let _ = stream.write_all(answer);
        silence(stream);
    });
    let words = "does not speak HTTP/2";
    check_all_fail(lines, &endpoint(server.address), &options(), Kind::Malformed, words);
}

#[test]
fn a_stream_that_is_reset_in_the_middle() {
    let server = serve(None, |_, mut respond| async move {
        let mut sending = respond.send_response(http::Response::new(()), false).unwrap();
        sending.send_data(Bytes::from_static(b"x\n"), false).unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        sending.send_reset(h2::Reason::INTERNAL_ERROR);
    });
    check_all_fail(
        lines,
        &endpoint(server),
        &options(),
        Kind::Closed,
        "in the middle of an answer",
    );
}

#[test]
fn a_body_that_ends_before_its_length() {
    let server = serve(None, |_, mut respond| async move {
        let answer = http::Response::builder().header("content-length", "9").body(()).unwrap();
        let mut sending = respond.send_response(answer, false).unwrap();
        sending.send_data(Bytes::from_static(b"x\n"), true).unwrap();
    });
    let words = "before the length that it announced";
    check_all_fail(lines, &endpoint(server), &options(), Kind::Cut, words);
}

#[test]
fn a_body_that_is_longer_than_its_length() {
    for length in ["0", "3"] {
        let server = serve(None, move |_, mut respond| async move {
            let answer = http::Response::builder().header("content-length", length).body(());
            let mut sending = respond.send_response(answer.unwrap(), false).unwrap();
            sending.send_data(Bytes::from_static(b"x\n"), false).unwrap();
            sending.send_data(Bytes::from_static(b"y\n"), true).unwrap();
        });
        let words = "sent a longer answer than its content-length announced";
        check_all_fail(lines, &endpoint(server), &options(), Kind::Malformed, words);
    }
}

#[test]
fn streams_that_are_refused() {
    let server = serve(None, |_, mut respond| async move {
        respond.send_reset(h2::Reason::REFUSED_STREAM);
    });
    check_all_fail(lines, &endpoint(server), &options(), Kind::Refused, "refused the stream");
}

#[test]
fn a_storm_of_errors() {
    let server = serve(None, |_, mut respond| async move {
        let answer = http::Response::builder().status(500).body(()).unwrap();
        respond.send_response(answer, true).unwrap();
    });
    check_all_fail(lines, &endpoint(server), &options(), Kind::Server, "the server says 500");
}

#[test]
fn a_server_that_dies_leaves_what_was_measured() {
    // It answers ten streams, then it and its connections are gone.
    static LEFT: AtomicUsize = AtomicUsize::new(10);
    static GONE: Notify = Notify::const_new();
    let server = serve_until(&GONE, None, |_, mut respond| async move {
        if LEFT.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err() {
            return GONE.notify_one();
        }
        let mut sending = respond.send_response(http::Response::new(()), false).unwrap();
        sending.send_data(Bytes::from_static(b"end\n"), true).unwrap();
    });
    let options = Options { connections: 1, streams: 4, ..options() };
    let (client, library) = client(Lines(HttpVersion::Http2), &[endpoint(server)], options);
    let played = play(&client, &library, &settings(Scenario::Offline, 100, 1.0));
    let seen = client.statistics();
    assert_eq!((played.record.missing(), seen.failed() + seen.answered), (0, 100), "{seen:?}");
    assert!((1..=10).contains(&seen.answered), "{seen:?}");
    assert!(seen.troubles.contains_key(&Kind::Connect), "{seen:?}");
}

#[test]
fn retries_of_streams_are_counted() {
    let server = serve(None, |_, mut respond| async move {
        respond.send_reset(h2::Reason::REFUSED_STREAM);
    });
    let options = Options { retries: 2, ..options() };
    let (client, library) = client(Lines(HttpVersion::Http2), &[endpoint(server)], options);
    let played = play(&client, &library, &settings(Scenario::Offline, 40, 1.0));
    let seen = client.statistics();
    assert_eq!((played.record.failed.len(), seen.retries[&Kind::Refused]), (40, 80));
    assert_eq!(client.retries(0, 40), [2; 40]);
    let waits = client.retry_waits(0, 40);
    assert!(waits.iter().all(|wait| *wait > 0), "refusals wait: {waits:?}");
    assert_eq!(waits.iter().sum::<u64>(), seen.retry_wait_ns);
}

/// A server of HTTP/2 that does to each stream what a test wants, until the process ends.
pub fn serve<F>(
    tls: Option<Arc<ServerConfig>>,
    script: impl Fn(http::Request<h2::RecvStream>, SendResponse<Bytes>) -> F + Send + Copy + 'static,
) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    static NEVER: Notify = Notify::const_new();
    serve_until(&NEVER, tls, script)
}

/// As [`serve`], until it is notified.
fn serve_until<F>(
    gone: &'static Notify,
    tls: Option<Arc<ServerConfig>>,
    script: impl Fn(http::Request<h2::RecvStream>, SendResponse<Bytes>) -> F + Send + Copy + 'static,
) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind(LOOPBACK)).unwrap();
        sender.send(listener.local_addr().unwrap()).unwrap();
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let tls = tls.clone();
                tokio::spawn(async move {
                    let Some(config) = tls else { return streams(stream, script).await };
                    if let Ok(stream) = TlsAcceptor::from(config).accept(stream).await {
                        streams(stream, script).await;
                    }
                });
            }
        });
        runtime.block_on(gone.notified());
    });
    receiver.recv().unwrap()
}

async fn streams<T, F>(
    socket: T,
    script: impl Fn(http::Request<h2::RecvStream>, SendResponse<Bytes>) -> F + Send + Copy + 'static,
) where
    T: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = ()> + Send + 'static,
{
    let Ok(mut connection) = h2::server::handshake(socket).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(script(request, respond));
    }
}
