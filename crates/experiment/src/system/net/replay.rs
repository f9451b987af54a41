//! Requests of a system for another load generator, which sends the same bytes.

use std::sync::Arc;

use dyno_loadgen::qsl::SampleIndex;
use dyno_net::client::Options;
use dyno_net::endpoint::Endpoint;
use dyno_net::exchange::HttpVersion;
use dyno_net::protocol::Protocol;
use dyno_net::tls::Authorities;

use super::{Answers, Remote, ServerGroup};

/// What a client sends, and where.
pub struct RequestSource {
    protocol: Arc<dyn Protocol>,
    endpoint: Endpoint,
    /// Why no other load generator can send the same, if so.
    obstacle: Option<String>,
    /// Maximum number of requests in flight, if the system limits it.
    limit: Option<usize>,
}

/// Requests of a server of texts for another load generator.
pub struct Replay<'a> {
    source: &'a RequestSource,
    /// Scheme, host and port.
    pub url: String,
    /// Path and query.
    pub path: String,
    /// Whether answers are streamed.
    pub is_streaming: bool,
    /// Maximum number of requests in flight, if the system limits it.
    pub limit: Option<usize>,
}

impl RequestSource {
    /// Returns the source of a group, which is one of `groups`.
    pub(super) fn new(group: &ServerGroup, groups: usize) -> Self {
        let obstacle = match obstacle(&group.options, group.protocol.as_ref()) {
            _ if groups > 1 => Some("tenants have different servers".to_owned()),
            _ if group.nodes.len() > 1 => Some("several servers take turns (node=)".to_owned()),
            _ if group.nodes[0].proxy().is_some() => Some("requests go through a proxy".to_owned()),
            _ if group.sessions.is_some() => Some("sessions have live answers".to_owned()),
            _ if group.schedule.is_some() => Some("a trace has recorded times".to_owned()),
            obstacle => obstacle.map(str::to_owned),
        };
        let limit = group.options.max_in_flight.map(std::num::NonZero::get);
        let (protocol, endpoint) = (group.protocol.clone(), group.nodes[0].clone());
        Self { protocol, endpoint, obstacle, limit }
    }
}

/// Returns an option that other load generators do not have, or that would show them a secret.
fn obstacle(options: &Options, protocol: &dyn Protocol) -> Option<&'static str> {
    let trust = &options.trust;
    let has_trust = trust.is_unverified
        || trust.identity.is_some()
        || !trust.fingerprints.is_empty()
        || trust.authorities != Authorities::Public;
    let found = [
        (
            !options.fields.is_empty(),
            "requests have header fields or a token (header., token-env=)",
        ),
        (options.secrets.iter().any(|secret| !secret.is_empty()), "requests contain secrets"),
        (has_trust, "the server has its own rules of trust (ca=, fingerprint=, insecure=)"),
        (protocol.version() == HttpVersion::Http2, "requests use HTTP/2 (http2=true)"),
        (protocol.unique_mark().is_some(), "each request is unique (unique-prefix=true)"),
        (options.compress.is_some() || options.accept.is_some(), "bodies are compressed"),
        (options.cancellation.is_some(), "requests are cancelled (cancel=)"),
        (options.retries > 0, "requests are retried (retries=)"),
        (!options.keep_alive, "each request has its own connection (keep-alive=false)"),
    ];
    found.into_iter().find(|(is_given, _)| *is_given).map(|(_, words)| words)
}

impl Remote {
    /// Returns the requests for another load generator.
    ///
    /// # Errors
    /// Why another load generator cannot send the same.
    pub fn replay(&self) -> Result<Replay<'_>, String> {
        let source = &self.requests;
        if let Some(obstacle) = &source.obstacle {
            return Err(obstacle.clone());
        }
        if !matches!(self.answers, Answers::Text { .. }) {
            return Err("the answers of the server are not text".to_owned());
        }
        let (endpoint, request) = (&source.endpoint, source.protocol.request(0));
        let scheme = if endpoint.is_tls() { "https" } else { "http" };
        let host = match endpoint.host() {
            host if host.contains(':') => format!("[{host}]"),
            host => host.to_owned(),
        };
        let query = match endpoint.query() {
            "" => String::new(),
            query => format!("?{query}"),
        };
        Ok(Replay {
            source,
            url: format!("{scheme}://{host}:{}", endpoint.port()),
            path: format!("{}{}{query}", endpoint.path(), request.path),
            is_streaming: source.protocol.is_streaming(),
            limit: source.limit,
        })
    }
}

impl Replay<'_> {
    /// Returns the body of the request of a sample.
    pub fn body(&self, sample: SampleIndex) -> Vec<u8> {
        self.source.protocol.request(sample).body.to_vec()
    }
}
