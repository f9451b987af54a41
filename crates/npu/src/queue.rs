//! Requests that wait, and the batches that they become.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::pass::Pass;
use crate::profile::Picos;

/// A network that is served.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedNetwork {
    /// Of batches of 1, 2, and so on; at least one.
    pub passes: Vec<Arc<Pass>>,
    /// A request should be computed so long after it came; the end of time where nobody asks.
    pub limit: Picos,
}

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedRequest {
    pub(crate) arrived: Picos,
    pub(crate) ticket: u64,
}

/// Requests of one network that wait, the oldest first.
#[derive(Clone, Debug)]
pub struct RequestQueue {
    network: ServedNetwork,
    window: Picos,
    pub(crate) requests: VecDeque<QueuedRequest>,
}

/// Requests of one queue that begin as a pass together: those that follow one another in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Whose queue.
    pub stream: usize,
    /// So many that came before them go on waiting.
    pub after: usize,
    /// How many; at least 1, at most as many as wait and as are a batch.
    pub requests: usize,
}

impl RequestQueue {
    /// Of a network, whose requests wait so long for others at most.
    pub(crate) fn new(network: ServedNetwork, window: Picos) -> Self {
        Self { network, window, requests: VecDeque::new() }
    }

    /// Requests that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// As many as are computed together at most.
    #[must_use]
    pub fn largest(&self) -> usize {
        self.network.passes.len()
    }

    /// As many as wait after so many, to the largest batch.
    #[must_use]
    pub fn batch(&self, after: usize) -> usize {
        (self.len() - after).min(self.network.passes.len())
    }

    /// The pass of a batch of `requests`, of 1 to the largest.
    #[must_use]
    pub fn pass(&self, requests: usize) -> &Arc<Pass> {
        &self.network.passes[requests - 1]
    }

    /// When the one came before which `after` others wait.
    #[must_use]
    pub fn arrived(&self, after: usize) -> Option<Picos> {
        self.requests.get(after).map(|request| request.arrived)
    }

    /// When that one should be computed.
    #[must_use]
    pub fn due(&self, after: usize) -> Option<Picos> {
        Some(self.arrived(after)?.saturating_add(self.network.limit))
    }

    /// How many should be computed before `time`: the oldest.
    #[must_use]
    pub fn due_before(&self, time: Picos) -> usize {
        let limit = self.network.limit;
        self.requests.partition_point(|request| request.arrived.saturating_add(limit) < time)
    }

    /// When it becomes a batch: when the oldest has waited for the window, or at once if there are enough.
    #[must_use]
    pub fn ready_at(&self) -> Option<Picos> {
        let full = self.requests.get(self.network.passes.len() - 1).map(|request| request.arrived);
        full.or_else(|| Some(self.arrived(0)?.saturating_add(self.window)))
    }
}
