//! What a client may make grow, and how it is told where that ends.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use dyno_net::serve::Limits;

use super::wire::{connect, get, post, request, send};
use super::{Gate, X, digits, server_of, tensors, until};

const INFER: &str = "/v2/models/gated/infer";

#[test]
fn a_full_queue_refuses_and_says_when_to_come_again() {
    let gate = Arc::new(Gate::default());
    let models = vec![tensors("gated", gate.model(), 1, 2)];
    let (_server, address) = server_of(Limits::default(), models);
    let ask = || std::thread::spawn(move || post(address, INFER, "", X.as_bytes()));
    let first = ask();
    until("the worker computes", || gate.calls() == 1);
    let others = [ask(), ask()];
    until("the queue is full", || {
        get(address, "/metrics").text().contains("dyno_queue_depth{model=\"gated\"} 2\n")
    });
    let refused = post(address, INFER, "", X.as_bytes());
    assert_eq!((refused.status, refused.field("retry-after")), (429, Some("1")));
    let said = refused.text();
    assert!(said.contains("the queue of model 'gated' is full: 2 wait"), "{said}");
    gate.open();
    assert_eq!(first.join().unwrap().status, 200);
    for other in others {
        assert_eq!(other.join().unwrap().status, 200);
    }
}

#[test]
fn a_request_that_nobody_waits_for_is_not_computed() {
    let gate = Arc::new(Gate::default());
    let limits = Limits { request: Duration::from_millis(200), ..Limits::default() };
    let (_server, address) = server_of(limits, vec![tensors("gated", gate.model(), 1, 8)]);
    let first = std::thread::spawn(move || post(address, INFER, "", X.as_bytes()));
    until("the worker computes", || gate.calls() == 1);
    let late = post(address, INFER, "", X.as_bytes());
    assert_eq!(late.status, 504);
    assert!(late.text().contains("took longer than 200ms"), "{}", late.text());
    assert_eq!(first.join().unwrap().status, 504);
    gate.open();
    let answer = post(address, INFER, "", X.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    // The first one was in work, the second was withdrawn.
    assert_eq!(gate.calls(), 2);
}

#[test]
fn a_body_is_bounded_before_and_after_it_is_decompressed() {
    let limits = Limits { body: 1_000, ..Limits::default() };
    let (_server, address) = digits(limits);
    let path = "/v2/models/digits/infer";
    let too_large = |answer: &super::wire::Came| {
        assert_eq!(answer.status, 413, "{}", answer.text());
        let said = answer.text();
        assert!(said.contains("the limit of this server is 1000 bytes"), "{said}");
    };
    too_large(&post(address, path, "", &[b' '; 1_001]));
    // The length is not told before.
    let chunks = "400\r\n".to_owned() + &" ".repeat(0x400) + "\r\n0\r\n\r\n";
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
         transfer-encoding: chunked\r\n\r\n"
    );
    too_large(&send(address, (head + &chunks).as_bytes()));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&[b' '; 100_000]).unwrap();
    let bomb = gzip.finish().unwrap();
    assert!(bomb.len() < 1_000);
    too_large(&post(address, path, "content-encoding: gzip\r\n", &bomb));
    // The connection of a small one goes on.
    assert_eq!(post(address, path, "", b"{}").status, 400);
}

#[test]
fn a_client_that_says_nothing_whole_does_not_stay() {
    let limits = Limits { head: Duration::from_millis(300), ..Limits::default() };
    let (_server, address) = digits(limits);
    let half_of_http2 = "PRI * HTTP/2.0\r\n";
    for begin in ["", "G", "GET / HTTP/1.1\r\nhost:", "PRI * HT", half_of_http2] {
        let mut stream = connect(address);
        stream.write_all(begin.as_bytes()).unwrap();
        let mut rest = Vec::new();
        // The test's own patience is a minute, and its end an error.
        stream.read_to_end(&mut rest).unwrap_or_else(|error| panic!("{begin:?}: {error}"));
    }
    assert_eq!(get(address, "/v2/health/ready").status, 200);
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let limits = Limits { request: Duration::from_millis(200), ..Limits::default() };
    let (_server, address) = digits(limits);
    let whole = request("POST", "/v2/models/digits/infer", "", &[b' '; 100]);
    let answer = send(address, &whole[..whole.len() - 50]);
    assert_eq!(answer.status, 408);
    assert!(answer.text().contains("the body took longer than 200ms"), "{}", answer.text());
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let (_server, address) = digits(limits);
    let mut kept = connect(address);
    let keep = b"GET /v2/health/live HTTP/1.1\r\nhost: test\r\n\r\n";
    kept.write_all(keep).unwrap();
    let mut answer = [0; 12];
    kept.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    let _second = connect(address);
    until("the third is closed", || {
        let mut third = connect(address);
        let _ = third.write_all(keep);
        third.read(&mut answer).unwrap_or(0) == 0
    });
    drop(kept);
    until("a place is free", || {
        let mut other = connect(address);
        let _ = other.write_all(keep);
        other.read_exact(&mut answer).is_ok_and(|()| &answer == b"HTTP/1.1 200")
    });
}
