//! Errors that make a client impossible, regardless of its servers.

use super::Options;
use crate::endpoint::Endpoint;
use crate::exchange::HttpVersion;
use crate::protocol::Protocol;
use crate::tls::TrustError;

/// Reason why a client cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// There are no nodes, no samples, or no connections.
    #[error("expected at least one {0}, found none")]
    Nothing(&'static str),
    /// The name of a field contains characters that would break the head.
    #[error("expected the name of a field in lower case (a-z, 0-9, `-`, `_`, `.`), found {name:?}")]
    Field {
        /// Its name.
        name: String,
    },
    /// The value of a field contains characters that would break the head. It is not shown.
    #[error("expected printable ASCII characters in the value of the field {name:?}, found others")]
    FieldValue {
        /// Its name.
        name: String,
    },
    /// HTTP/2 connections cannot be used for a single request each.
    #[error("HTTP/2 connections are persistent; keep-alive=false needs HTTP/1.1")]
    KeepAlive,
    /// The limit of concurrent requests is below the number of nodes.
    #[error("expected a limit of at least one request under way for each of {nodes} servers")]
    Limit {
        /// Nodes.
        nodes: usize,
    },
    /// The limit on descriptors of the process permits too few connections.
    #[error(
        "{connections} connections need {needed} descriptors, and the process may have {limit}; raise the \
         limit (ulimit -n), or lower --max-concurrency or connections=N"
    )]
    Descriptors {
        /// Connections.
        connections: usize,
        /// Descriptors for these connections and the rest of the process.
        needed: u64,
        /// Limit of the process.
        limit: u64,
    },
    /// The certificate authorities cannot be used.
    #[error("{0}")]
    Trust(TrustError),
    /// The operating system refused a thread or a poll.
    #[error("cannot start threads of the client: {0}")]
    System(std::io::Error),
}

/// Rejects settings with which no client can be started.
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
    let is_token = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
    for (name, value) in &options.fields {
        let name = name.clone();
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(StartError::Field { name });
        }
        if !value.bytes().all(|b| b.is_ascii_graphic() || b == b' ') {
            return Err(StartError::FieldValue { name });
        }
    }
    Ok(())
}

/// Raises the limit on descriptors of the process for the connections of a client.
///
/// # Errors
/// The system permits too few.
pub(super) fn raise_descriptor_limit(
    version: HttpVersion,
    nodes: usize,
    options: &Options,
) -> Result<(), StartError> {
    if !options.connects {
        return Ok(());
    }
    let (least, most) = options.connections_needed(version, nodes);
    permit_connections(least, most, options.thread_count())
}

/// Raises the limit on descriptors for `most` connections as far as the system permits. Fails if that is too
/// little for `least`: requests within the limit of concurrency would wait in the client, and connections that
/// cannot be opened are tried again and again, until no file can be opened.
#[cfg(unix)]
fn permit_connections(least: usize, most: usize, threads: usize) -> Result<(), StartError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    /// Descriptors for the rest of the process.
    const OTHERS: usize = 32;
    // A thread that reads has a poll and a waker.
    let others = OTHERS.saturating_add(threads.saturating_mul(2));
    let needed = |connections: usize| connections.saturating_add(others) as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(current) = current.filter(|limit| *limit < needed(most)) else { return Ok(()) };
    let raised = maximum.map_or(needed(most), |maximum| maximum.min(needed(most)));
    let is_raised = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }).is_ok();
    let limit = if is_raised { raised } else { current };
    if limit >= needed(least) {
        return Ok(());
    }
    Err(StartError::Descriptors { connections: least, needed: needed(least), limit })
}

#[cfg(not(unix))]
fn permit_connections(_least: usize, _most: usize, _threads: usize) -> Result<(), StartError> {
    Ok(())
}
