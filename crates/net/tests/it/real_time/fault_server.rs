//! The server of faults sends the bytes, pauses and ends that its modes are about.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use dyno_loadgen::clock::{Clock, MILLISECOND, SECOND};
use dyno_net::faults::{Counts, FaultServer, Mode, modes};

const LOCAL: &str = "127.0.0.1:0";

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn ask(stream: &mut TcpStream, path: &str, fields: &str, body: &str) {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\n{fields}Content-Length: {length}\r\n");
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
}

/// One answer of a mode over a connection of its own, up to the end of its body as its
/// framing has it, or of the connection.
fn answer(address: SocketAddr, mode: &str, fields: &str, body: &str) -> Vec<u8> {
    let mut stream = connect(address);
    ask(&mut stream, &format!("/{mode}/chat/completions"), fields, body);
    read(&mut stream)
}

fn read(stream: &mut TcpStream) -> Vec<u8> {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    while !is_whole(&bytes) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => bytes.extend(&buffer[..count]),
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&bytes)),
        }
    }
    bytes
}

fn is_whole(bytes: &[u8]) -> bool {
    let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    match length {
        Some(length) => bytes.len() >= end + 4 + length.parse::<usize>().unwrap(),
        None => head.contains("chunked") && bytes.ends_with(b"\r\n0\r\n\r\n"),
    }
}

/// A chunk as the wire has it.
fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

#[test]
fn an_answer_is_these_bytes() {
    let server = FaultServer::start(LOCAL).unwrap();
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let begin = r#"data: {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": ["#;
    let part = format!(
        "{begin}{}]}}\n\n",
        r#"{"index": 0, "finish_reason": "length", "delta": {"content": "a"}}"#
    );
    let usage = format!(
        "{begin}], \"usage\": {}}}\n\n",
        r#"{"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}"#
    );
    let expected =
        [head, &chunk(&part), &chunk(&usage), &chunk("data: [DONE]\n\n"), "0\r\n\r\n"].concat();
    let got = answer(server.address, "single", "", "{}");
    assert_eq!(String::from_utf8(got).unwrap(), expected);
    let got = answer(server.address, "e500", "", "{}");
    let expected = "HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain\r\n\
                    Content-Length: 21\r\n\r\nInternal Server Error";
    assert_eq!(String::from_utf8(got).unwrap(), expected);
    let got = String::from_utf8(answer(server.address, "utf8split", "", "{}")).unwrap_err();
    // The letter is torn by the frame of a chunk.
    let letter = "\u{1f600}".as_bytes();
    assert!(memchr::memmem::find(got.as_bytes(), letter).is_none());
    let torn = [&letter[..2], b"\r\n"].concat();
    assert!(memchr::memmem::find(got.as_bytes(), &torn).is_some());
}

/// Answers that another server sent, captured byte by byte.
#[test]
fn answers_are_those_that_were_captured() {
    let shared = std::env::var_os("DYNO_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let folder = shared.join("cases/wire/bytes");
    let Ok(files) = std::fs::read_dir(&folder) else {
        println!("skipped: no {} here", folder.display());
        return;
    };
    let server = FaultServer::start(LOCAL).unwrap();
    for file in files {
        let path = file.unwrap().path();
        let mode = path.file_stem().unwrap().to_str().unwrap();
        let (expected, got) =
            (std::fs::read(&path).unwrap(), answer(server.address, mode, "", "{}"));
        // How well it was compressed, and when, is of no importance.
        if mode == "gzip" {
            let body = |bytes: &[u8]| {
                let at = memchr::memmem::find(bytes, b"\r\n\r\n").unwrap() + 4;
                let mut text = String::new();
                flate2::read::GzDecoder::new(&bytes[at..]).read_to_string(&mut text).unwrap();
                text
            };
            assert_eq!(body(&got), body(&expected));
            continue;
        }
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(text(got), text(expected), "{mode}");
    }
}

/// Modes that the cases of servers name.
const NAMED: &str = "single usage_zero_last usage_lies empty empty_nousage half_empty nothing \
    abort finish_error n2cut allnull slow_done content_list usage_partial usage_float usage_neg \
    plain_sse json_sse octet_sse noct_sse done_space gzip event_error event_error_json old_error \
    ignores_stream auth e500 notfound bucket rateall reset conc cold nomax redirect ok reasoning \
    reasoning_only rolefirst midstream_error usage_null usage_each keepalive hugeline huge70 \
    hugebody nodone cut cut_clean cut_half u2028 utf8split half_event crlf nospace spec \
    spec_nousage toolcall azure late_usage tgi hang hangall stall http10 conn_close close_after \
    html err200 errdetail ndjson early rate noopts e503half n2 errstr200 old_error_full \
    reset_counts";

#[test]
fn all_modes_are_there_and_answer() {
    let (all, mut named) = (modes(), NAMED.split_whitespace().collect::<Vec<_>>());
    named.sort_unstable();
    assert_eq!(all, named);
    let server = FaultServer::start(LOCAL).unwrap();
    let slow = ["hangall", "cold", "huge70", "hugebody", "hugeline"];
    for mode in all.into_iter().filter(|mode| !slow.contains(mode)) {
        let got = answer(server.address, mode, "", "{}");
        assert!(got.starts_with(b"HTTP/1."), "{mode}: {:?}", String::from_utf8_lossy(&got));
    }
    assert!(answer(server.address, "hugeline", "", "{}").len() > 2_000_000);
    let got = answer(server.address, "nothing_like_it", "", "{}");
    assert!(got.ends_with(b"no such mode"));
}

#[test]
fn requests_decide_what_they_get() {
    let server = FaultServer::start(LOCAL).unwrap();
    let status = |mode: &str, fields: &str, body: &str| {
        let got = answer(server.address, mode, fields, body);
        String::from_utf8_lossy(&got[9..12]).into_owned()
    };
    assert_eq!(status("auth", "", "{}"), "401");
    assert_eq!(status("auth", "Authorization: Bearer sesame\r\n", "{}"), "200");
    assert_eq!(status("nomax", "", r#"{"max_tokens": 4}"#), "400");
    assert_eq!(status("nomax", "", r#"{"max_completion_tokens": 4}"#), "200");
    assert_eq!(status("noopts", "", r#"{"stream_options": {}}"#), "400");
    let turns: Vec<String> = (0..6).map(|_| status("rate", "", "{}")).collect();
    assert_eq!(turns, ["200", "200", "429", "200", "200", "429"]);
    let passed = (0..25).filter(|_| status("bucket", "", "{}") == "200").count();
    // More than 20 pass where the machine is so slow that a second goes by.
    assert!(passed >= 20, "{passed}");
    let moved = String::from_utf8(answer(server.address, "redirect", "", "{}")).unwrap();
    assert!(moved.contains("\r\nLocation: /ok/chat/completions\r\n"), "{moved}");
    let kept = server.requests();
    assert_eq!(kept[1].field("authorization"), Some("Bearer sesame"));
    assert!(kept[2].holds("max_tokens"));
}

#[test]
fn connections_end_as_the_mode_says() {
    let server = FaultServer::start(LOCAL).unwrap();
    let mut stream = connect(server.address);
    for _ in 0..3 {
        ask(&mut stream, "/ok/x", "", "{}");
        assert!(is_whole(&read(&mut stream)));
    }
    assert_eq!(server.counts().connections, 1);
    for mode in ["cut", "early", "conn_close", "close_after", "http10"] {
        let mut stream = connect(server.address);
        ask(&mut stream, &format!("/{mode}/x"), "", "{}");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert_eq!(is_whole(&all), !["cut", "http10"].contains(&mode), "{mode}");
    }
    let mut stream = connect(server.address);
    for number in 0..5 {
        ask(&mut stream, "/reset/x", "", "{}");
        match number {
            4 => {
                let error = stream.read(&mut [0; 9]).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            }
            _ => assert!(is_whole(&read(&mut stream))),
        }
    }
}

#[test]
fn pauses_last_as_long_as_they_say() {
    let server = FaultServer::start_in(LOCAL, Mode::Every("slow_done".into())).unwrap();
    let clock = Clock::start();
    let got = answer(server.address, "whatever", "", "{}");
    assert!(got.ends_with(b"data: [DONE]\n\n\r\n0\r\n\r\n"));
    assert!(clock.now() >= 320 * MILLISECOND);
}

#[test]
fn what_is_in_flight_is_counted() {
    let server = FaultServer::start(LOCAL).unwrap();
    let mut three: Vec<TcpStream> = (0..3).map(|_| connect(server.address)).collect();
    for stream in &mut three {
        ask(stream, "/hangall/x", "", "{}");
    }
    let clock = Clock::start();
    while server.counts().in_flight < 3 && clock.now() < 20 * SECOND {
        std::thread::yield_now();
    }
    let expected = Counts {
        requests: 3,
        in_flight: 3,
        max_in_flight: 3,
        connections: 3,
        open: 3,
        max_open: 3,
    };
    assert_eq!(server.counts(), expected);
    let stat = String::from_utf8(answer(server.address, "stat", "", "")).unwrap();
    assert!(stat.contains(r#""inflight": 3, "max_inflight": 3, "n": 3"#), "{stat}");
    assert_eq!(server.counts().requests, 0);
    // Its end does not wait for answers that never come.
    drop(server);
    let mut rest = Vec::new();
    let _ = three[0].read_to_end(&mut rest);
    assert!(rest.is_empty());
}
