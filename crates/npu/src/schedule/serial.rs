//! Schedulers that finish a pass before they start another: the baselines of chapter IV, and first in, first out.

use std::sync::Arc;

use super::{PassJob, Scheduler, SchedulerView};
use crate::pass::Pass;
use crate::profile::Picos;

/// Rule for the next pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SerialOrder {
    /// The stream with the most computation per fetch, and no other while it has a pass: "compute-only".
    Compute,
    /// The stream with the most fetching per computation: "memory-only".
    Memory,
    /// The stream with the least service so far: "fair".
    Fair,
    /// The pass that arrived first: FIFO.
    First,
    /// The failsafe of Layerweaver: "fair" among streams that always have work, FIFO among requests.
    Failsafe,
}

/// Scheduler that places whole passes.
#[derive(Clone, Debug)]
pub struct SerialScheduler {
    order: SerialOrder,
    /// Service of each stream: the sum of its passes' times alone, ps.
    service: Vec<Picos>,
    reason: &'static str,
}

impl SerialScheduler {
    /// Creates a scheduler for this many streams.
    pub fn new(order: SerialOrder, streams: usize) -> Self {
        Self { order, service: vec![0; streams], reason: "" }
    }
}

/// Returns the scheduler of networks that all wait for the same resource, where interleaving gains nothing; `None` if
/// they wait for both.
///
/// This is our reading of the failsafe of section IV.4.A: such networks run in whole passes, in turn.
pub(super) fn failsafe(passes: &[Arc<Pass>]) -> Option<SerialScheduler> {
    let compute_bound = passes.iter().filter(|pass| pass.is_compute_bound()).count();
    let is_mixed = (1..passes.len()).contains(&compute_bound);
    (!is_mixed).then(|| SerialScheduler::new(SerialOrder::Failsafe, passes.len()))
}

/// Returns the fetch time per compute time of the job's whole pass.
fn slope(job: &PassJob) -> f64 {
    job.pass.fetch as f64 / job.pass.compute.max(1) as f64
}

impl Scheduler for SerialScheduler {
    fn pick(&mut self, view: &SchedulerView<'_>) -> usize {
        let jobs = view.jobs.iter().enumerate();
        if let Some((current, _)) = jobs.clone().find(|(_, job)| job.next > 0) {
            self.reason = "its pass has begun";
            return current;
        }
        // Requests have queues. There, a stream without requests would collect a claim to service without bound.
        let order = match self.order {
            SerialOrder::Failsafe if view.queues.is_empty() => SerialOrder::Fair,
            SerialOrder::Failsafe => SerialOrder::First,
            order => order,
        };
        // Of equals, each takes the pass that began first; `max_by` would take the last.
        let next = match order {
            SerialOrder::Compute => jobs.min_by(|(_, a), (_, b)| slope(a).total_cmp(&slope(b))),
            SerialOrder::Memory => jobs.min_by(|(_, a), (_, b)| slope(b).total_cmp(&slope(a))),
            SerialOrder::Fair => jobs.min_by_key(|(_, job)| self.service[job.stream]),
            SerialOrder::First | SerialOrder::Failsafe => jobs.min_by_key(|(_, job)| job.arrived),
        };
        self.reason = match order {
            SerialOrder::Compute => "most computation",
            SerialOrder::Memory => "most memory traffic",
            SerialOrder::Fair => "received the least time",
            SerialOrder::First | SerialOrder::Failsafe => "came first",
        };
        let (at, job) = next.unwrap_or((0, &view.jobs[0]));
        self.service[job.stream] += job.pass.alone;
        at
    }

    fn reason(&self) -> &'static str {
        self.reason
    }
}
