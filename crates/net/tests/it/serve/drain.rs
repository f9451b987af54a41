//! The end of a server.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use dyno_net::serve::{DrainOutcome, Limits};

use super::wire::{came, connect, get, post, request};
use super::{Gate, X, server_of, tensors, until};

const INFER: &str = "/v2/models/gated/infer";

#[test]
fn all_that_was_accepted_is_answered_and_nothing_else() {
    let gate = Arc::new(Gate::default());
    let models = vec![tensors("gated", gate.model(), 2, 64)];
    let (server, address) = server_of(Limits::default(), models);
    let asked: Vec<_> = (0..24)
        .map(|_| std::thread::spawn(move || post(address, INFER, "", X.as_bytes())))
        .collect();
    let in_flight = "dyno_requests_in_flight 24\n";
    until("all are accepted", || get(address, "/metrics").text().contains(in_flight));
    // Half of a request is none that was accepted.
    let mut half = connect(address);
    let bytes = request("POST", INFER, "", X.as_bytes());
    half.write_all(&bytes[..20]).unwrap();
    let drain = std::thread::spawn(move || server.drain(Duration::from_secs(60)));
    until("it is not ready", || get(address, "/v2/health/ready").status == 503);
    assert_eq!(get(address, "/v2/models/gated/ready").status, 503);
    assert_eq!(get(address, "/v2/health/live").status, 200);
    let refused = post(address, INFER, "", X.as_bytes());
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("1")));
    half.write_all(&bytes[20..]).unwrap();
    assert_eq!(came(&mut half).status, 503);
    gate.open();
    for one in asked {
        let answer = one.join().unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.text().contains("0.5"), "{}", answer.text());
    }
    assert_eq!(drain.join().unwrap(), DrainOutcome::Answered);
    assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn patience_has_an_end() {
    let gate = Arc::new(Gate::default());
    let models = vec![tensors("gated", gate.model(), 1, 64)];
    let (server, address) = server_of(Limits::default(), models);
    let mut stream = connect(address);
    stream.write_all(&request("POST", INFER, "", X.as_bytes())).unwrap();
    until("the worker computes", || gate.calls() == 1);
    assert_eq!(server.drain(Duration::from_millis(100)), DrainOutcome::Left(1));
    gate.open();
}

#[test]
fn a_connection_that_rests_does_not_hold_the_end_up() {
    let gate = Arc::new(Gate::default());
    let (server, address) =
        server_of(Limits::default(), vec![tensors("gated", gate.model(), 1, 8)]);
    let _silent = connect(address);
    let mut resting = connect(address);
    resting.write_all(b"GET /v2/health/live HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
    let mut begin = [0; 12];
    std::io::Read::read_exact(&mut resting, &mut begin).unwrap();
    assert_eq!(server.drain(Duration::from_secs(60)), DrainOutcome::Answered);
}
