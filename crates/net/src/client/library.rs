//! The data set as requests, encoded when samples are loaded (untimed).

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use dyno_loadgen::clock::WallTime;
use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};

use crate::endpoint::Endpoint;
use crate::exchange::{HttpVersion, Method, Request};
use crate::protocol::{NextTurn, Protocol, Reply};
use crate::trouble::{Kind, Trouble};

/// Bodies up to this size are copied behind each head, so that a request is one piece.
const LARGEST_COPIED: usize = 16 << 10;

/// A request in wire format.
#[derive(Debug, Default)]
pub(super) struct EncodedRequest {
    /// HTTP/1.1, by node: the head, and the body if it is small. A signed request has one only.
    heads: Box<[Bytes]>,
    /// HTTP/2, by node: the head, which each connection compresses. A signed request has one only.
    streams: Box<[http::Request<()>]>,
    /// Body after the head; empty if the head includes it.
    pub rest: Bytes,
    /// Reason why it cannot be sent.
    pub wrong: Option<Trouble>,
    /// The node that it must go to, if it is a later turn of a session.
    pub node: Option<usize>,
    /// The request before it is signed, which happens when it is sent; nothing else is set then.
    unsigned: Option<Arc<UnsignedRequest>>,
}

/// A request that is signed when it is sent.
#[derive(Debug)]
struct UnsignedRequest {
    sample: SampleIndex,
    request: Request,
    /// Hash of the body; `None` if the body differs each time.
    payload: Option<String>,
}

impl EncodedRequest {
    /// Returns the head of the request to a node over HTTP/1.1. The node of a signed request is that of its
    /// signature.
    pub(super) fn head(&self, node: usize) -> &Bytes {
        &self.heads[node.min(self.heads.len() - 1)]
    }

    /// Returns the head of the request to a node over HTTP/2, as [`head`](Self::head) does.
    pub(super) fn stream(&self, node: usize) -> &http::Request<()> {
        &self.streams[node.min(self.streams.len() - 1)]
    }

    /// Returns the bytes of the request to a node.
    pub(super) fn len(&self, node: usize) -> usize {
        self.head(node).len() + self.rest.len()
    }
}

/// Requests of all loaded samples.
pub(super) struct Requests {
    protocol: Arc<dyn Protocol>,
    nodes: Vec<Endpoint>,
    fields: Vec<(String, String)>,
    unique: UniqueDigits,
    loaded: Box<[RwLock<Option<Arc<EncodedRequest>>>]>,
}

impl Requests {
    pub(super) fn new(
        protocol: Arc<dyn Protocol>,
        nodes: Vec<Endpoint>,
        fields: Vec<(String, String)>,
    ) -> Self {
        let loaded = (0..protocol.sample_count()).map(|_| RwLock::new(None)).collect();
        Self { protocol, nodes, fields, unique: UniqueDigits::new(), loaded }
    }

    /// Returns the request of a sample as it is sent to a node now. Each call makes another signature,
    /// and other unique digits.
    #[inline]
    pub(super) fn for_node(&self, sample: SampleIndex, node: usize) -> Arc<EncodedRequest> {
        let encoded = self.encoded(sample);
        match encoded.unsigned.clone() {
            None => encoded,
            Some(unsigned) => Arc::new(self.signed(&unsigned, node)),
        }
    }

    /// Returns the request of a sample; encodes it now if it was not loaded.
    #[inline]
    fn encoded(&self, sample: SampleIndex) -> Arc<EncodedRequest> {
        let slot = self.loaded.get(sample as usize);
        let loaded =
            slot.and_then(|slot| slot.read().unwrap_or_else(PoisonError::into_inner).clone());
        let encoded =
            loaded.unwrap_or_else(|| Arc::new(self.encode(sample, self.protocol.request(sample))));
        match self.protocol.unique_mark() {
            Some(mark) => Arc::new(self.unique.replace(mark, &encoded)),
            None => encoded,
        }
    }

    /// Returns whether samples are turns of live sessions.
    pub(super) fn has_sessions(&self) -> bool {
        self.protocol.has_sessions()
    }

    /// Returns whether a turn follows an answer to a sample that calls tools, in its session.
    pub(super) fn has_next_turn(&self, sample: SampleIndex) -> bool {
        self.protocol.has_next_turn(sample)
    }

    /// Returns the node that the request of a sample must go to, if it is a later turn of a session.
    pub(super) fn node_of(&self, sample: SampleIndex) -> Option<usize> {
        self.encoded(sample).node
    }

    /// Provides the request of the turn that follows an answer, and drops that of the answer unless
    /// its sample stays loaded. Returns whether the answer calls other tools than the recording
    /// answers; `None` if it was the last turn.
    pub(super) fn continue_session(
        &self,
        sample: SampleIndex,
        reply: &Reply,
        node: usize,
    ) -> Option<bool> {
        let next = self.protocol.next_turn(sample, reply);
        if self.protocol.is_later_turn(sample) {
            self.set(&[sample], |_| None);
        }
        let NextTurn { sample, request, has_other_tools } = next?;
        let encoded = EncodedRequest { node: Some(node), ..self.encode(sample, request) };
        let encoded = Arc::new(encoded);
        self.set(&[sample], |_| Some(encoded.clone()));
        Some(has_other_tools)
    }

    /// Encodes a request, unless it must be signed later.
    fn encode(&self, sample: SampleIndex, request: Request) -> EncodedRequest {
        // All nodes share the signer.
        match self.nodes.iter().find_map(Endpoint::signer) {
            None => self.in_wire_format(sample, &request, &self.nodes, &[]),
            Some(signer) => {
                let payload = Some(signer.payload_hash(&request.body));
                let unsigned = Some(Arc::new(UnsignedRequest { sample, request, payload }));
                EncodedRequest { unsigned, ..EncodedRequest::default() }
            }
        }
    }

    /// Returns a request to a node with a signature of the present time.
    fn signed(&self, unsigned: &UnsignedRequest, node: usize) -> EncodedRequest {
        let UnsignedRequest { sample, request, payload } = unsigned;
        let endpoint = &self.nodes[node];
        let signature = endpoint.signer().map_or_else(Vec::new, |signer| {
            let payload = payload.clone().unwrap_or_else(|| signer.payload_hash(&request.body));
            let fields = self.fields_of(request);
            signer.fields(endpoint, request, &fields, &payload, WallTime::now())
        });
        self.in_wire_format(*sample, request, std::slice::from_ref(endpoint), &signature)
    }

    /// Returns the header fields of a request, without those of its signature.
    fn fields_of<'a>(&'a self, request: &'a Request) -> Vec<(&'a str, &'a str)> {
        let own = request.fields.iter().map(|(name, value)| (*name, value.as_str()));
        let common = self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        own.chain(common).collect()
    }

    /// Encodes a request to these nodes. A signature is valid for one node.
    fn in_wire_format(
        &self,
        sample: SampleIndex,
        request: &Request,
        nodes: &[Endpoint],
        signature: &[(&'static str, String)],
    ) -> EncodedRequest {
        let mut fields = self.fields_of(request);
        fields.extend(signature.iter().map(|(name, value)| (*name, value.as_str())));
        // The stricter check applies to both versions; it rejects characters that would break
        // heads.
        let streams: Result<Box<[_]>, http::Error> =
            nodes.iter().map(|node| stream(node, &fields, request)).collect();
        let streams = match (streams, self.protocol.version()) {
            (Ok(streams), HttpVersion::Http2) => {
                let rest = request.body.clone();
                return EncodedRequest { streams, rest, ..EncodedRequest::default() };
            }
            (streams, _) => streams,
        };
        if let Err(error) = streams {
            let words = format!("the request of sample {sample} cannot be built: {error}");
            let wrong = Some(Trouble::new(Kind::Request, words));
            return EncodedRequest { wrong, ..EncodedRequest::default() };
        }
        let is_small = request.body.len() <= LARGEST_COPIED;
        let heads = nodes.iter().map(|node| {
            let mut bytes = head(node, &fields, request).into_bytes();
            if is_small {
                bytes.extend_from_slice(&request.body);
            }
            Bytes::from(bytes)
        });
        let heads = heads.collect();
        let rest = if is_small { Bytes::new() } else { request.body.clone() };
        EncodedRequest { heads, rest, ..EncodedRequest::default() }
    }

    fn set(
        &self,
        samples: &[SampleIndex],
        make: impl Fn(SampleIndex) -> Option<Arc<EncodedRequest>>,
    ) {
        for &sample in samples {
            if let Some(slot) = self.loaded.get(sample as usize) {
                *slot.write().unwrap_or_else(PoisonError::into_inner) = make(sample);
            }
        }
    }
}

/// Source of digits that no other request has, of this run or of another one.
struct UniqueDigits {
    /// Where this run begins.
    begin: u64,
    requests: AtomicU64,
}

impl UniqueDigits {
    fn new() -> Self {
        Self { begin: WallTime::now().unix_ns, requests: AtomicU64::new(0) }
    }

    /// Returns a request with other digits in place of a mark.
    fn replace(&self, mark: &str, request: &EncodedRequest) -> EncodedRequest {
        let number = self.begin.wrapping_add(self.requests.fetch_add(1, Ordering::Relaxed));
        // Consecutive numbers would begin with the same digits.
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let digits =
            format!("{:0width$}", mixed % 10_u64.pow(mark.len() as u32), width = mark.len());
        let replace = |bytes: &Bytes| match memchr::memmem::find(bytes, mark.as_bytes()) {
            None => bytes.clone(),
            Some(at) => {
                let mut bytes = bytes.to_vec();
                bytes[at..at + mark.len()].copy_from_slice(digits.as_bytes());
                bytes.into()
            }
        };
        let replaced = |unsigned: &UnsignedRequest| {
            let body = replace(&unsigned.request.body);
            let request = Request { body, ..unsigned.request.clone() };
            UnsignedRequest { sample: unsigned.sample, request, payload: None }
        };
        EncodedRequest {
            heads: request.heads.iter().map(replace).collect(),
            streams: request.streams.clone(),
            rest: replace(&request.rest),
            wrong: request.wrong.clone(),
            node: request.node,
            unsigned: request.unsigned.as_deref().map(|unsigned| Arc::new(replaced(unsigned))),
        }
    }
}

/// Returns the head of an HTTP/1.1 request (RFC 9112, section 3).
fn head(node: &Endpoint, fields: &[(&str, &str)], request: &Request) -> String {
    // A proxy takes the whole URL (RFC 9112, section 3.2.2); within a tunnel it takes nothing.
    let origin = match node.proxy() {
        Some(_) if !node.is_tls() => format!("http://{}", node.authority()),
        _ => String::new(),
    };
    let mut head = format!(
        "{} {origin}{} HTTP/1.1\r\nhost: {}\r\n",
        request.method.name(),
        node.target(&request.path),
        node.authority()
    );
    let login = if node.is_tls() { None } else { node.proxy_login() };
    for (name, value) in
        fields.iter().copied().chain(login.map(|login| (crate::proxy::LOGIN, login)))
    {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    if request.method == Method::Post || !request.body.is_empty() {
        let _ = write!(head, "content-length: {}\r\n", request.body.len());
    }
    head.push_str("\r\n");
    head
}

/// Returns the head of an HTTP/2 request (RFC 9113, section 8.3).
fn stream(
    node: &Endpoint,
    fields: &[(&str, &str)],
    request: &Request,
) -> Result<http::Request<()>, http::Error> {
    let scheme = if node.is_tls() { "https" } else { "http" };
    let uri = http::Uri::builder()
        .scheme(scheme)
        .authority(node.authority())
        .path_and_query(node.target(&request.path))
        .build()?;
    let builder = http::Request::builder().method(request.method.name()).uri(uri);
    let builder =
        fields.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
    builder.version(http::Version::HTTP_2).body(())
}

/// Samples of a [`Protocol`] as a library of requests, for the [`Client`](super::Client) that it
/// was created with.
pub struct Library {
    name: String,
    requests: Arc<Requests>,
}

impl Library {
    pub(super) fn new(requests: Arc<Requests>) -> Self {
        let name = requests.protocol.name().to_owned();
        Self { name, requests }
    }

    /// Returns the library with another name.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").field("name", &self.name).finish_non_exhaustive()
    }
}

impl SampleLibrary for Library {
    fn name(&self) -> &str {
        &self.name
    }

    fn total_sample_count(&self) -> usize {
        self.requests.loaded.len()
    }

    fn load(&self, samples: &[SampleIndex]) {
        let requests = &self.requests;
        requests.set(samples, |sample| {
            let is_known = !requests.protocol.is_later_turn(sample);
            let encode = || Arc::new(requests.encode(sample, requests.protocol.request(sample)));
            is_known.then(encode)
        });
    }

    fn unload(&self, samples: &[SampleIndex]) {
        self.requests.set(samples, |_| None);
    }
}
