//! The Open Inference Protocol over HTTP.

use std::io::{Read as _, Write as _};

use bytes::Bytes;
use dyno_net::oip::http::HEAD_LENGTH;
use dyno_net::oip::{Datatype, InferRequest, InferResponse, Tensor};
use dyno_net::serve::{DrainOutcome, Limits};
use dyno_sut::digits::{CLASSES, PIXELS, Perceptron, test_digit};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::digits;
use super::wire::{Came, came, connect, get, post, request};

const INFER: &str = "/v2/models/digits/infer";

/// Some test images as a request, and their scores.
fn images(count: usize) -> (InferRequest, Vec<f32>) {
    let network = Perceptron::trained();
    let inputs = (0..count).map(|at| Perceptron::input(test_digit(at).pixels));
    let inputs: Vec<[f32; PIXELS]> = inputs.collect();
    let scores = inputs.iter().flat_map(|ink| network.scores(&network.activate(ink))).collect();
    let data: Vec<u8> = inputs.as_flattened().iter().flat_map(|x| x.to_le_bytes()).collect();
    let tensor = Tensor::new("ink", Datatype::Fp32, vec![count, PIXELS], data.into()).unwrap();
    let request = InferRequest {
        model_name: "digits".into(),
        id: "seven".into(),
        inputs: vec![tensor],
        ..InferRequest::default()
    };
    (request, scores)
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    let (four, _) = tensor.data.as_chunks::<4>();
    four.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn read(answer: &Came) -> InferResponse {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let length = answer.field(HEAD_LENGTH).map(|length| length.parse().unwrap());
    InferResponse::from_http(&Bytes::from(answer.body.clone()), length).unwrap()
}

fn fields(body: &dyno_net::oip::http::Body) -> String {
    body.head_length.map_or_else(String::new, |n| format!("{HEAD_LENGTH}: {n}\r\n"))
}

#[test]
fn scores_are_those_of_the_perceptron_in_json_and_in_bytes() {
    let (server, address) = digits(Limits::default());
    let (mut asked, scores) = images(3);
    for (is_binary, wants_binary) in [(false, false), (true, false), (true, true), (false, true)] {
        asked.wants_binary = wants_binary;
        let body = asked.to_http(is_binary);
        let answer = post(address, INFER, &fields(&body), &body.bytes);
        assert_eq!(answer.field(HEAD_LENGTH).is_some(), wants_binary);
        let read = read(&answer);
        assert_eq!((&read.model_name[..], &read.id[..]), ("digits", "seven"));
        let [output] = &read.outputs[..] else { panic!("one output") };
        assert_eq!((&output.name[..], &output.shape[..]), ("scores", &[3, CLASSES][..]));
        assert_eq!(numbers(output), scores);
    }
    assert_eq!(server.drain(super::Duration::from_secs(30)), DrainOutcome::Answered);
}

#[test]
fn a_compressed_body_is_decompressed_here() {
    let (_server, address) = digits(Limits::default());
    let (asked, scores) = images(2);
    let body = asked.to_http(true);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&body.bytes).unwrap();
    let fields = format!("{}content-encoding: gzip\r\n", fields(&body));
    let answer = post(address, INFER, &fields, &gzip.finish().unwrap());
    assert_eq!(numbers(&read(&answer).outputs[0]), scores);
    let answer = post(address, INFER, "content-encoding: gzip\r\n", b"no gzip");
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("does not decompress"), "{}", answer.text());
    let answer = post(address, INFER, "content-encoding: br\r\n", b"");
    assert_eq!(answer.status, 415);
    assert!(answer.text().contains("expected gzip, deflate or none"), "{}", answer.text());
}

#[test]
fn answers_are_compressed_for_those_who_take_it() {
    let (_server, address) = digits(Limits::default());
    let (asked, scores) = images(2);
    let body = asked.to_http(true);
    let fields = format!("{}accept-encoding: br, gzip\r\n", fields(&body));
    let mut answer = post(address, INFER, &fields, &body.bytes);
    assert_eq!(answer.field("content-encoding"), Some("gzip"));
    let mut whole = Vec::new();
    flate2::read::GzDecoder::new(&answer.body[..]).read_to_end(&mut whole).unwrap();
    answer.body = whole;
    assert_eq!(numbers(&read(&answer).outputs[0]), scores);
    // A refusal is short.
    let refused = post(address, "/v2/models/none/infer", "accept-encoding: gzip\r\n", b"");
    assert_eq!((refused.status, refused.field("content-encoding")), (404, None));
}

#[test]
fn a_request_may_be_cut_anywhere() {
    let (_server, address) = digits(Limits::default());
    let (asked, scores) = images(1);
    let body = asked.to_http(true);
    let bytes = request("POST", INFER, &fields(&body), &body.bytes);
    let cuts = (1..bytes.len()).step_by(bytes.len() / 40).chain([bytes.len() - 1]);
    for cut in cuts {
        let mut stream = connect(address);
        stream.write_all(&bytes[..cut]).unwrap();
        // The two parts come in two reads, or the test says less than it could.
        std::thread::park_timeout(super::Duration::from_millis(2));
        stream.write_all(&bytes[cut..]).unwrap();
        assert_eq!(numbers(&read(&came(&mut stream)).outputs[0]), scores, "cut at {cut}");
    }
}

#[test]
fn what_is_wrong_is_told_with_what_was_expected() {
    let (_server, address) = digits(Limits::default());
    let tensor = |name: &str, kind: &str, shape: &str, data: &str| {
        format!(
            r#"{{"inputs":[{{"name":"{name}","datatype":"{kind}","shape":{shape},"data":{data}}}]}}"#
        )
    };
    let zeros = format!("[{}]", vec!["0"; PIXELS].join(","));
    for (path, body, status, words) in [
        (
            INFER,
            tensor("pixels", "FP32", "[1,64]", &zeros),
            400,
            "no input 'pixels'; its inputs are ink",
        ),
        (INFER, tensor("ink", "INT64", "[1,64]", &zeros), 400, "type int64; expected float32"),
        (INFER, tensor("ink", "FP32", "[64]", &zeros), 400, "expected float32 of shape [-1, 64]"),
        (INFER, tensor("ink", "FP32", "[2,64]", &zeros), 400, "256 bytes, expected 128 elements"),
        (INFER, tensor("ink", "FP32", "[-1,64]", &zeros), 400, "'ink' has a dimension of -1"),
        (
            INFER,
            tensor("ink", "FP32", &format!("[{}64]", "1,".repeat(64)), &zeros),
            400,
            "tensor 'ink' has 65 dimensions; expected at most 64",
        ),
        (INFER, tensor("ink", "BYTES", "[1]", r#"["a"]"#), 400, "models here take FP32"),
        (INFER, tensor("ink", "FP33", "[1,64]", &zeros), 400, "unknown datatype 'FP33'"),
        (INFER, r#"{"inputs":[]}"#.into(), 400, "input 'ink' is missing"),
        (INFER, "{".into(), 400, "not JSON of the protocol"),
        (INFER, String::new(), 400, "not JSON of the protocol"),
        (
            "/v2/models/iris/infer",
            String::new(),
            404,
            "unknown model 'iris'; the server has digits",
        ),
        ("/v2/models/digits/versions/7/infer", String::new(), 404, "it has version 1"),
        ("/v3", String::new(), 404, "/v3 does not exist"),
        ("/v2/health/live", String::new(), 405, "expected GET for /v2/health/live, found POST"),
    ] {
        let answer = post(address, path, "", body.as_bytes());
        assert_eq!(answer.status, status, "{path} {body}: {}", answer.text());
        let error: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        let said = error["error"].as_str().unwrap();
        assert!(said.contains(words), "{path} {body}: {said}");
    }
    let wanted = format!(
        r#"{{"outputs":[{{"name":"class"}}],{}"#,
        &tensor("ink", "FP32", "[1,64]", &zeros)[1..]
    );
    let answer = post(address, INFER, "", wanted.as_bytes());
    assert!(
        answer.text().contains("no output 'class'; expected one of scores"),
        "{}",
        answer.text()
    );
    let answer = post(address, INFER, &format!("{HEAD_LENGTH}: many\r\n"), b"{}");
    assert!(answer.text().contains("expected a number of bytes"), "{}", answer.text());
    assert_eq!(get(address, INFER).status, 405);
}

#[test]
fn the_node_tells_its_name_and_its_model() {
    let (_server, address) = digits(Limits::default());
    let server = dyno_net::oip::ServerMetadata::from_json(&get(address, "/v2").body).unwrap();
    assert_eq!(server.name, "Network SUT test-1");
    let model = get(address, "/v2/models/digits/versions/1").body;
    let model = dyno_net::oip::ModelMetadata::from_json(&model).unwrap();
    assert_eq!(
        (&model.inputs[0].datatype[..], &model.inputs[0].shape[..]),
        ("FP32", &[-1, 64][..])
    );
    assert_eq!(
        (&model.outputs[0].name[..], &model.outputs[0].shape[..]),
        ("scores", &[-1, 10][..])
    );
    for path in ["/v2/health/live", "/v2/health/ready", "/v2/models/digits/ready", "/health"] {
        assert_eq!(get(address, path).status, 200, "{path}");
    }
    assert_eq!(get(address, "/v2/models/iris/ready").status, 404);
}

#[test]
fn what_was_done_is_counted() {
    let (_server, address) = digits(Limits::default());
    let body = images(1).0.to_http(false);
    for _ in 0..3 {
        assert_eq!(post(address, INFER, "", &body.bytes).status, 200);
    }
    assert_eq!(post(address, INFER, "", b"{").status, 400);
    let page = get(address, "/metrics");
    assert_eq!(page.field("content-type"), Some("text/plain; version=0.0.4"));
    let page = page.text();
    let received = 3 * body.bytes.len() + 1;
    for line in [
        "dyno_requests_total{protocol=\"oip-http\",code=\"200\"} 3",
        "dyno_requests_total{protocol=\"oip-http\",code=\"400\"} 1",
        "dyno_request_duration_seconds_count{protocol=\"oip-http\"} 4",
        "dyno_batch_size_count{model=\"digits\"} 3",
        "dyno_queue_depth{model=\"digits\"} 0",
        "dyno_queue_limit{model=\"digits\"} 64",
        "dyno_requests_in_flight 0",
        "dyno_ready 1",
        &format!("dyno_received_bytes_total {received}"),
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
    }
}
