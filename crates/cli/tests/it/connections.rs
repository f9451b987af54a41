//! Connections that a run needs, and their limits, by the count of a server.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use dyno_loadgen::clock::MILLISECOND;
use dyno_net::sink::{Http2, StreamedAnswer};
use serde_json::Value;

use crate::program::Folder;

/// What the server counts.
#[derive(Default)]
struct Counts {
    open: AtomicUsize,
    most_open: AtomicUsize,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
}

/// A server with a thread for each connection, for as long as the tests run.
fn start() -> (SocketAddr, Arc<Counts>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, counts) = (listener.local_addr().unwrap(), Arc::<Counts>::default());
    let counted = counts.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let counts = counted.clone();
            std::thread::spawn(move || serve(stream.unwrap(), &counts));
        }
    });
    (address, counts)
}

fn serve(stream: TcpStream, counts: &Counts) {
    let open = counts.open.fetch_add(1, SeqCst) + 1;
    counts.most_open.fetch_max(open, SeqCst);
    let mut writer = stream.try_clone().unwrap();
    let mut lines = BufReader::new(stream).lines();
    // Requests have no body: the empty line ends them.
    while let Some(Ok(line)) = lines.next() {
        if !line.is_empty() {
            continue;
        }
        let in_flight = counts.in_flight.fetch_add(1, SeqCst) + 1;
        counts.most_in_flight.fetch_max(in_flight, SeqCst);
        counts.in_flight.fetch_sub(1, SeqCst);
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes";
        if writer.write_all(answer).is_err() {
            break;
        }
    }
    counts.open.fetch_sub(1, SeqCst);
}

fn run(keys: &str, rest: &str) -> (Folder, crate::program::ProgramResult, Arc<Counts>) {
    let (folder, (address, counts)) = (Folder::new(), start());
    folder.write("rows.jsonl", "{\"n\": 1}\n{\"n\": 2}\n");
    let ran = folder.dyno(&format!(
        "run --system raw:http://{address}/x,method=GET{keys} --data rows.jsonl --mode performance \
         --duration 1ms --out out -q {rest}"
    ));
    (folder, ran, counts)
}

/// Returns the summary of a run that ends with a verdict.
fn summary_of(keys: &str, rest: &str) -> (Value, Arc<Counts>) {
    let (folder, ran, counts) = run(keys, rest);
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    (serde_json::from_str(&folder.read("out/summary.json")).unwrap(), counts)
}

#[test]
fn fewer_connections_than_a_concurrency_needs_are_refused_before_the_run() {
    for keys in [",connections=2", ",max-concurrency=2"] {
        let arrivals = "--scenario Server --set server_arrivals=concurrency:8";
        let (folder, ran, counts) = run(keys, arrivals);
        assert_eq!(ran.code, Some(2), "{keys}: {}", ran.stderr);
        let words = "expected a client that keeps 8 requests in flight, found one that keeps 2";
        assert!(ran.stderr.contains(words), "{keys}: {}", ran.stderr);
        assert!(!folder.0.join("out/summary.json").exists());
        assert_eq!(counts.most_in_flight.load(SeqCst), 0, "{keys}: nothing was sent");
    }
}

#[test]
fn one_query_in_flight_opens_one_connection() {
    let (summary, counts) = summary_of("", "--scenario SingleStream --set min_query_count=50");
    assert_eq!(summary["clients"][0]["connection_waits"], 0, "{}", summary["clients"]);
    let most = (counts.most_open.load(SeqCst), counts.most_in_flight.load(SeqCst));
    assert_eq!(most, (1, 1));
}

#[test]
fn waits_for_a_limit_are_shown_and_are_no_delay_of_the_client() {
    let rate = "--scenario Server --qps 5000 --set min_query_count=2000";
    let (summary, counts) = summary_of(",max-concurrency=1", rate);
    assert_eq!(counts.most_in_flight.load(SeqCst), 1);
    let client = &summary["clients"][0];
    assert!(client["limit_waits"].as_u64().unwrap() > 0, "{client}");
    assert!(client["longest_limited_ns"].as_u64() <= client["limited_ns"].as_u64(), "{client}");
    assert_eq!(client["queue_waits"], 0, "{client}");
    let reasons = summary["tests"][0]["reasons"].to_string();
    assert!(!reasons.contains("queued") && !reasons.contains("free connection"), "{reasons}");
}

/// Starts a server over HTTP/2 whose answers are two parts, 10 ms apart, and which permits this many
/// streams on a connection.
fn two_part_server(streams: u32) -> Http2 {
    let answer = StreamedAnswer {
        pieces: 2,
        piece: "a".into(),
        last: "b".into(),
        interval: 10 * MILLISECOND,
        held_until: 0,
        streams,
    };
    Http2::start("127.0.0.1:0".parse().unwrap(), answer).unwrap()
}

#[test]
fn a_server_that_permits_too_few_streams_is_named_with_its_limit() {
    let server = two_part_server(2);
    let folder = Folder::new();
    folder.write("rows.jsonl", "{\"n\": 1}\n");
    let ran = folder.dyno(&format!(
        "run --system raw:http://{}/x,method=GET,http2=true,connections=1 --data rows.jsonl --mode \
         performance --duration 1ms --scenario Server --set server_arrivals=concurrency:8 --set \
         min_query_count=100 --out out",
        server.address()
    ));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    let (client, test) = (&summary["clients"][0], &summary["tests"][0]);
    assert_eq!(client["stream_limit"], 2, "{client}");
    // Eight in flight, two of which the server lets in: the others wait for an answer of 10 ms.
    let latency = test["metrics"]["latency_ns"]["p50"].as_u64().unwrap();
    assert!(latency >= 20_000_000, "the wait counts: {latency}");
    let reasons = test["reasons"].to_string();
    assert!(
        reasons.contains("The server permits 2 streams on a connection of HTTP/2"),
        "{reasons}"
    );
    // The waits are delays of the client, which no processor shortens.
    let first = test["reasons"][0].as_str().unwrap();
    assert!(first.contains("samples waited for a"), "{reasons}");
    assert!(!reasons.contains("Reserve processors"), "{reasons}");
}

/// Forwards connections to a server, and counts them.
fn counted(server: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
    let accepted = Arc::clone(&count);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            accepted.fetch_add(1, SeqCst);
            let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
            let pairs = [(&client, &server), (&server, &client)];
            for (from, to) in pairs {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    (address, count)
}

#[test]
fn a_concurrency_over_http2_opens_few_connections() {
    let server = two_part_server(100);
    for (in_flight, connections, key) in [
        (8, 1, "max-concurrency=8"),
        (40, 3, "max-concurrency=40"),
        // Each thread has its own connections.
        (8, 1, "threads=1"),
        (40, 3, "threads=1"),
    ] {
        let (folder, (address, count)) = (Folder::new(), counted(server.address()));
        folder.write("rows.jsonl", "{\"n\": 1}\n");
        let ran = folder.dyno(&format!(
            "run --system raw:http://{address}/x,method=GET,http2=true,{key} \
             --data rows.jsonl --mode performance --duration 1ms --scenario Server --set \
             server_arrivals=concurrency:{in_flight} --set min_query_count=200 --out out"
        ));
        assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
        // 16 requests on each, and at most two more before the run.
        let opened = count.load(SeqCst);
        assert!((connections..=connections + 2).contains(&opened), "{key}, {in_flight}: {opened}");
    }
}

#[test]
fn the_option_for_streams_is_named_over_http2() {
    let server = two_part_server(100);
    let folder = Folder::new();
    folder.write("rows.jsonl", "{\"n\": 1}\n");
    // Two streams for 400 requests/s that take 10 ms each.
    let ran = folder.dyno(&format!(
        "run --system raw:http://{}/x,method=GET,http2=true,connections=1,streams=2 --data rows.jsonl \
         --mode performance --duration 1s --scenario Server --qps 400 --out out",
        server.address()
    ));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    let reasons = summary["tests"][0]["reasons"].to_string();
    assert!(reasons.contains("Raise streams=N or connections=N"), "{reasons}");
    assert!(!reasons.contains("or use HTTP/2"), "{reasons}");
}

#[test]
fn a_search_for_more_in_flight_than_connections_is_refused() {
    let (folder, (address, counts)) = (Folder::new(), start());
    folder.write("rows.jsonl", "{\"n\": 1}\n");
    let search = |rest: &str| {
        folder.dyno(&format!(
            "search --load concurrency --limit p99<=1s --system \
             raw:http://{address}/x,method=GET,connections=4 --data rows.jsonl -q {rest}"
        ))
    };
    for rest in ["", "--to 64"] {
        let ran = search(rest);
        assert_eq!(ran.code, Some(2), "{rest}: {}", ran.stderr);
        let words = "the client keeps at most 4 requests in flight";
        assert!(ran.stderr.contains(words), "{rest}: {}", ran.stderr);
        assert!(ran.stderr.contains("--to 4"), "{rest}: {}", ran.stderr);
    }
    assert_eq!(counts.most_in_flight.load(SeqCst), 0, "nothing was sent");
}
