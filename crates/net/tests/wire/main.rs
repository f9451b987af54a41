//! Bytes on the wire, without sockets. What is expected was written by hand from the public
//! specifications of the protocols: the Open Inference Protocol with its extension for binary
//! tensors, `open_inference_grpc.proto`, "gRPC over HTTP2", and the OpenAI API reference.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
mod anthropic;
mod cohere;
mod counts;
mod cuts;
mod gateways;
mod gemini;
mod grpc;
mod images;
mod interfaces;
mod oip_grpc;
mod oip_http;
mod ollama;
mod openai;
mod pieces;
mod responses;
mod transcriptions;
mod triton;

use dyno_net::protocol::{Protocol, TokenCounter};
use dyno_net::trouble::Trouble;
use http::HeaderMap;

/// Fields of a head or of trailers.
fn fields(all: &[(&'static str, &str)]) -> HeaderMap {
    all.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

/// An answer that has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Read {
    data: Vec<u8>,
    tokens: i64,
    counted_by: TokenCounter,
    beats: u32,
    is_done: bool,
}

/// Reads an answer whose body is cut into pieces of so many bytes.
fn read(
    protocol: &dyn Protocol,
    status: u16,
    head: &[(&'static str, &str)],
    body: &[u8],
    trailers: Option<&[(&'static str, &str)]>,
    piece: usize,
) -> Result<Read, Trouble> {
    let mut reader = protocol.reader();
    // What was left of an answer that broke off is forgotten.
    let broken = fields(&[("content-type", "text/event-stream")]);
    if reader.begin(200, &broken).is_ok() {
        let _ = reader.data(&body[..body.len() / 2]);
    }
    reader.expect(0);
    reader.begin(status, &fields(head))?;
    let (mut beats, mut is_done) = (0, false);
    for piece in body.chunks(piece) {
        let heard = reader.data(piece)?;
        beats += heard.beats;
        is_done |= heard.is_done;
    }
    let heard = reader.finish()?;
    beats += heard.beats;
    is_done |= heard.is_done;
    let trailers = trailers.map(fields);
    let trailers = trailers.as_ref().map(|all| all as &dyn dyno_net::exchange::Fields);
    let answer = reader.end(trailers)?;
    let (tokens, counted_by) = (answer.tokens, answer.counted_by);
    Ok(Read { data: answer.data.to_vec(), tokens, counted_by, beats, is_done })
}
