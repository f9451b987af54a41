//! Requests over gRPC: the service `inference.GRPCInferenceService`.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use prost::Message;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use tokio::sync::mpsc;

use super::body::{self, Outgoing};
use super::budget::{Content, DecodedRequest, Decoder, decode, encode};
use super::http::{accepted, in_time, request_size};
use super::infer::{infer, metadata};
use super::refusal::{Refusal, RefusalKind};
use super::state::{Flight, State};
use crate::coding::Coding;
use crate::grpc::{
    ACCEPT_ENCODING, CONTENT_TYPE, Code, Deframer, ENCODING, MESSAGE, PREFIX, STATUS, encoded,
    framed, message_compressed,
};
use crate::oip::InferRequest;
use crate::oip::messages::{
    Flag, HEALTH_CHECK, HealthCheckResponse, MODEL_INFER, MODEL_METADATA, MODEL_READY,
    MODEL_STREAM_INFER, ModelMetadataResponse, ModelName, ModelStreamInferResponse, SERVER_LIVE,
    SERVER_METADATA, SERVER_READY, ServerMetadataResponse,
};

/// The service of the Open Inference Protocol.
const SERVICE: &str = "inference.GRPCInferenceService";

/// Answers a call; an error is a head with the status and without a body.
pub(super) async fn answer(
    state: &Arc<State>,
    request: Request<Incoming>,
) -> (Code, Response<Outgoing>) {
    let limit = timeout(request.headers());
    let accepted = accepted(state, request.headers(), ACCEPT_ENCODING);
    let work = call(state, request);
    let called = match limit {
        None => work.await,
        Some(limit) => tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            Err(RefusalKind::TimedOut.because(format!("the call took longer than its {limit:?}")))
        }),
    };
    let mut response = match called {
        Ok(response) => response,
        Err(refusal) => return refused(state, &refusal),
    };
    if let Some(coding) = accepted.filter(|_| response.body().is_whole()) {
        let (mut head, body) = response.into_parts();
        let compress = move |framed: Bytes| message_compressed(&framed, coding);
        response = match body.mapped(compress).await {
            Ok(body) => {
                head.headers.insert(ENCODING, HeaderValue::from_static(coding.name()));
                Response::from_parts(head, body)
            }
            Err(refusal) => return refused(state, &refusal),
        };
    }
    let kind = HeaderValue::from_static(CONTENT_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    let takes = HeaderValue::from_static("identity,gzip,deflate");
    response.headers_mut().insert(ACCEPT_ENCODING, takes);
    (Code::Ok, response)
}

/// Returns a head with the status and without a body.
pub(super) fn refused(state: &Arc<State>, refusal: &Refusal) -> (Code, Response<Outgoing>) {
    let code = refusal.why.code();
    let mut response = Response::new(Outgoing::whole(state, Bytes::new()));
    response.headers_mut().extend(trailers(code, &refusal.words));
    let kind = HeaderValue::from_static(CONTENT_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    (code, response)
}

fn trailers(code: Code, words: &str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert(STATUS, HeaderValue::from(code as u16));
    if !words.is_empty() {
        let words = HeaderValue::from_str(&encoded(words));
        trailers.insert(MESSAGE, words.expect("what is encoded is visible"));
    }
    trailers
}

/// Reads `grpc-timeout`: up to eight digits and a unit.
fn timeout(fields: &HeaderMap) -> Option<Duration> {
    let field = fields.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = field.split_at_checked(field.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count.saturating_mul(3_600)),
        "M" => Duration::from_secs(count.saturating_mul(60)),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

async fn call(
    state: &Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<Outgoing>, Refusal> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    let encoding = head.headers.get(ENCODING);
    if path == MODEL_STREAM_INFER {
        return stream(state, body, encoding);
    }
    let flight = (path == MODEL_INFER).then(|| state.take_off()).transpose()?;
    let body = in_time(state, RefusalKind::Slow, "the message", body::read(state, body)).await?;
    let (content, coding) = unary(body, encoding)?;
    if path == MODEL_INFER {
        let work = infer_message(state, content, coding);
        let framed = in_time(state, RefusalKind::TimedOut, "the answer", work).await?;
        return Ok(whole(state, framed, flight));
    }
    let decoder =
        Decoder { coding, growth: Box::new(|_| 0), parse: Box::new(Ok), size: Bytes::len };
    let DecodedRequest { request: message, .. } = decode(state, content, decoder).await?;
    let decoded = |message: Bytes| {
        ModelName::decode(message).map_err(|error| {
            RefusalKind::Invalid.because(format!("the request is not a valid message: {error}"))
        })
    };
    let framed = match path {
        SERVER_LIVE => framed(&Flag { is_so: true }),
        SERVER_READY => framed(&Flag { is_so: state.is_ready() }),
        MODEL_READY => {
            let ModelName { name, version } = decoded(message)?;
            state.model(&name, &version)?;
            framed(&Flag { is_so: state.is_ready() })
        }
        HEALTH_CHECK => {
            // The service name of a health check has the field number of a model name.
            let ModelName { name, .. } = decoded(message)?;
            if !matches!(&name[..], "" | SERVICE) {
                state.model(&name, "")?;
            }
            framed(&HealthCheckResponse { status: if state.is_ready() { 1 } else { 2 } })
        }
        SERVER_METADATA => framed(&ServerMetadataResponse::from(state.metadata())),
        MODEL_METADATA => {
            let ModelName { name, version } = decoded(message)?;
            framed(&ModelMetadataResponse::from(metadata(state.model(&name, &version)?)))
        }
        other => {
            return Err(RefusalKind::Method.because(format!(
                "unknown method {other}; use {SERVICE} or grpc.health.v1.Health/Check"
            )));
        }
    };
    Ok(whole(state, framed, flight))
}

/// Returns a call's answer of one message.
fn whole(state: &Arc<State>, framed: Bytes, flight: Option<Flight>) -> Response<Outgoing> {
    let body = Outgoing::whole(state, framed).with_trailers(trailers(Code::Ok, ""));
    Response::new(match flight {
        Some(flight) => body.in_flight(flight),
        None => body,
    })
}

/// Returns the only message of a call and its coding.
fn unary(
    Content { bytes: body, share }: Content,
    encoding: Option<&HeaderValue>,
) -> Result<(Content, Option<Coding>), Refusal> {
    let Some(&[flag, ref length @ ..]) = body.first_chunk::<PREFIX>() else {
        return Err(RefusalKind::Invalid.because("the body ends before its first message"));
    };
    let (expected, found) = (u32::from_be_bytes(*length) as usize, body.len() - PREFIX);
    if expected != found {
        return Err(RefusalKind::Invalid
            .because(format!("a message of {expected} bytes, but the body has {found}")));
    }
    let refused = |words: String| RefusalKind::Invalid.because(words);
    let coding = match flag {
        0 => None,
        1 => {
            let coding = body::coding(encoding)?;
            Some(coding.ok_or_else(|| refused("a compressed message without an encoding".into()))?)
        }
        other => return Err(refused(format!("a message with flag {other}"))),
    };
    Ok((Content { bytes: body.slice(PREFIX..), share }, coding))
}

async fn infer_message(
    state: &Arc<State>,
    content: Content,
    coding: Option<Coding>,
) -> Result<Bytes, Refusal> {
    let DecodedRequest { request, share: _share } =
        decode(state, content, message_decoder(coding)).await?;
    let (request, is_raw) = request;
    let answer = infer(state, request).await?;
    let size = answer.outputs.iter().map(|output| output.data.len()).sum();
    encode(state, size, move || framed(&answer.to_message(is_raw))).await
}

/// Returns the decoder of a message of inference, and whether its contents are raw: the answer uses
/// the contents of the request, because some clients read only raw contents, some only typed ones.
fn message_decoder(coding: Option<Coding>) -> Decoder<(InferRequest, bool)> {
    Decoder {
        coding,
        // A number of one byte becomes eight.
        growth: Box::new(|message| {
            let factor = if has_raw_inputs(message.clone()) { 1 } else { 8 };
            message.len().saturating_mul(factor)
        }),
        parse: Box::new(|message| {
            let is_raw = has_raw_inputs(message.clone());
            Ok((InferRequest::from_message(message)?, is_raw))
        }),
        size: |(request, _)| request_size(request),
    }
}

/// `raw_input_contents` of `ModelInferRequest`.
const RAW_INPUTS: u32 = 7;

/// Returns whether the message has raw contents, without decoding it.
fn has_raw_inputs(mut message: Bytes) -> bool {
    while let Ok((field, wire)) = decode_key(&mut message) {
        if field == RAW_INPUTS {
            return true;
        }
        if skip_field(wire, field, &mut message, DecodeContext::default()).is_err() {
            return false;
        }
    }
    false
}

/// Maximum number of answers that wait for a slow client.
const UNREAD: usize = 4;

/// `ModelStreamInfer`: each message of the client gets one answer, in order; an error is a message
/// within the answer, and the call continues.
fn stream(
    state: &Arc<State>,
    body: Incoming,
    encoding: Option<&HeaderValue>,
) -> Result<Response<Outgoing>, Refusal> {
    let coding = body::coding(encoding)?;
    let messages = Deframer::new(coding, state.settings.limits.body);
    let flight = state.take_off()?;
    let (parts, received) = mpsc::channel(UNREAD);
    let (ends, end) = mpsc::channel(1);
    let state_of_task = Arc::clone(state);
    tokio::spawn(async move {
        let ended = converse(&state_of_task, (body, messages), &parts, &flight).await;
        let (code, words) = match ended {
            Ok(()) => (Code::Ok, String::new()),
            Err(refusal) => (refusal.why.code(), refusal.words),
        };
        // The end of a call is lost if its client has disconnected.
        let _ = ends.send(trailers(code, &words)).await;
    });
    Ok(Response::new(Outgoing::parts(state, received).ending(end)))
}

async fn converse(
    state: &Arc<State>,
    (mut body, mut deframer): (Incoming, Deframer),
    parts: &mpsc::Sender<Bytes>,
    _flight: &Flight,
) -> Result<(), Refusal> {
    let most = state.settings.limits.body;
    let mut share = state.budget.share();
    loop {
        while let Some((message, coding)) = deframer.pop_compressed()? {
            let content = Content { bytes: message, share: state.budget.share() };
            let work = stream_part(state, content, coding);
            let answered = in_time(state, RefusalKind::TimedOut, "the answer", work);
            let part = answered.await.unwrap_or_else(|refusal| {
                framed(&ModelStreamInferResponse {
                    error_message: refusal.words,
                    ..ModelStreamInferResponse::default()
                })
            });
            if parts.send(part).await.is_err() {
                return Ok(());
            }
        }
        // An idle client must not delay the shutdown.
        let (mut next, mut drains) = (pin!(body.frame()), pin!(state.drains()));
        let next = poll_fn(|cx| match next.as_mut().poll(cx) {
            Poll::Ready(next) => Poll::Ready(Ok(next)),
            Poll::Pending => drains.as_mut().poll(cx).map(Err),
        });
        let frame = match next.await {
            Err(()) => return Err(RefusalKind::Draining.because("the server is shutting down")),
            Ok(None) if deframer.left() > 0 => {
                return Err(RefusalKind::Invalid.because("the stream ends within a message"));
            }
            Ok(None) => return Ok(()),
            Ok(Some(frame)) => {
                frame.map_err(|error| RefusalKind::Invalid.because(error.to_string()))?
            }
        };
        if let Ok(data) = frame.into_data() {
            if deframer.left() + data.len() > most + PREFIX {
                let words = format!("a message of more than {most} bytes");
                return Err(RefusalKind::TooLarge.because(words));
            }
            deframer.push(&data);
            share.resize(deframer.left())?;
        }
    }
}

/// Computes one message of a stream, and returns the message of its answer.
async fn stream_part(
    state: &Arc<State>,
    content: Content,
    coding: Option<Coding>,
) -> Result<Bytes, Refusal> {
    let DecodedRequest { request, share: _share } =
        decode(state, content, message_decoder(coding)).await?;
    let answer = infer(state, request.0).await?;
    let size = answer.outputs.iter().map(|output| output.data.len()).sum();
    let part = move || {
        framed(&ModelStreamInferResponse {
            infer_response: Some(answer.to_message(true)),
            ..ModelStreamInferResponse::default()
        })
    };
    encode(state, size, part).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oip::{Datatype, Tensor};

    #[test]
    fn timeouts_are_of_every_unit() {
        let of = |value: &'static str| {
            let mut fields = HeaderMap::new();
            fields.insert("grpc-timeout", HeaderValue::from_static(value));
            timeout(&fields)
        };
        assert_eq!(of("2S"), Some(Duration::from_secs(2)));
        assert_eq!(of("20m"), Some(Duration::from_millis(20)));
        assert_eq!(of("1M"), Some(Duration::from_secs(60)));
        assert_eq!([of(""), of("S"), of("3"), of("1x")], [None; 4]);
    }

    #[test]
    fn contents_are_answered_as_they_were_given() {
        let data = Bytes::from_static(&[0; 4]);
        let tensor = Tensor::new("x", Datatype::Fp32, vec![1], data).unwrap();
        let request = InferRequest { inputs: vec![tensor], ..InferRequest::default() };
        for is_raw in [false, true] {
            let message = request.to_message(is_raw).encode_to_vec();
            assert_eq!(has_raw_inputs(message.into()), is_raw);
        }
    }
}
