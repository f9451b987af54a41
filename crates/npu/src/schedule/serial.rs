//! Schedulers that finish a pass before they begin another: the baselines of chapter IV, and first in, first out.

use super::{Job, Scheduler, SchedulerView};
use crate::profile::Picos;

/// Which pass is next when one has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SerialOrder {
    /// Of the stream that asks most of the array for each fetch, and no other while it has one: "compute-only".
    Compute,
    /// Of the stream that asks most of the memory: "memory-only".
    Memory,
    /// Of the stream that had the least time: "fair".
    Fair,
    /// The one that came first: FIFO.
    First,
}

/// Passes one after another.
#[derive(Clone, Debug)]
pub struct SerialScheduler {
    order: SerialOrder,
    /// Time alone that each stream's passes would have taken.
    service: Vec<Picos>,
    reason: &'static str,
}

impl SerialScheduler {
    /// For so many streams.
    #[must_use]
    pub fn new(order: SerialOrder, streams: usize) -> Self {
        Self { order, service: vec![0; streams], reason: "" }
    }
}

/// Of the job's whole pass, what it fetches for each time of computing.
fn slope(job: &Job) -> f64 {
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
