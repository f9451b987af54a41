//! The Open Inference Protocol over gRPC.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dyno_net::grpc::{Code, Deframer, MESSAGE, STATUS, decoded, framed};
use dyno_net::oip::messages::{
    Empty, Flag, HEALTH_CHECK, HealthCheckResponse, MODEL_INFER, MODEL_METADATA, MODEL_READY,
    MODEL_STREAM_INFER, ModelMetadataResponse, ModelName, ModelStreamInferResponse, SERVER_LIVE,
    SERVER_METADATA, SERVER_READY, ServerMetadataResponse,
};
use dyno_net::oip::{Datatype, InferRequest, InferResponse, Tensor};
use dyno_net::serve::Limits;
use prost::Message;

use super::{Gate, digits, server_of, tensors, until};

/// What a call came to.
#[derive(Debug)]
struct Called {
    code: Code,
    words: String,
    messages: Vec<Bytes>,
}

/// A call whose body is sent in parts of this size.
fn call(
    address: SocketAddr,
    path: &str,
    fields: &[(&'static str, &str)],
    body: &[u8],
    cut: usize,
) -> Called {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let mut request = http::Request::post(format!("http://{address}{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let mut client = client.ready().await.unwrap();
        let (response, mut sending) =
            client.send_request(request.body(()).unwrap(), false).unwrap();
        for part in body.chunks(cut) {
            if sending.send_data(Bytes::copy_from_slice(part), false).is_err() {
                break;
            }
        }
        // A server that refuses may have ended the stream before.
        let _ = sending.send_data(Bytes::new(), true);
        let (head, mut coming) = response.await.unwrap().into_parts();
        assert_eq!(head.status, 200);
        let mut deframer = Deframer::default();
        while let Some(data) = coming.data().await {
            let data = data.unwrap();
            let _ = coming.flow_control().release_capacity(data.len());
            deframer.push(&data);
        }
        let trailers = poll_fn(|cx| coming.poll_trailers(cx)).await.unwrap();
        let trailers = trailers.unwrap_or(head.headers);
        let words = trailers.get(MESSAGE).map(|words| decoded(words.as_bytes()));
        let mut messages = Vec::new();
        while let Some(message) = deframer.pop().unwrap() {
            messages.push(message);
        }
        Called {
            code: Code::parse(trailers[STATUS].as_bytes()),
            words: String::from_utf8(words.unwrap_or_default()).unwrap(),
            messages,
        }
    })
}

fn unary(address: SocketAddr, path: &str, message: &impl Message) -> Called {
    call(address, path, &[], &framed(message), usize::MAX)
}

fn only<M: Message + Default>(called: &Called) -> M {
    assert_eq!((called.code, called.messages.len()), (Code::Ok, 1), "{}", called.words);
    M::decode(called.messages[0].clone()).unwrap()
}

fn request(model: &str, input: &str, numbers: usize) -> InferRequest {
    let data = vec![0_u8; 4 * numbers];
    let tensor = Tensor::new(input, Datatype::Fp32, vec![1, numbers], data.into()).unwrap();
    InferRequest {
        model_name: model.into(),
        id: "seven".into(),
        inputs: vec![tensor],
        ..InferRequest::default()
    }
}

#[test]
fn scores_come_in_contents_of_the_kind_that_was_sent() {
    let (_server, address) = digits(Limits::default());
    for is_raw in [true, false] {
        let message = request("digits", "ink", 64).to_message(is_raw);
        for cut in [usize::MAX, 7] {
            let called = call(address, MODEL_INFER, &[], &framed(&message), cut);
            assert_eq!(called.code, Code::Ok, "{}", called.words);
            let bytes = called.messages[0].clone();
            let answer = dyno_net::oip::messages::ModelInferResponse::decode(bytes.clone());
            assert_eq!(answer.unwrap().raw_output_contents.len(), usize::from(is_raw));
            let answer = InferResponse::from_message(bytes).unwrap();
            assert_eq!((&answer.id[..], &answer.outputs[0].shape[..]), ("seven", &[1, 10][..]));
        }
    }
}

#[test]
fn the_server_and_its_model_tell_of_themselves() {
    let (_server, address) = digits(Limits::default());
    for path in [SERVER_LIVE, SERVER_READY] {
        assert!(only::<Flag>(&unary(address, path, &Empty {})).is_so, "{path}");
    }
    let named = |name: &str| ModelName { name: name.into(), version: String::new() };
    assert!(only::<Flag>(&unary(address, MODEL_READY, &named("digits"))).is_so);
    let server: ServerMetadataResponse = only(&unary(address, SERVER_METADATA, &Empty {}));
    assert_eq!(server.name, "Network SUT test-1");
    let model: ModelMetadataResponse = only(&unary(address, MODEL_METADATA, &named("digits")));
    assert_eq!((&model.inputs[0].name[..], &model.inputs[0].shape[..]), ("ink", &[-1, 64][..]));
    let missing = unary(address, MODEL_READY, &named("iris"));
    assert_eq!(missing.code, Code::NotFound);
    assert_eq!(missing.words, "unknown model 'iris'; the server has digits");
}

#[test]
fn what_is_wrong_has_its_code_and_its_words() {
    let (_server, address) = digits(Limits { body: 2_000, ..Limits::default() });
    let infer = |request: InferRequest| unary(address, MODEL_INFER, &request.to_message(true));
    for (called, code, words) in [
        (infer(request("iris", "ink", 64)), Code::NotFound, "unknown model 'iris'"),
        (infer(request("digits", "pixels", 64)), Code::InvalidArgument, "its inputs are ink"),
        (infer(request("digits", "ink", 63)), Code::InvalidArgument, "of shape [-1, 64]"),
        (infer(request("digits", "ink", 640)), Code::ResourceExhausted, "is 2000 bytes"),
        (
            unary(address, "/inference.GRPCInferenceService/Nothing", &Empty {}),
            Code::Unimplemented,
            "unknown method",
        ),
        (
            call(address, MODEL_INFER, &[], b"\0\0\0\0\x09ab", 3),
            Code::InvalidArgument,
            "a message of 9 bytes, but the body has 2",
        ),
        (call(address, MODEL_INFER, &[], b"\0\0", 3), Code::InvalidArgument, "before its first"),
        (
            call(address, MODEL_INFER, &[], b"\0\0\0\0\x02\xff\xff", 3),
            Code::InvalidArgument,
            "a message of the protocol",
        ),
        (
            call(address, MODEL_INFER, &[("grpc-encoding", "snappy")], b"\x01\0\0\0\x01a", 9),
            Code::Unimplemented,
            "expected gzip",
        ),
        (
            call(address, MODEL_INFER, &[], b"\x01\0\0\0\x01a", 9),
            Code::InvalidArgument,
            "a compressed message without an encoding",
        ),
        (call(address, MODEL_INFER, &[], b"\x07\0\0\0\0", 9), Code::InvalidArgument, "with flag 7"),
    ] {
        assert_eq!(called.code, code, "{}", called.words);
        assert!(called.words.contains(words), "{}", called.words);
    }
}

#[test]
fn health_is_told_of_the_server_and_of_models() {
    let (_server, address) = digits(Limits::default());
    for (service, code) in [
        ("", Code::Ok),
        ("inference.GRPCInferenceService", Code::Ok),
        ("digits", Code::Ok),
        ("other", Code::NotFound),
    ] {
        let asked = ModelName { name: service.into(), version: String::new() };
        let called = unary(address, HEALTH_CHECK, &asked);
        assert_eq!(called.code, code, "{service}");
        let statuses: Vec<i32> = called
            .messages
            .iter()
            .map(|message| HealthCheckResponse::decode(&message[..]).unwrap().status)
            .collect();
        assert_eq!(statuses, if code == Code::Ok { vec![1] } else { vec![] });
    }
}

#[test]
fn a_deadline_of_the_client_and_a_full_queue_have_their_codes() {
    let gate = Arc::new(Gate::default());
    let models = vec![tensors("gated", gate.model(), 1, 1)];
    let (_server, address) = server_of(Limits::default(), models);
    let tensor = Tensor::new("x", Datatype::Fp32, vec![1], Bytes::from_static(&[0; 4])).unwrap();
    let request = InferRequest {
        model_name: "gated".into(),
        inputs: vec![tensor],
        ..InferRequest::default()
    };
    let body = framed(&request.to_message(true));
    let late = call(address, MODEL_INFER, &[("grpc-timeout", "100m")], &body, usize::MAX);
    assert_eq!(late.code, Code::DeadlineExceeded);
    until("the worker computes", || gate.calls() == 1);
    let waits = std::thread::spawn({
        let body = body.clone();
        move || call(address, MODEL_INFER, &[], &body, usize::MAX)
    });
    until("one waits", || {
        let page = super::wire::get(address, "/metrics").text();
        page.contains("dyno_queue_depth{model=\"gated\"} 1\n")
    });
    let refused = call(address, MODEL_INFER, &[], &body, usize::MAX);
    assert_eq!(refused.code, Code::ResourceExhausted);
    assert_eq!(refused.words, "the queue of model 'gated' is full: 1 wait");
    gate.open();
    assert_eq!(waits.join().unwrap().code, Code::Ok);
}

#[test]
fn a_stream_answers_each_message_and_survives_a_wrong_one() {
    let (_server, address) = digits(Limits::default());
    let messages = [
        framed(&request("digits", "ink", 64).to_message(true)),
        framed(&request("digits", "pixels", 64).to_message(true)),
        framed(&request("digits", "ink", 64).to_message(true)),
    ];
    for cut in [usize::MAX, 11] {
        let called = call(address, MODEL_STREAM_INFER, &[], &messages.concat(), cut);
        assert_eq!((called.code, called.messages.len()), (Code::Ok, 3), "{}", called.words);
        let read = |bytes: &Bytes| ModelStreamInferResponse::decode(bytes.clone()).unwrap();
        let answers: Vec<_> = called.messages.iter().map(read).collect();
        let are_answers = answers.iter().map(|answer| answer.infer_response.is_some());
        assert_eq!(are_answers.collect::<Vec<_>>(), [true, false, true]);
        assert!(
            answers[1].error_message.contains("its inputs are ink"),
            "{}",
            answers[1].error_message
        );
    }
}

#[test]
fn a_call_in_flight_is_answered_at_the_end() {
    let gate = Arc::new(Gate::default());
    let models = vec![tensors("gated", gate.model(), 1, 8)];
    let (server, address) = server_of(Limits::default(), models);
    let tensor = Tensor::new("x", Datatype::Fp32, vec![1], Bytes::from_static(&[0; 4])).unwrap();
    let request = InferRequest {
        model_name: "gated".into(),
        inputs: vec![tensor],
        ..InferRequest::default()
    };
    let body = framed(&request.to_message(true));
    let asked = std::thread::spawn({
        let body = body.clone();
        move || call(address, MODEL_INFER, &[], &body, usize::MAX)
    });
    until("the worker computes", || gate.calls() == 1);
    let drain = std::thread::spawn(move || server.drain(Duration::from_secs(60)));
    until("it is not ready", || !only::<Flag>(&unary(address, SERVER_READY, &Empty {})).is_so);
    assert_eq!(call(address, MODEL_INFER, &[], &body, usize::MAX).code, Code::Unavailable);
    gate.open();
    assert_eq!(asked.join().unwrap().code, Code::Ok);
    assert_eq!(drain.join().unwrap(), dyno_net::serve::DrainOutcome::Answered);
}

#[test]
fn a_stream_that_rests_does_not_hold_the_end_up() {
    let (server, address) = digits(Limits::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let uri = format!("http://{address}{MODEL_STREAM_INFER}");
        let request = http::Request::post(uri).header("content-type", "application/grpc");
        let mut client = client.ready().await.unwrap();
        let (response, mut sending) =
            client.send_request(request.body(()).unwrap(), false).unwrap();
        let asked = self::request("digits", "ink", 64).to_message(true);
        sending.send_data(framed(&asked), false).unwrap();
        let mut coming = response.await.unwrap().into_body();
        assert!(coming.data().await.unwrap().is_ok(), "the first message is answered");
        let drain = std::thread::spawn(move || server.drain(Duration::from_secs(60)));
        while coming.data().await.is_some() {}
        let trailers = poll_fn(|cx| coming.poll_trailers(cx)).await.unwrap().unwrap();
        assert_eq!(Code::parse(trailers[STATUS].as_bytes()), Code::Unavailable);
        drop((client, sending, coming));
        while !drain.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(drain.join().unwrap(), dyno_net::serve::DrainOutcome::Answered);
    });
}
