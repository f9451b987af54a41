//! Schedulers that finish a pass before they start another: the baselines of chapter IV, and first in, first out.

use super::{PassJob, Scheduler, SchedulerView};
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
    #[must_use]
    pub fn new(order: SerialOrder, streams: usize) -> Self {
        Self { order, service: vec![0; streams], reason: "" }
    }
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
        let next = match self.order {
            SerialOrder::Compute => jobs.min_by(|(_, a), (_, b)| slope(a).total_cmp(&slope(b))),
            SerialOrder::Memory => jobs.max_by(|(_, a), (_, b)| slope(a).total_cmp(&slope(b))),
            SerialOrder::Fair => jobs.min_by_key(|(_, job)| self.service[job.stream]),
            SerialOrder::First => jobs.min_by_key(|(_, job)| job.arrived),
        };
        self.reason = match self.order {
            SerialOrder::Compute => "asks most of the PEs",
            SerialOrder::Memory => "asks most of the memory",
            SerialOrder::Fair => "had the least time",
            SerialOrder::First => "came first",
        };
        let (at, job) = next.unwrap_or((0, &view.jobs[0]));
        self.service[job.stream] += job.pass.alone;
        at
    }

    fn reason(&self) -> &'static str {
        self.reason
    }
}
