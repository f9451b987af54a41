//! Requests and answers of the Open Inference Protocol over HTTP and gRPC: what is read is
//! written and read again.
#![no_main]

use bytes::Bytes;
use dyno_net::grpc::Deframer;
use dyno_net::oip::{InferRequest, InferResponse, ModelMetadata};
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|bytes: &[u8]| {
    let (cut, body) = bytes.split_first().unwrap_or((&0, bytes));
    let body = Bytes::copy_from_slice(body);
    let _ = ModelMetadata::from_json(&body);
    for length in [None, Some(usize::from(*cut))] {
        if let Ok(request) = InferRequest::from_http("m", "", &body, length) {
            // Bytes hold what JSON has no number or no text for.
            let written = request.to_http(true);
            let again = InferRequest::from_http("m", "", &written.bytes, written.head_length);
            assert_eq!(again.map(|found| found.inputs), Ok(request.inputs));
        }
        if let Ok(response) = InferResponse::from_http(&body, length) {
            let written = response.to_http(|_| true);
            let again = InferResponse::from_http(&written.bytes, written.head_length);
            assert_eq!(again, Ok(response));
        }
    }
    if let Ok(request) = InferRequest::from_message(body.clone()) {
        let written = request.to_message(true).encode_to_vec();
        assert_eq!(InferRequest::from_message(written.into()).as_ref(), Ok(&request));
        // Raw truth values may be any byte; in a list they are true or false.
        let written = request.to_message(false).encode_to_vec();
        assert!(InferRequest::from_message(written.into()).is_ok());
    }
    let _ = InferResponse::from_message(body.clone());
    let mut messages = Deframer::default();
    for piece in body.chunks(usize::from(*cut).max(1)) {
        messages.push(piece);
        while let Ok(Some(_)) = messages.pop() {}
    }
});
