//! How many requests a client can have in flight.

use std::num::NonZero;

use dyno_loadgen::sut::InFlight;

use super::{Client, Options, Transport};
use crate::exchange::HttpVersion;

/// Maximum number of HTTP/1.1 connections to all nodes that a rate opens on demand; beyond it
/// samples wait.
const MOST_ON_DEMAND: usize = 1024;

impl Options {
    /// Returns the number of request places to open before a run of these tenants at all nodes
    /// together, and their maximum; before the first run, the places that show that servers answer.
    pub(super) fn places(&self, nodes: usize, in_flight: Option<&[InFlight]>) -> (usize, usize) {
        let given = self.connections.saturating_mul(nodes);
        let limit = self.max_in_flight.map_or(usize::MAX, NonZero::get);
        let each = |tenant: &InFlight| match tenant {
            InFlight::AtMost(samples) => {
                let samples = usize::try_from(*samples).unwrap_or(usize::MAX);
                let most = if self.grows { samples.max(nodes) } else { given };
                (samples.clamp(nodes.min(most), most), most)
            }
            InFlight::AtOnce(samples) => {
                let samples = usize::try_from(*samples).unwrap_or(usize::MAX);
                (samples.clamp(nodes.min(given), given), given)
            }
            InFlight::Unknown if self.grows => (nodes, MOST_ON_DEMAND.max(nodes)),
            InFlight::Unknown => (given, given),
        };
        let add = |(a, b): (usize, usize), (c, d): (usize, usize)| {
            (a.saturating_add(c), b.saturating_add(d))
        };
        let (first, most) = match in_flight {
            None => (nodes, nodes),
            Some(tenants) => tenants.iter().map(each).reduce(add).unwrap_or((nodes, nodes)),
        };
        let most = if self.grows { most } else { most.min(given) };
        (first.min(most).min(limit), most.min(limit))
    }

    /// Returns the number of connections to all nodes that have to be possible before the load is known, and the
    /// number that a run may open. A given number has to be possible as a whole.
    pub(super) fn connections_needed(&self, version: HttpVersion, nodes: usize) -> (usize, usize) {
        let given = self.connections.saturating_mul(nodes);
        let limit = self.max_in_flight.map(NonZero::get);
        match (version, self.grows, limit) {
            (HttpVersion::Http1, true, Some(limit)) => (limit.min(MOST_ON_DEMAND), limit),
            (HttpVersion::Http1, true, None) => (nodes, MOST_ON_DEMAND.max(nodes)),
            (HttpVersion::Http1, false, Some(limit)) => (given.min(limit), given.min(limit)),
            (HttpVersion::Http2, true, _) => (nodes, given),
            (_, false, _) => (given, given),
        }
    }

    /// Returns the number of threads that read answers.
    pub(super) fn thread_count(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or((cores / 2).max(1), NonZero::get)
    }
}

impl Client {
    /// Returns the maximum number of concurrent requests; `None` if connections are opened on
    /// demand.
    pub fn most_in_flight(&self) -> Option<usize> {
        let options = &self.shared.options;
        let connections = options.connections.saturating_mul(self.shared.nodes.len());
        let given = match self.transport {
            Transport::Http1(_) if options.grows => None,
            Transport::Http1(_) => Some(connections),
            Transport::Http2(_) => Some(connections.saturating_mul(options.streams)),
        };
        let limit = options.max_in_flight.map(NonZero::get);
        given.into_iter().chain(limit).min()
    }

    /// Returns [`Options::streams`] over HTTP/2; `None` over HTTP/1.1.
    pub fn streams(&self) -> Option<usize> {
        match self.transport {
            Transport::Http1(_) => None,
            Transport::Http2(_) => Some(self.shared.options.streams),
        }
    }

    /// Returns [`Options::max_in_flight`], unless connections allow fewer concurrent requests.
    pub fn limit_in_flight(&self) -> Option<usize> {
        let limit = self.shared.options.max_in_flight.map(NonZero::get);
        limit.filter(|limit| self.most_in_flight() == Some(*limit))
    }
}
