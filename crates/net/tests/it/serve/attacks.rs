//! Clients that attack a server: each is cut off or refused, and honest clients are answered.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use dyno_net::serve::{Limits, Server, Token};

use super::wire::{connect, get, post, request, send};
use super::{digits, guarded_server, until};

const INFER: &str = "/v2/models/digits/infer";
const DIGITS: &str =
    r#"{"inputs":[{"name":"ink","datatype":"FP32","shape":[1,64],"data":[DATA]}]}"#;

/// A request that the built-in perceptron answers.
fn honest() -> String {
    DIGITS.replace("DATA", &["0"; 64].join(","))
}

fn is_served(address: SocketAddr) -> bool {
    post(address, INFER, "", honest().as_bytes()).status == 200
}

#[test]
fn a_bomb_is_refused_before_it_is_large() {
    let (_server, address) = digits(Limits::default());
    let body = DIGITS.replace("DATA", &"0,".repeat(16 << 20));
    for (name, bomb) in [
        ("gzip", {
            let out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            compressed(out, &body, flate2::write::GzEncoder::finish)
        }),
        ("deflate", {
            let out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
            compressed(out, &body, flate2::write::ZlibEncoder::finish)
        }),
    ] {
        assert!(bomb.len() < 64 << 10, "{} bytes", bomb.len());
        let answer = post(address, INFER, &format!("content-encoding: {name}\r\n"), &bomb);
        assert_eq!(answer.status, 413, "{}", answer.text());
        let said = answer.text();
        assert!(said.contains("it expands to more than 128 times its size"), "{said}");
    }
    assert!(is_served(address));
}

fn compressed<W: std::io::Write>(
    mut out: W,
    body: &str,
    finish: fn(W) -> std::io::Result<Vec<u8>>,
) -> Vec<u8> {
    out.write_all(body.as_bytes()).unwrap();
    finish(out).unwrap()
}

/// The value of a metric of the server.
fn metric(address: SocketAddr, name: &str) -> f64 {
    let page = get(address, "/metrics").text();
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {page}")).parse().unwrap()
}

#[test]
fn contents_of_all_requests_share_one_budget() {
    let limits = Limits { memory: 4 << 20, ..Limits::default() };
    let (_server, address) = digits(limits);
    // Bodies that never end: four hold a megabyte each, less what is not counted.
    let half = request("POST", INFER, "", &[b' '; 2 << 20]);
    let mut held: Vec<TcpStream> = (0..4).map(|_| connect(address)).collect();
    for stream in &mut held {
        stream.write_all(&half[..1 << 20]).unwrap();
    }
    let most = f64::from(4 * (1 << 20) - 4 * (64 << 10));
    until("they hold memory", || metric(address, "dyno_content_bytes") > most - 4e3);
    let refused = post(address, INFER, "", &[b' '; 1 << 20]);
    assert_eq!((refused.status, refused.field("retry-after")), (429, Some("1")));
    assert!(
        refused.text().contains("memory limit of this server, 4194304 bytes"),
        "{}",
        refused.text()
    );
    assert!(is_served(address), "small requests are always accepted");
    drop(held);
    until("the memory is free", || metric(address, "dyno_content_bytes") == 0.0);
    assert_eq!(post(address, INFER, "", &[b' '; 400 << 10]).status, 400, "it is read again");
}

#[test]
fn clients_that_read_nothing_lose_their_places() {
    let limits =
        Limits { connections: 3, request: Duration::from_millis(300), ..Limits::default() };
    let (_server, address) = digits(limits);
    let ask = b"GET /metrics HTTP/1.1\r\nhost: test\r\n\r\n".repeat(4_000);
    let greedy: Vec<_> = (0..3)
        .map(|_| {
            let (mut stream, ask) = (connect(address), ask.clone());
            // The server stops reading while the client takes no answers.
            std::thread::spawn(move || {
                let _ = stream.write_all(&ask);
                stream
            })
        })
        .collect();
    until("an honest client has a place", || {
        let mut stream = connect(address);
        let _ = stream.write_all(&request("GET", "/v2/health/live", "", b""));
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).is_ok_and(|()| &answer == b"HTTP/1.1 200")
    });
    for stream in greedy {
        let mut stream = stream.join().unwrap();
        // What was under way is still delivered; then the connection ends.
        let ended = stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        assert_ne!(ended, Err(std::io::ErrorKind::WouldBlock), "it still has its place");
    }
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

const SETTINGS: u8 = 4;
const PING: u8 = 6;

/// Sends frames and reads what comes, until the server ends the connection. Returns how many bytes it
/// answered.
fn flood(address: SocketAddr, frames: &[u8]) -> usize {
    let mut stream = connect(address);
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).unwrap();
    let mut reader = stream.try_clone().unwrap();
    let answered = std::thread::spawn(move || {
        let (mut all, mut buffer) = (0, [0; 1 << 16]);
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return all,
                Ok(read) => all += read,
                // The test's patience is a minute.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    panic!("the server goes on")
                }
                Err(_) => return all,
            }
        }
    });
    let many = frames.repeat((1 << 20) / frames.len());
    while stream.write_all(&many).is_ok() {}
    answered.join().unwrap()
}

#[test]
fn floods_of_control_frames_end_the_connection() {
    let (_server, address) = digits(Limits::default());
    // A header block that names its fields by the static table.
    let open = |id| frame(1, 4, id, &[0x83, 0x86, 0x84, 0x41, 1, b'x']);
    for (name, frames) in [
        ("settings", frame(SETTINGS, 0, 0, &[])),
        ("pings", frame(PING, 0, 0, &[0; 8])),
        ("answers to pings", frame(PING, 1, 0, &[0; 8])),
        ("window updates", frame(8, 0, 0, &[0, 0, 0, 1])),
        ("unknown frames", frame(0xfe, 0, 0, &[])),
    ] {
        let answered = flood(address, &frames);
        assert!(answered < 200_000, "{name}: {answered} bytes");
        assert!(is_served(address), "{name}");
    }
    // Empty data on a request that is never complete.
    let mut stream = connect(address);
    let begin = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &open(1)].concat();
    stream.write_all(&begin).unwrap();
    let empty = frame(0, 0, 1, &[]).repeat(1 << 12);
    while stream.write_all(&empty).is_ok() {}
    assert!(is_served(address));
}

/// Small bodies that never end, each on a stream of its own.
#[test]
fn streams_of_one_connection_do_not_multiply_the_memory_that_is_not_counted() {
    let limits = Limits { connections: 4, memory: 200_000, ..Limits::default() };
    let (_server, address) = digits(limits);
    let path = [&[0x44, INFER.len() as u8][..], INFER.as_bytes()].concat();
    let head = [&[0x83, 0x86][..], &path, &[0x41, 1, b'x']].concat();
    let mut stream = connect(address);
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).unwrap();
    // The window of a connection has 65,535 bytes until the server raises it.
    let (mut received, mut piece) = (Vec::new(), [0; 1024]);
    let raised = [0, 0, 4, 8, 0, 0, 0, 0, 0];
    until("the window is raised", || {
        let read = stream.read(&mut piece).unwrap();
        received.extend_from_slice(&piece[..read]);
        received.windows(raised.len()).any(|head| head == raised)
    });
    for id in (1..=11).step_by(2) {
        let part = frame(0, 0, id, &[b' '; 15_000]);
        stream.write_all(&[frame(1, 4, id, &head), part.repeat(4)].concat()).unwrap();
    }
    // Six hold 360,000 bytes and their heads, and requests of four connections 262,144 uncounted.
    until("they are counted", || metric(address, "dyno_content_bytes") > 97_000.0);
    assert!(is_served(address), "small requests are always accepted");
    drop(stream);
    until("the memory is free", || metric(address, "dyno_content_bytes") == 0.0);
}

#[test]
fn connections_of_http2_that_rest_are_closed_even_if_they_ping() {
    let limits = Limits { idle: Duration::from_millis(300), ..Limits::default() };
    let (_server, address) = digits(limits);
    let mut stream = connect(address);
    let open = frame(1, 5, 1, &[0x82, 0x86, 0x84, 0x41, 1, b'x']);
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[]), &open].concat()).unwrap();
    let mut reader = stream.try_clone().unwrap();
    let pings = std::thread::spawn(move || {
        while stream.write_all(&frame(PING, 0, 0, &[0; 8])).is_ok() {
            std::thread::park_timeout(Duration::from_millis(20));
        }
    });
    let mut all = Vec::new();
    let ended = reader.read_to_end(&mut all);
    let is_timeout = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    assert!(!ended.is_err_and(|error| is_timeout(&error)), "the server goes on");
    pings.join().unwrap();
    assert!(is_served(address));
}

fn with_token() -> (Server, SocketAddr) {
    let model = std::sync::Arc::new(dyno_sut::digits::DigitsPerceptron::new().by_value(32));
    let models = vec![super::tensors("digits", model, 1, 64)];
    guarded_server(Limits::default(), models, Some(Token::new("secret")))
}

#[test]
fn without_the_token_only_health_is_answered() {
    let (_server, address) = with_token();
    for path in ["/health", "/v2/health/live", "/v2/health/ready"] {
        assert_eq!(get(address, path).status, 200, "{path}");
    }
    for path in ["/metrics", "/v2", "/v1/models", "/v2/models/digits", "/nothing"] {
        let refused = get(address, path);
        assert_eq!((refused.status, refused.field("www-authenticate")), (401, Some("bearer")));
        assert!(refused.text().contains("expects `authorization: Bearer TOKEN`"), "{path}");
    }
    let body = honest();
    for (token, status) in [("", 401), ("authorization: Bearer wrong\r\n", 401), (RIGHT, 200)] {
        assert_eq!(post(address, INFER, token, body.as_bytes()).status, status, "{token}");
    }
    // gRPC without its token: the status Unauthenticated in the head.
    let fields = "content-type: application/grpc\r\n";
    let path = "/inference.GRPCInferenceService/ServerLive";
    assert_eq!(post(address, path, fields, &[0; 5]).field("grpc-status"), Some("16"));
    let fields = format!("{fields}{RIGHT}");
    assert_eq!(post(address, path, &fields, &[0; 5]).field("grpc-status"), None);
}

const RIGHT: &str = "authorization: Bearer secret\r\n";

#[test]
fn fields_that_two_readers_could_read_differently_are_rejected() {
    let (_server, address) = with_token();
    let status = |fields: &str| {
        let request = format!("GET /v2/health/live HTTP/1.1\r\nconnection: close\r\n{fields}\r\n");
        send(address, request.as_bytes()).status
    };
    for (fields, expected) in [
        ("host: test\r\n", 200),
        ("Host: [::1]:8000\r\n", 200),
        ("host:\r\n", 200),
        ("", 400),
        ("host: a\r\nhost: a\r\n", 400),
        ("host: a b\r\n", 400),
        ("host: user@a\r\n", 400),
        ("host: a\r\ncontent-type: text/plain\r\ncontent-type: text/html\r\n", 400),
    ] {
        assert_eq!(status(fields), expected, "{fields:?}");
    }
    let old = send(address, b"GET /v2/health/live HTTP/1.0\r\n\r\n");
    assert_eq!(old.status, 200, "HTTP/1.0 has no host");
    for second in [RIGHT, "authorization: Bearer wrong\r\n"] {
        let fields = format!("{RIGHT}{second}");
        let refused = post(address, INFER, &fields, honest().as_bytes());
        assert_eq!(refused.status, 400, "{}", refused.text());
        assert!(refused.text().contains("several 'authorization' fields"), "{}", refused.text());
    }
    let grpc = format!("content-type: application/grpc\r\n{RIGHT}{RIGHT}");
    let path = "/inference.GRPCInferenceService/ServerLive";
    // INVALID_ARGUMENT
    assert_eq!(post(address, path, &grpc, &[0; 5]).field("grpc-status"), Some("3"));
}

#[test]
fn tensors_whose_json_contradicts_their_shape_or_type_are_rejected() {
    let (_server, address) = digits(Limits::default());
    let status = |shape: &str, data: &str| {
        let body = DIGITS.replace("[1,64]", shape).replace("[DATA]", data);
        post(address, INFER, "", body.as_bytes()).status
    };
    // A JSON that is longer than its body is no lack of memory.
    let long = "inference-header-content-length: 1099511627776\r\n";
    assert_eq!(post(address, INFER, long, honest().as_bytes()).status, 400);
    let row = |count: usize| format!("[{}]", vec!["0"; count].join(","));
    assert_eq!(status("[2,64]", &format!("[{},{}]", row(64), row(64))), 200);
    assert_eq!(status("[2,64]", &row(128)), 200);
    assert_eq!(status("[2,64]", &format!("[{},{}]", row(127), row(1))), 400);
    assert_eq!(status("[1,64]", &row(64).replacen('0', "3e38", 1)), 200);
    assert_eq!(status("[1,64]", &row(64).replacen('0', "1e39", 1)), 400);
    assert_eq!(status("[1,64]", &row(64).replacen('0', "-1e39", 1)), 400);
}
