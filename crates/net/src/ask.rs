//! Single requests to a server outside of any run, such as for its metadata and models.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use dyno_loadgen::clock::{Nanos, WallTime};
use http::HeaderMap;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use crate::client::MOST_FIELDS;
use crate::coding::{Decoder, unsupported};
use crate::endpoint::Endpoint;
use crate::exchange::{Fields as _, HttpVersion, Request};
use crate::grpc;
use crate::oip::http::error_words;
use crate::openai::DONE;
use crate::protocol::{LONGEST_ANSWER, ReadProgress, Reader};
use crate::proxy::Tunnel;
use crate::reach::connect;
use crate::secrets::hide;
use crate::tls::{self, Trust};
use crate::trouble::{Kind, Trouble};

/// Settings of single requests to a server.
#[derive(Debug, Clone, Copy)]
pub struct ServerQuery<'a> {
    /// Server.
    pub endpoint: &'a Endpoint,
    /// HTTP version.
    pub version: HttpVersion,
    /// Fields of the connection, such as `authorization`.
    pub fields: &'a [(String, String)],
    /// How the server is verified.
    pub trust: &'a Trust,
    /// Secrets of the request beside `fields`, which troubles must not repeat.
    pub secrets: &'a [String],
    /// Time limit of a request, including the connection.
    pub limit: Duration,
}

/// Time limit of the handshake that shows whether a server speaks TLS.
const HANDSHAKE: Duration = Duration::from_secs(2);

/// How long to wait for the end of a body after the last event of its stream, whatever comes behind it.
const END_OF_BODY: Duration = Duration::from_secs(1);

/// Maximum length of a line with [`DONE`], in bytes.
const LAST_LINE: usize = 32;

/// Byte order mark, which some servers write before JSON.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Answer with any status.
#[derive(Debug, Clone)]
pub struct HttpAnswer {
    /// HTTP status.
    pub status: u16,
    fields: HeaderMap,
    body: Bytes,
    trailers: Option<HeaderMap>,
}

impl HttpAnswer {
    /// Returns the target of a redirection.
    pub fn location(&self) -> Option<String> {
        let location = self.fields.get("location")?;
        Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
    }

    /// Returns the fields of the head.
    pub fn fields(&self) -> &HeaderMap {
        &self.fields
    }

    /// Returns the body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns the message of an answer whose status is not success.
    pub fn words(&self) -> String {
        error_words(&self.body)
    }
}

impl ServerQuery<'_> {
    /// Returns the query with a time limit of at most `limit` ns, if that is given.
    #[must_use]
    pub fn within(self, limit: Option<Nanos>) -> Self {
        let limit = limit.map_or(self.limit, |limit| self.limit.min(Duration::from_nanos(limit)));
        Self { limit, ..self }
    }

    /// Returns the body of the answer.
    ///
    /// # Errors
    /// No answer in time, or a status other than success.
    pub fn ask(&self, request: &Request) -> Result<Bytes, Trouble> {
        Ok(self.answer(request)?.body)
    }

    /// Returns the answer.
    ///
    /// # Errors
    /// No answer in time, or a status other than success.
    pub fn answer(&self, request: &Request) -> Result<HttpAnswer, Trouble> {
        self.success(self.exchange(request)?)
    }

    /// Returns an answer if its status is success.
    pub(crate) fn success(&self, answer: HttpAnswer) -> Result<HttpAnswer, Trouble> {
        match Kind::of_status(answer.status) {
            None => Ok(answer),
            Some(kind) => {
                Err(Trouble::of_status(kind, answer.status, &self.hidden(&answer.words())))
            }
        }
    }

    /// Returns the endpoint to which an answer redirects the request of `path`.
    ///
    /// # Errors
    /// [`Kind::Mismatch`]: the target is another interface, the same URL, or another origin, or the
    /// status changes the method of the request.
    pub fn follow(&self, answer: &HttpAnswer, path: &str) -> Result<Endpoint, Trouble> {
        let from = self.endpoint;
        let location = answer.location().unwrap_or_default();
        let not_followed = |why: &str| {
            // Its query may repeat secrets.
            let shown =
                location.split_once('?').map_or(location.clone(), |(url, _)| format!("{url}?***"));
            let words = format!("{from} redirects requests to {shown:?}, {why}");
            Err(Trouble::new(Kind::Mismatch, self.hidden(&words)))
        };
        if !is_redirection(answer.status) {
            return not_followed(
                "with a status that changes their method; use the URL of the server itself",
            );
        }
        let Some(target) = from.redirected(&location, path) else {
            return not_followed(
                "which is a different interface; use the URL of the server itself",
            );
        };
        let is_same_origin = target.is_same_origin(from);
        if is_same_origin && target.path() == from.path() {
            return not_followed("which is the same URL; check the gateway in front of the server");
        }
        // A server must not direct the load, or secrets of requests, to a server of others.
        if !is_same_origin {
            return not_followed(
                "which is another origin; use that URL if it is the server to measure",
            );
        }
        Ok(target)
    }

    /// Returns a text of the server without secrets of the request.
    pub fn hidden(&self, words: &str) -> String {
        hide(words, self.fields, self.secrets)
    }

    /// Returns the message of a gRPC answer.
    ///
    /// # Errors
    /// No answer in time, a status other than success, or a body that is not a gRPC message.
    pub fn call<M: prost::Message + Default>(
        &self,
        path: &str,
        message: &impl prost::Message,
    ) -> Result<M, Trouble> {
        let request = Request {
            method: crate::exchange::Method::Post,
            path: path.into(),
            fields: vec![("content-type", grpc::CONTENT_TYPE.into()), ("te", "trailers".into())],
            body: grpc::framed(message),
        };
        let answered = self.success(self.exchange(&request)?)?;
        for fields in std::iter::once(&answered.fields).chain(&answered.trailers) {
            grpc::status(fields)
                .map_err(|trouble| Trouble::new(trouble.kind, self.hidden(&trouble.words)))?;
        }
        let mut messages = grpc::Deframer::default();
        messages.begin(&answered.fields)?;
        messages.push(&answered.body);
        let malformed = |words: String| Trouble::new(Kind::Malformed, words);
        let message = messages.pop()?;
        let message = message.ok_or_else(|| malformed(format!("{path} has no answer")))?;
        M::decode(message).map_err(|error| malformed(format!("the answer to {path}: {error}")))
    }

    /// Returns the answer, whatever its status.
    ///
    /// # Errors
    /// No answer in time.
    pub fn exchange(&self, request: &Request) -> Result<HttpAnswer, Trouble> {
        self.exchange_until_complete(request, None)
    }

    /// Returns the answer, whatever its status. Once `reader` finds it complete, this waits for the end of its body
    /// no longer than a run does.
    ///
    /// # Errors
    /// No answer in time.
    pub fn exchange_until_complete(
        &self,
        request: &Request,
        reader: Option<&mut dyn Reader>,
    ) -> Result<HttpAnswer, Trouble> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Trouble::new(Kind::Connect, error.to_string()))?;
        let endpoint = self.endpoint;
        let answered = async {
            let exchange = self.connect_and_exchange(request, reader);
            match tokio::time::timeout(self.limit, exchange).await {
                Ok(answered) => answered,
                Err(_) => {
                    let seconds = self.limit.as_secs_f64();
                    let words = format!("{} did not answer within {seconds} s", endpoint.route());
                    Err(Trouble::new(Kind::TimedOut, words))
                }
            }
        };
        // A proxy or a server may repeat a secret in what is no answer.
        runtime
            .block_on(answered)
            .map_err(|trouble| Trouble::new(trouble.kind, self.hidden(&trouble.words)))
    }

    /// Returns whether the server completes a TLS handshake, or has a certificate that is not trusted.
    pub fn speaks_tls(&self) -> bool {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
            return false;
        };
        let handshake = async {
            let addresses = self.endpoint.resolve().ok()?;
            let stream = connect(&addresses).await.ok()?;
            let config = tls::config(self.trust, self.version).ok()?;
            let name = tls::server_name(self.endpoint).ok()?;
            match tokio_rustls::TlsConnector::from(config).connect(name, stream).await {
                Ok(_) => Some(()),
                // Bytes of another protocol are another error.
                Err(error) => match error.get_ref()?.downcast_ref::<rustls::Error>()? {
                    rustls::Error::InvalidCertificate(_) | rustls::Error::AlertReceived(_) => {
                        Some(())
                    }
                    _ => None,
                },
            }
        };
        let limit = self.limit.min(HANDSHAKE);
        let found = runtime.block_on(async { tokio::time::timeout(limit, handshake).await });
        found.is_ok_and(|found| found.is_some())
    }

    async fn connect_and_exchange(
        &self,
        request: &Request,
        reader: Option<&mut dyn Reader>,
    ) -> Result<HttpAnswer, Trouble> {
        let endpoint = self.endpoint;
        let addresses = endpoint.resolve()?;
        let mut stream = connect(&addresses).await.map_err(|error| {
            let server = endpoint.proxy().unwrap_or(endpoint);
            Trouble::new(Kind::Connect, format!("cannot connect to {server}: {error}"))
        })?;
        if let Some(tunnel) = Tunnel::to(endpoint, self.version) {
            tunnel.open(&mut stream).await?;
        }
        if !endpoint.is_tls() {
            return self.over(stream, request, reader).await;
        }
        let config = tls::config(self.trust, self.version);
        let config = config.map_err(|error| Trouble::new(Kind::Tls, error.to_string()))?;
        let name = tls::server_name(endpoint)?;
        let connector = tokio_rustls::TlsConnector::from(config);
        match connector.connect(name, stream).await {
            Ok(stream) => self.over(stream, request, reader).await,
            Err(error) => match error.get_ref().and_then(|inner| inner.downcast_ref()) {
                Some(error) => Err(tls::trouble(endpoint, error)),
                None => Err(Trouble::new(Kind::Tls, format!("TLS with {endpoint}: {error}"))),
            },
        }
    }

    async fn over(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        request: &Request,
        reader: Option<&mut dyn Reader>,
    ) -> Result<HttpAnswer, Trouble> {
        let broken = |error: hyper::Error| {
            let words = format!("{} broke off: {error}", self.endpoint);
            Trouble::new(Kind::Closed, words)
        };
        let (io, request) = (TokioIo::new(stream), self.http(request)?);
        let response = match self.version {
            HttpVersion::Http1 => {
                let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
                    .max_headers(MOST_FIELDS)
                    .allow_obsolete_multiline_headers_in_responses(true)
                    .allow_spaces_after_header_name_in_responses(true)
                    .handshake(io)
                    .await
                    .map_err(broken)?;
                // Dropping the sender would end the connection before its answer.
                self.read(beside(connection, sender.send_request(request)).await, reader).await?
            }
            HttpVersion::Http2 => {
                let (mut sender, connection) =
                    hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
                        .await
                        .map_err(broken)?;
                self.read(beside(connection, sender.send_request(request)).await, reader).await?
            }
        };
        Ok(response)
    }

    /// Returns the request in the types of `hyper`.
    fn http(&self, request: &Request) -> Result<http::Request<Full<Bytes>>, Trouble> {
        let path = self.endpoint.target(&request.path);
        let authority = self.endpoint.authority();
        let scheme = if self.endpoint.is_tls() { "https" } else { "http" };
        let own = request.fields.iter().map(|(name, value)| (*name, value.as_str()));
        let common = self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let fields: Vec<(&str, &str)> = own.chain(common).collect();
        let signature = self.endpoint.signer().map_or_else(Vec::new, |signer| {
            let payload = signer.payload_hash(&request.body);
            signer.fields(self.endpoint, request, &fields, &payload, WallTime::now())
        });
        let is_forwarded = self.endpoint.proxy().is_some() && !self.endpoint.is_tls();
        let (uri, host) = match self.version {
            HttpVersion::Http1 if is_forwarded => {
                (format!("http://{authority}{path}"), Some(authority))
            }
            HttpVersion::Http1 => (path, Some(authority)),
            HttpVersion::Http2 => (format!("{scheme}://{authority}{path}"), None),
        };
        let mut built = http::Request::builder().method(request.method.name()).uri(uri);
        if let Some(host) = host {
            built = built.header("host", host);
        }
        if let (HttpVersion::Http1, false, Some(login)) =
            (self.version, self.endpoint.is_tls(), self.endpoint.proxy_login())
        {
            built = built.header(crate::proxy::LOGIN, login);
        }
        for (name, value) in fields {
            built = built.header(name, value);
        }
        for (name, value) in &signature {
            built = built.header(*name, value);
        }
        built
            .body(Full::new(request.body.clone()))
            .map_err(|error| Trouble::new(Kind::Request, format!("invalid request: {error}")))
    }

    async fn read(
        &self,
        response: hyper::Result<http::Response<Incoming>>,
        reader: Option<&mut dyn Reader>,
    ) -> Result<HttpAnswer, Trouble> {
        let broken = |error: hyper::Error| {
            Trouble::new(Kind::Closed, format!("{} broke off: {error}", self.endpoint))
        };
        let (head, body) = response.map_err(broken)?.into_parts();
        let status = head.status.as_u16();
        // Some servers and gateways compress answers unasked.
        let decoder = || Decoder::of_answer(head.headers.list("content-encoding").as_deref());
        let reading = reader.and_then(|reader| {
            let decoder = decoder().ok()?;
            reader.begin(status, &head.headers).ok()?;
            Some((reader, decoder))
        });
        let (body, trailers) = read_body(body, reading).await.map_err(|error| {
            Trouble::new(Kind::Closed, format!("{} broke off: {error}", self.endpoint))
        })?;
        let body = match decoder() {
            // What cannot be decompressed stays as it is.
            Ok(decoder) => {
                let content = decoder.and_then(|one| one.decompressed(&body, LONGEST_ANSWER).ok());
                content.unwrap_or(body)
            }
            Err(other) if Kind::of_status(status).is_some() => unsupported(&other).into(),
            Err(other) => return Err(Trouble::new(Kind::Malformed, unsupported(&other))),
        };
        let body = body.strip_prefix(MARK).map_or(body.clone(), |json| body.slice_ref(json));
        Ok(HttpAnswer { status, fields: head.headers, body, trailers })
    }
}

/// Reader of an answer, with the decompressor of its body.
type Reading<'a> = (&'a mut dyn Reader, Option<Decoder>);

/// Returns a body and its trailers. Once the answer has declared itself complete, this waits for the end of the
/// body no longer than a run does.
async fn read_body(
    body: Incoming,
    mut reading: Option<Reading<'_>>,
) -> Result<(Bytes, Option<HeaderMap>), Box<dyn Error + Send + Sync>> {
    let mut body = Limited::new(body, LONGEST_ANSWER);
    let (mut content, mut trailers) = (Vec::<u8>::new(), None);
    let mut end: Option<Instant> = None;
    loop {
        let frame = match end {
            None => body.frame().await,
            Some(end) => tokio::time::timeout_at(end, body.frame()).await.unwrap_or(None),
        };
        let frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(error)) if end.is_none() => return Err(error),
            _ => break,
        };
        let known = content.len().saturating_sub(LAST_LINE);
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                trailers = frame.into_trailers().ok();
                continue;
            }
        };
        content.extend_from_slice(&data);
        let heard = match &mut reading {
            Some((reader, None)) => reader.data(&data),
            Some((reader, Some(decoder))) => decoder.read(&data, &mut **reader),
            None => Ok(ReadProgress {
                is_done: content[known..].split(|&byte| byte == b'\n').any(is_last),
                ..ReadProgress::default()
            }),
        };
        match heard {
            Ok(heard) if heard.is_done && end.is_none() => end = Some(Instant::now() + END_OF_BODY),
            Ok(_) => {}
            // The reader of the whole body reports it.
            Err(_) => reading = None,
        }
    }
    Ok((content.into(), trailers))
}

/// Returns whether a line ends a stream.
fn is_last(line: &[u8]) -> bool {
    line.strip_prefix(b"data:").unwrap_or(line).trim_ascii() == DONE
}

/// Returns whether an answer with this status redirects a request without changing its method. (Some
/// clients change it after 301 and 302; this one does not.)
pub fn is_redirection(status: u16) -> bool {
    matches!(status, 301 | 302 | 307 | 308)
}

/// Waits for an answer while a task of the runtime keeps the connection going.
async fn beside<T>(
    connection: impl Future<Output = hyper::Result<()>> + Send + 'static,
    answer: impl Future<Output = T>,
) -> T {
    tokio::spawn(connection);
    answer.await
}
