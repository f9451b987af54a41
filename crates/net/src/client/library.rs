//! The data set as requests: encoded when samples are loaded, untimed.

use std::fmt::Write as _;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};

use crate::endpoint::Endpoint;
use crate::exchange::Request;
use crate::protocol::Protocol;

/// Bodies up to this many bytes are copied behind each head, so that a request is one piece.
const LARGEST_COPIED: usize = 16 << 10;

/// A request as it goes over the wire.
#[derive(Debug)]
pub(super) struct Encoded {
    /// By node: the head of HTTP/1.1, and the body too if it is small.
    pub heads: Box<[Bytes]>,
    /// What follows the head; empty if the body is there already.
    pub rest: Bytes,
    /// The request itself, for HTTP/2, which encodes heads for each connection.
    pub request: Request,
}

impl Encoded {
    /// Bytes of the request to a node.
    pub(super) fn len(&self, node: usize) -> usize {
        self.heads[node].len() + self.rest.len()
    }
}

/// Requests of all samples that are loaded.
pub(super) struct Requests {
    protocol: Arc<dyn Protocol>,
    nodes: Vec<Endpoint>,
    fields: Vec<(String, String)>,
    loaded: Box<[RwLock<Option<Arc<Encoded>>>]>,
}

impl Requests {
    pub(super) fn new(
        protocol: Arc<dyn Protocol>,
        nodes: Vec<Endpoint>,
        fields: Vec<(String, String)>,
    ) -> Self {
        let loaded = (0..protocol.sample_count()).map(|_| RwLock::new(None)).collect();
        Self { protocol, nodes, fields, loaded }
    }

    /// The request of a sample. One that was not loaded is encoded now.
    #[inline]
    pub(super) fn of(&self, sample: SampleIndex) -> Arc<Encoded> {
        let slot = self.loaded.get(sample as usize);
        let loaded =
            slot.and_then(|slot| slot.read().unwrap_or_else(PoisonError::into_inner).clone());
        loaded.unwrap_or_else(|| Arc::new(self.encode(sample)))
    }

    fn encode(&self, sample: SampleIndex) -> Encoded {
        let mut request = self.protocol.request(sample);
        let is_small = request.body.len() <= LARGEST_COPIED;
        let heads = self.nodes.iter().map(|node| {
            let mut bytes = head(node, &self.fields, &request).into_bytes();
            if is_small {
                bytes.extend_from_slice(&request.body);
            }
            Bytes::from(bytes)
        });
        let heads = heads.collect();
        let rest = if is_small { Bytes::new() } else { request.body.clone() };
        request.fields.shrink_to_fit();
        Encoded { heads, rest, request }
    }

    fn set(&self, samples: &[SampleIndex], make: impl Fn(SampleIndex) -> Option<Arc<Encoded>>) {
        for &sample in samples {
            if let Some(slot) = self.loaded.get(sample as usize) {
                *slot.write().unwrap_or_else(PoisonError::into_inner) = make(sample);
            }
        }
    }
}

/// The head of a request of HTTP/1.1 (RFC 9112, section 3).
fn head(node: &Endpoint, connection: &[(String, String)], request: &Request) -> String {
    let mut head = format!(
        "{} {}{} HTTP/1.1\r\nhost: {}\r\n",
        request.method.name(),
        node.path(),
        request.path,
        node.authority()
    );
    let own = request.fields.iter().map(|(name, value)| (*name, value.as_str()));
    let connection = connection.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in own.chain(connection) {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    if request.method == crate::exchange::Method::Post || !request.body.is_empty() {
        let _ = write!(head, "content-length: {}\r\n", request.body.len());
    }
    head.push_str("\r\n");
    head
}

/// The samples of a [`Protocol`] as a library of requests, for the
/// [`Client`](super::Client) that it comes with.
pub struct Library {
    name: String,
    performance_samples: usize,
    requests: Arc<Requests>,
}

impl Library {
    pub(super) fn new(requests: Arc<Requests>) -> Self {
        let total = requests.loaded.len();
        let name = requests.protocol.name().to_owned();
        Self { name, performance_samples: total, requests }
    }

    /// The same library, of which at most so many samples are loaded at once.
    #[must_use]
    pub fn holding(self, samples: usize) -> Self {
        Self { performance_samples: samples.clamp(1, self.requests.loaded.len().max(1)), ..self }
    }

    /// The same library under another name.
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

    fn performance_sample_count(&self) -> usize {
        self.performance_samples
    }

    fn load(&self, samples: &[SampleIndex]) {
        self.requests.set(samples, |sample| Some(Arc::new(self.requests.encode(sample))));
    }

    fn unload(&self, samples: &[SampleIndex]) {
        self.requests.set(samples, |_| None);
    }
}
