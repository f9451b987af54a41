use bytes::Bytes;
use dyno_net::grpc::framed;
use dyno_net::oip::messages::{
    ModelInferRequest, ModelInferResponse, ModelStreamInferResponse, TensorContents, TensorMessage,
};
use dyno_net::oip::{
    Datatype, Form, InferRequest, InferResponse, ModelMetadata, Oip, SequenceId, SequenceStep,
    Tensor,
};
use dyno_net::protocol::{Protocol, TokenCounter};
use dyno_net::trouble::Kind;
use proptest::prelude::*;
use prost::Message;

use crate::oip_http::{model, sequence, tensors};
use crate::read;

/// `ModelInferRequest` of sample 0: model_name = 1, inputs = 5, raw_input_contents = 7; a tensor
/// has name = 1, datatype = 2, shape = 3 (packed varints).
const REQUEST: &[u8] = b"\x0a\x07mymodel\
    \x2a\x13\x0a\x06input0\x12\x04FP32\x1a\x03\x01\x02\x02\
    \x3a\x10\0\0\0\0\0\0\xc0\x3f\0\0\0\xc0\0\0\x40\x40";

/// The same with `contents` = 5 of the tensor, whose fp32_contents = 6 are packed.
const TYPED: &[u8] = b"\x0a\x07mymodel\
    \x2a\x27\x0a\x06input0\x12\x04FP32\x1a\x03\x01\x02\x02\
    \x2a\x12\x32\x10\0\0\0\0\0\0\xc0\x3f\0\0\0\xc0\0\0\x40\x40";

/// `ModelInferResponse`: model_name = 1, outputs = 5, raw_output_contents = 6.
const RESPONSE: &[u8] = b"\x0a\x07mymodel\
    \x2a\x14\x0a\x07output0\x12\x05INT64\x1a\x02\x01\x01\
    \x32\x08\x02\x01\0\0\0\0\0\0";

/// The same with int64_contents = 3 of `contents` = 5, one varint of 258.
const TYPED_RESPONSE: &[u8] = b"\x0a\x07mymodel\
    \x2a\x1a\x0a\x07output0\x12\x05INT64\x1a\x02\x01\x01\x2a\x04\x1a\x02\x82\x02";

fn with_prefix(message: &[u8]) -> Vec<u8> {
    [&[0], &(message.len() as u32).to_be_bytes()[..], message].concat()
}

#[test]
fn a_sample_is_sent_raw_or_typed() {
    for (form, expected) in [(Form::Raw, REQUEST), (Form::Typed, TYPED)] {
        let request = Oip::new(model(), form).request(0);
        assert_eq!(request.path, "/inference.GRPCInferenceService/ModelInfer");
        assert_eq!(request.body, with_prefix(expected), "{form:?}");
        let fields =
            [("content-type", "application/grpc".to_owned()), ("te", "trailers".to_owned())];
        assert_eq!(request.fields, fields);
    }
}

#[test]
fn answers_are_read_raw_and_typed_from_any_cut() {
    let protocol = Oip::new(model(), Form::Raw);
    let head = [("content-type", "application/grpc+proto")];
    for message in [RESPONSE, TYPED_RESPONSE] {
        for piece in [1, 5, 6, 1000] {
            let trailers: &[_] = &[("grpc-status", "0")];
            let body = with_prefix(message);
            let found = read(&protocol, 200, &head, &body, Some(trailers), piece).unwrap();
            assert_eq!(found.data, [2, 1, 0, 0, 0, 0, 0, 0]);
            assert_eq!((found.counted_by, found.beats), (TokenCounter::Nobody, 0));
        }
    }
}

#[test]
fn answers_without_success_are_told() {
    let protocol = Oip::new(model(), Form::Raw);
    let ok: &[_] = &[("grpc-status", "0")];
    let body = with_prefix(RESPONSE);
    let read = |status, head: &[(&'static str, &str)], body: &[u8], trailers| {
        read(&protocol, status, head, body, trailers, 9).unwrap_err()
    };
    let head = [("grpc-status", "14"), ("grpc-message", "not yet")];
    let unavailable = read(200, &head, b"", None);
    assert_eq!(unavailable.kind, Kind::Refused);
    assert_eq!(unavailable.words, "gRPC status UNAVAILABLE: not yet");
    let wrong: &[_] = &[("grpc-status", "3"), ("grpc-message", "shape")];
    assert_eq!(read(200, &[], b"", Some(wrong)).kind, Kind::Request);
    assert_eq!(read(502, &[], b"", None).kind, Kind::Server);
    assert_eq!(read(200, &[("content-type", "text/html")], b"", None).kind, Kind::Malformed);
    assert_eq!(read(200, &[], &body, None).kind, Kind::Malformed);
    assert_eq!(read(200, &[], b"", Some(ok)).kind, Kind::Malformed);
    assert_eq!(read(200, &[], &body[..9], Some(ok)).kind, Kind::Cut);
    assert_eq!(read(200, &[], &body[..9], None).kind, Kind::Cut);
    assert_eq!(read(200, &[], &[&body[..], &body[..]].concat(), Some(ok)).kind, Kind::Malformed);
    assert_eq!(read(200, &[], &with_prefix(b"\xff"), Some(ok)).kind, Kind::Malformed);
}

#[test]
fn a_stream_has_any_number_of_answers() {
    let protocol = Oip::new(model(), Form::Stream);
    let response = ModelInferResponse::decode(RESPONSE).unwrap();
    let one =
        ModelStreamInferResponse { error_message: String::new(), infer_response: Some(response) };
    let last = ModelStreamInferResponse {
        infer_response: Some(ModelInferResponse::default()),
        ..ModelStreamInferResponse::default()
    };
    let body = [framed(&one), framed(&one), framed(&last)].concat();
    let ok: &[_] = &[("grpc-status", "0")];
    for piece in [1, 1000] {
        let found = read(&protocol, 200, &[], &body, Some(ok), piece).unwrap();
        assert_eq!(found.data, [[2, 1, 0, 0, 0, 0, 0, 0]; 2].concat());
        assert_eq!((found.tokens, found.counted_by, found.beats), (2, TokenCounter::Events, 2));
    }
    let error = ModelStreamInferResponse { error_message: "broke".into(), infer_response: None };
    let found = read(&protocol, 200, &[], &framed(&error), Some(ok), 1000).unwrap_err();
    assert_eq!((found.kind, &*found.words), (Kind::Server, "broke"));
}

#[test]
fn contents_that_are_not_the_type_are_told() {
    let message = |datatype: &str, contents: TensorContents| {
        let name = "x".to_owned();
        let contents = Some(contents);
        let tensor = TensorMessage { name, datatype: datatype.into(), shape: vec![1], contents };
        let request = ModelInferRequest { inputs: vec![tensor], ..ModelInferRequest::default() };
        InferRequest::from_message(request.encode_to_vec().into()).map_err(|trouble| trouble.words)
    };
    let ints = |x| TensorContents { ints: vec![x], ..TensorContents::default() };
    assert_eq!(&message("INT8", ints(-1)).unwrap().inputs[0].data[..], [255]);
    assert!(message("INT8", ints(128)).unwrap_err().contains("no contents of type INT8"));
    assert!(message("FP16", ints(1)).unwrap_err().contains("no contents of type FP16"));
    assert!(message("FP32", ints(1)).unwrap_err().contains("0 bytes, expected 1 elements"));
    let two = TensorContents { longs: vec![1], ..ints(1) };
    assert!(message("INT8", two).unwrap_err().contains("'x' has several contents"));
    let raw = ModelInferRequest {
        raw_input_contents: vec![Bytes::new()],
        ..ModelInferRequest::default()
    };
    let raw = InferRequest::from_message(raw.encode_to_vec().into()).unwrap_err();
    assert_eq!(raw.words, "1 raw contents for 0 tensors");
}

/// `parameters` = 4 of a request, a map whose entries have key = 1 and value = 2; a value has
/// bool_param = 1, int64_param = 2, string_param = 3 and uint64_param = 5.
#[test]
fn parameters_name_the_place_in_a_sequence() {
    let entry = |key: &str, value: &[u8]| {
        let lengths = [key.len() as u8, value.len() as u8];
        let inner = [&[0x0a, lengths[0]], key.as_bytes(), &[0x12, lengths[1]], value].concat();
        [&[0x22, inner.len() as u8], &inner[..]].concat()
    };
    let read = |all: &[Vec<u8>]| InferRequest::from_message(all.concat().into());
    let start = entry("sequence_start", &[0x08, 1]);
    for (value, id) in [
        (&[0x10, 7][..], SequenceId::Number(7)),
        (&[0x28, 7], SequenceId::Number(7)),
        (b"\x1a\x01a", SequenceId::Text("a".into())),
    ] {
        let found = read(&[entry("sequence_id", value), start.clone()]).unwrap().sequence;
        assert_eq!(found, Some(SequenceStep { id, is_start: true, is_end: false }));
    }
    assert_eq!(read(&[entry("priority", &[0x10, 1])]).unwrap().sequence, None);
    let wrong = |all: &[Vec<u8>]| read(all).unwrap_err().words;
    assert!(wrong(&[start]).contains("'sequence_start' without a sequence"));
    let truth = entry("sequence_id", &[0x08, 1]);
    assert!(wrong(&[truth]).contains("expected int64, uint64 or string"));
}

proptest! {
    #[test]
    fn requests_and_answers_come_back(
        tensors in tensors(), is_raw: bool, sequence in sequence(),
    ) {
        let request = InferRequest {
            model_name: "m".into(),
            id: "i".into(),
            inputs: tensors.clone(),
            sequence,
            ..InferRequest::default()
        };
        let message = request.to_message(is_raw).encode_to_vec();
        prop_assert_eq!(InferRequest::from_message(message.into()).unwrap(), request);
        let response =
            InferResponse { model_name: "m".into(), outputs: tensors, ..InferResponse::default() };
        let message = response.to_message(is_raw).encode_to_vec();
        prop_assert_eq!(InferResponse::from_message(message.into()).unwrap(), response);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let bytes = Bytes::from(bytes);
        let found = InferRequest::from_message(bytes.clone());
        prop_assert!(found.is_ok() || found.unwrap_err().kind == Kind::Malformed);
        let found = InferResponse::from_message(bytes);
        prop_assert!(found.is_ok() || found.unwrap_err().kind == Kind::Malformed);
    }
}

#[test]
fn metadata_comes_back() {
    use dyno_net::oip::messages::ModelMetadataResponse;
    let json = br#"{"name":"m","versions":["1"],"platform":"p",
        "inputs":[{"name":"x","datatype":"FP32","shape":[-1,3]}],"outputs":[]}"#;
    let model = ModelMetadata::from_json(json).unwrap();
    // name = 1, versions = 2, platform = 3, inputs = 4; -1 is a varint of ten bytes.
    let expected = b"\x0a\x01m\x12\x011\x1a\x01p\
        \x22\x16\x0a\x01x\x12\x04FP32\x1a\x0b\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x03";
    let message = ModelMetadataResponse::from(model.clone());
    assert_eq!(message.encode_to_vec(), expected);
    assert_eq!(ModelMetadata::from(message), model);
    assert!(Tensor::new("x", Datatype::Int8, vec![2], Bytes::from_static(b"a")).is_err());
}
