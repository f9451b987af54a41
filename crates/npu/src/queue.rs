//! Queues of waiting requests, and the batches that they form.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::pass::Pass;
use crate::profile::Picos;

/// A network that serves requests.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedNetwork {
    /// Passes of batches of 1, 2, and so on; at least one.
    pub passes: Vec<Arc<Pass>>,
    /// Time from a request's arrival to its deadline, ps; `Picos::MAX` means no deadline.
    pub limit: Picos,
}

/// A waiting request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedRequest {
    pub(crate) arrived: Picos,
    pub(crate) ticket: u64,
}

/// Waiting requests of one network, oldest first.
#[derive(Clone, Debug)]
pub struct RequestQueue {
    network: ServedNetwork,
    window: Picos,
    pub(crate) requests: VecDeque<QueuedRequest>,
}

/// Consecutive requests of one queue that start together as a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Stream of the queue.
    pub stream: usize,
    /// Number of older requests that keep waiting.
    pub after: usize,
    /// Number of requests; 1 up to the largest batch.
    pub requests: usize,
}

impl RequestQueue {
    /// Creates an empty queue. A request waits at most `window` for others.
    pub(crate) fn new(network: ServedNetwork, window: Picos) -> Self {
        Self { network, window, requests: VecDeque::new() }
    }

    /// Returns the number of waiting requests.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns the largest batch.
    pub fn largest(&self) -> usize {
        self.network.passes.len()
    }

    /// Returns the size of a batch that skips the `after` oldest requests.
    pub fn batch(&self, after: usize) -> usize {
        (self.len() - after).min(self.network.passes.len())
    }

    /// Returns the pass of a batch of `requests` requests, from 1 to the largest batch.
    pub fn pass(&self, requests: usize) -> &Arc<Pass> {
        &self.network.passes[requests - 1]
    }

    /// Returns the arrival of the request behind the `after` oldest ones.
    pub fn arrived(&self, after: usize) -> Option<Picos> {
        self.requests.get(after).map(|request| request.arrived)
    }

    /// Returns the deadline of the request behind the `after` oldest ones.
    pub fn due(&self, after: usize) -> Option<Picos> {
        Some(self.arrived(after)?.saturating_add(self.network.limit))
    }

    /// Returns how many requests have a deadline before `time`; they are the oldest ones.
    pub(crate) fn due_before(&self, time: Picos) -> usize {
        let limit = self.network.limit;
        self.requests.partition_point(|request| request.arrived.saturating_add(limit) < time)
    }

    /// Returns when a batch is ready: at once if it is full, otherwise when the oldest request has waited for the
    /// window.
    pub fn ready_at(&self) -> Option<Picos> {
        let full = self.requests.get(self.network.passes.len() - 1).map(|request| request.arrived);
        full.or_else(|| Some(self.arrived(0)?.saturating_add(self.window)))
    }
}
