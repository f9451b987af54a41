//! What makes a client impossible, whatever its servers do.

use std::fmt;

use super::Options;
use crate::endpoint::Endpoint;
use crate::exchange::HttpVersion;
use crate::protocol::Protocol;
use crate::tls::TrustError;

/// Why a client cannot be started.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// There are no nodes, no samples, or no connections.
    Nothing(&'static str),
    /// A field would break the heads that it stands in.
    Field {
        /// Its name.
        name: String,
    },
    /// Connections of HTTP/2 are kept.
    KeepAlive,
    /// Fewer requests may be under way than there are nodes.
    Limit {
        /// Nodes.
        nodes: usize,
    },
    /// The authorities cannot be used.
    Trust(TrustError),
    /// The operating system refuses a thread or a poll.
    System(std::io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing(what) => write!(f, "expected at least one {what}, found none"),
            Self::Field { name } => write!(
                f,
                "expected a field of printable characters with a name in lower case, found {name:?}"
            ),
            Self::KeepAlive => f.write_str(
                "connections of HTTP/2 are kept; only those of HTTP/1.1 can be for one request each",
            ),
            Self::Limit { nodes } => write!(
                f,
                "expected a limit of at least one request under way for each of {nodes} servers"
            ),
            Self::Trust(error) => error.fmt(f),
            Self::System(error) => write!(f, "threads of the client cannot be started: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// Refuses what no client can be started with.
pub(super) fn check(
    protocol: &dyn Protocol,
    nodes: &[Endpoint],
    options: &Options,
) -> Result<(), StartError> {
    if nodes.is_empty() {
        return Err(StartError::Nothing("node"));
    }
    if protocol.sample_count() == 0 {
        return Err(StartError::Nothing("sample"));
    }
    if options.connections == 0 {
        return Err(StartError::Nothing("connection"));
    }
    if !options.keep_alive && protocol.version() == HttpVersion::Http2 {
        return Err(StartError::KeepAlive);
    }
    if options.streams == 0 {
        return Err(StartError::Nothing("stream on a connection"));
    }
    if options.max_in_flight.is_some_and(|most| most.get() < nodes.len()) {
        return Err(StartError::Limit { nodes: nodes.len() });
    }
    let is_sound = |(name, value): &&(String, String)| {
        let is_token = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
        !name.is_empty()
            && name.bytes().all(is_token)
            && value.bytes().all(|b| b.is_ascii_graphic() || b == b' ')
    };
    match options.fields.iter().find(|field| !is_sound(field)) {
        Some((name, _)) => Err(StartError::Field { name: name.clone() }),
        None => Ok(()),
    }
}
