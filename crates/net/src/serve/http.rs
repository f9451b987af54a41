//! Requests over HTTP: routing by path, and the Open Inference Protocol.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;

use super::body::{self, Outgoing};
use super::budget::{DecodedRequest, Decoder, decode, encode};
use super::counts::ServedProtocol;
use super::infer::{infer, metadata};
use super::refusal::{Refusal, RefusalKind};
use super::state::State;
use super::{grpc, openai};
use crate::coding::Coding;
use crate::oip::http::HEAD_LENGTH;
use crate::oip::{InferRequest, http as oip};

/// Answers a request of any protocol.
pub(super) async fn answer(state: Arc<State>, request: Request<Incoming>) -> Response<Outgoing> {
    let began = state.clock.now();
    let kind = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_grpc = kind.is_some_and(|kind| kind.starts_with(crate::grpc::CONTENT_TYPE.as_bytes()));
    // Load balancers ask for health without a token.
    let path = request.uri().path();
    let is_health = matches!(path, "/health" | "/v2/health/live" | "/v2/health/ready");
    let access = check_fields(&request).and_then(|()| match &state.settings.token {
        Some(token) if !is_health => token.check(request.headers()),
        _ => Ok(()),
    });
    // Other requests do not wait for anything.
    let mut head = state.budget.share();
    let access = access.and_then(|()| match *request.method() {
        Method::POST => head.resize(head_size(&request)),
        _ => Ok(()),
    });
    let (protocol, code, mut response) = if is_grpc {
        let (code, response) = match access {
            Ok(()) => grpc::answer(&state, request).await,
            Err(refusal) => grpc::refused(&state, &refusal),
        };
        (ServedProtocol::OipGrpc, code.name().to_owned(), response)
    } else {
        let protocol = match request.uri().path() {
            path if path.starts_with("/v1/") => ServedProtocol::OpenAi,
            path if path.starts_with("/v2/models/") && path.ends_with("/infer") => {
                ServedProtocol::OipHttp
            }
            _ => ServedProtocol::Other,
        };
        let accepted = accepted(&state, request.headers(), header::ACCEPT_ENCODING.as_str());
        let answered = async {
            access?;
            shorter(plain(&state, protocol, request).await?, accepted).await
        };
        let response =
            answered.await.unwrap_or_else(|refusal| refusal_response(&state, protocol, &refusal));
        (protocol, response.status().as_u16().to_string(), response)
    };
    if !state.is_ready() && response.version() < http::Version::HTTP_2 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let seconds = (state.clock.now() - began) as f64 / 1e9;
    state.counts.answered(protocol, &code, seconds);
    response
}

/// Memory of a header field besides its text, in bytes.
const FIELD: usize = 64;

/// Returns about how much memory the head of a request takes, in bytes.
fn head_size<B>(request: &Request<B>) -> usize {
    let field =
        |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + FIELD;
    request.uri().path().len() + request.headers().iter().map(field).sum::<usize>()
}

/// Header fields that a request may have only once. If a proxy and this server read different ones, they
/// see different requests.
const SINGLE_FIELDS: [&str; 6] =
    ["host", "authorization", "content-type", "content-encoding", "grpc-encoding", HEAD_LENGTH];

/// Checks the header fields of a request. Source: RFC 9112, section 3.2, for `Host`.
fn check_fields<B>(request: &Request<B>) -> Result<(), Refusal> {
    let fields = request.headers();
    let is_repeated = |name: &&&str| fields.get_all(**name).iter().nth(1).is_some();
    if let Some(name) = SINGLE_FIELDS.iter().find(is_repeated) {
        let words = format!("the request has several '{name}' fields; expected one");
        return Err(RefusalKind::Invalid.because(words));
    }
    match fields.get(header::HOST) {
        None if request.version() == http::Version::HTTP_11 => {
            Err(RefusalKind::Invalid.because("the request has no 'host' field"))
        }
        Some(host) if !is_host(host) => {
            let words = format!("'host' is {host:?}; expected a host name or an address");
            Err(RefusalKind::Invalid.because(words))
        }
        _ => Ok(()),
    }
}

/// Returns whether the value of `Host` is empty, or a host with an optional port.
fn is_host(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    let is_authority = http::uri::Authority::try_from(bytes).is_ok() && !bytes.contains(&b'@');
    bytes.is_empty() || is_authority
}

/// Returns the coding of an answer, if this server compresses answers and the client accepts one.
pub(super) fn accepted(state: &State, fields: &HeaderMap, name: &str) -> Option<Coding> {
    let value = fields.get(name).filter(|_| state.settings.compresses)?;
    Coding::accepted(value.to_str().ok()?)
}

async fn shorter(
    response: Response<Outgoing>,
    accepted: Option<Coding>,
) -> Result<Response<Outgoing>, Refusal> {
    let Some(coding) = accepted.filter(|_| response.body().is_whole()) else { return Ok(response) };
    let (mut head, body) = response.into_parts();
    let body = body.mapped(move |bytes| coding.compressed(&bytes)).await?;
    head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    Ok(Response::from_parts(head, body))
}

/// Awaits work within the time limit of a request.
///
/// # Errors
/// The limit was exceeded.
pub(super) async fn in_time<T>(
    state: &State,
    why: RefusalKind,
    what: &str,
    work: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    let limit = state.settings.limits.request;
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => Err(why.because(format!("{what} took longer than {limit:?}"))),
    }
}

async fn plain(
    state: &Arc<State>,
    protocol: ServedProtocol,
    request: Request<Incoming>,
) -> Result<Response<Outgoing>, Refusal> {
    let path = request.uri().path().to_owned();
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let expected = match (protocol, &segments[..]) {
        (ServedProtocol::OpenAi, ["v1", "models"]) => Method::GET,
        (ServedProtocol::OpenAi | ServedProtocol::OipHttp, _) => Method::POST,
        _ => Method::GET,
    };
    let is_known = matches!(
        &segments[..],
        ["health" | "metrics"]
            | ["v1", "models" | "completions"]
            | ["v1", "chat", "completions"]
            | ["v2", "health", "live" | "ready"]
            | ["v2"]
            | ["v2", "models", ..]
    );
    if !is_known {
        return Err(no_path(&path));
    }
    if *request.method() != expected {
        let method = request.method();
        return Err(RefusalKind::Method.because(format!(
            "expected {expected} for {path}, found \
             {method}"
        )));
    }
    match &segments[..] {
        ["metrics"] => Ok(typed(state, "text/plain; version=0.0.4", state.page())),
        ["v2", "health", "live"] => Ok(json(state, br#"{"live":true}"#.to_vec())),
        ["health"] | ["v2", "health", "ready"] => ready(state),
        ["v2"] => Ok(json(state, state.metadata().to_json())),
        ["v1", ..] => openai::answer(state, &path, request).await,
        ["v2", "models", name, rest @ ..] => {
            let decoded = |segment: &str| {
                String::from_utf8_lossy(&crate::percent::decoded(segment.as_bytes())).into_owned()
            };
            let (version, rest) = match rest {
                ["versions", version, rest @ ..] => (decoded(version), rest),
                rest => (String::new(), rest),
            };
            let name = decoded(name);
            match rest {
                [] => Ok(json(state, metadata(state.model(&name, &version)?).to_json())),
                ["ready"] => state.model(&name, &version).and_then(|_| ready(state)),
                ["infer"] => infer_model(state, &name, &version, request).await,
                _ => Err(no_path(&path)),
            }
        }
        _ => Err(no_path(&path)),
    }
}

fn no_path(path: &str) -> Refusal {
    RefusalKind::NotFound.because(format!(
        "{path} does not exist; use one of /v2, /v2/health/live, /v2/health/ready, \
         /v2/models/NAME, /v2/models/NAME/ready, /v2/models/NAME/infer, /v1/models, \
         /v1/completions, /v1/chat/completions and /metrics"
    ))
}

fn ready(state: &Arc<State>) -> Result<Response<Outgoing>, Refusal> {
    if state.is_ready() {
        Ok(json(state, br#"{"ready":true}"#.to_vec()))
    } else {
        Err(RefusalKind::Draining.because("the server is shutting down"))
    }
}

async fn infer_model(
    state: &Arc<State>,
    name: &str,
    version: &str,
    request: Request<Incoming>,
) -> Result<Response<Outgoing>, Refusal> {
    let flight = state.take_off()?;
    // A body for an unknown model is not worth reading.
    state.model(name, version)?;
    let (head, body) = request.into_parts();
    let head_length = match head.headers.get(HEAD_LENGTH) {
        None => None,
        Some(value) => {
            let is_number = |value: &&str| value.bytes().all(|byte| byte.is_ascii_digit());
            let length = value.to_str().ok().filter(is_number);
            let length = length.and_then(|value| value.parse().ok());
            Some(length.ok_or_else(|| {
                let words = format!("'{HEAD_LENGTH}' is {value:?}; expected a number of bytes");
                RefusalKind::Invalid.because(words)
            })?)
        }
    };
    let coding = body::coding(head.headers.get(header::CONTENT_ENCODING))?;
    let body = in_time(state, RefusalKind::Slow, "the body", body::read(state, body)).await?;
    let (name, version) = (name.to_owned(), version.to_owned());
    let decoder = Decoder {
        coding,
        // Numbers of two bytes become eight, twice.
        growth: Box::new(move |body| {
            head_length.map_or(body.len(), |length: usize| length.min(body.len())).saturating_mul(8)
        }),
        parse: Box::new(move |body| InferRequest::from_http(&name, &version, &body, head_length)),
        size: request_size,
    };
    let answer = in_time(state, RefusalKind::TimedOut, "the answer", async {
        let DecodedRequest { request, share: _share } = decode(state, body, decoder).await?;
        let asked = InferRequest { inputs: Vec::new(), ..request.clone() };
        let answer = infer(state, request).await?;
        let size = answer.outputs.iter().map(|output| output.data.len()).sum();
        encode(state, size, move || answer.to_http(|output| asked.is_binary(output))).await
    });
    let body = answer.await?;
    let mut response = typed(state, body.content_type(), body.bytes.clone());
    if let Some(length) = body.head_length {
        response.headers_mut().insert(HEAD_LENGTH, HeaderValue::from(length));
    }
    Ok(response.map(|body| body.in_flight(flight)))
}

/// Returns the memory of a parsed request: its data, and their copy for the model.
pub(super) fn request_size(request: &InferRequest) -> usize {
    request.inputs.iter().map(|input| input.data.len().saturating_mul(2)).sum()
}

/// Creates an answer of JSON.
pub(super) fn json(state: &Arc<State>, body: Vec<u8>) -> Response<Outgoing> {
    typed(state, "application/json", body)
}

/// Creates an answer with this content type.
pub(super) fn typed(
    state: &Arc<State>,
    kind: &'static str,
    body: impl Into<Bytes>,
) -> Response<Outgoing> {
    let mut response = Response::new(Outgoing::whole(state, body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn refusal_response(
    state: &Arc<State>,
    protocol: ServedProtocol,
    refusal: &Refusal,
) -> Response<Outgoing> {
    let Refusal { why, words } = refusal;
    let body = match protocol {
        ServedProtocol::OpenAi => crate::openai::error_body(words, why.openai(), why.status()),
        _ => oip::error_body(words),
    };
    let mut response = json(state, body);
    *response.status_mut() =
        StatusCode::from_u16(why.status()).expect("statuses have three digits");
    if let Some(seconds) = why.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
    }
    if *why == RefusalKind::Unauthorized {
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    }
    if matches!(why, RefusalKind::TooLarge | RefusalKind::Slow | RefusalKind::Unauthorized) {
        // The rest of the body may still arrive; it is not read.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
