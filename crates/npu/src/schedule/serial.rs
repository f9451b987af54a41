//! Schedulers that finish a pass before they begin another: the baselines of chapter IV, and first in, first out.

use super::{Job, Scheduler, View};
use crate::profile::Picos;

/// Which pass is next when one has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
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
pub struct Serial {
    whole: Whole,
    /// Time alone that each stream's passes would have taken.
    had: Vec<Picos>,
    why: &'static str,
}

impl Serial {
    /// For so many streams.
    #[must_use]
    pub fn new(whole: Whole, streams: usize) -> Self {
        Self { whole, had: vec![0; streams], why: "" }
    }
}

/// Of the job's whole pass, what it fetches for each time of computing.
fn slope(job: &Job) -> f64 {
    job.pass.fetch as f64 / job.pass.compute.max(1) as f64
}

impl Scheduler for Serial {
    fn pick(&mut self, view: &View<'_>) -> usize {
        let jobs = view.jobs.iter().enumerate();
        if let Some((begun, _)) = jobs.clone().find(|(_, job)| job.next > 0) {
            self.why = "its pass has begun";
            return begun;
        }
        let next = match self.whole {
            Whole::Compute => jobs.min_by(|(_, a), (_, b)| slope(a).total_cmp(&slope(b))),
            Whole::Memory => jobs.max_by(|(_, a), (_, b)| slope(a).total_cmp(&slope(b))),
            Whole::Fair => jobs.min_by_key(|(_, job)| self.had[job.stream]),
            Whole::First => jobs.min_by_key(|(_, job)| job.arrived),
        };
        self.why = match self.whole {
            Whole::Compute => "asks most of the PEs",
            Whole::Memory => "asks most of the memory",
            Whole::Fair => "had the least time",
            Whole::First => "came first",
        };
        let (at, job) = next.unwrap_or((0, &view.jobs[0]));
        self.had[job.stream] += job.pass.alone;
        at
    }

    fn why(&self) -> &'static str {
        self.why
    }
}
