//! Round robin, block by block.

use super::{Scheduler, SchedulerView};

/// Scheduler that places one block of each stream in turn.
#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    last: usize,
}

impl Scheduler for RoundRobin {
    fn pick(&mut self, view: &SchedulerView<'_>) -> usize {
        let after = |stream: usize| (stream <= self.last, stream);
        let next =
            view.jobs.iter().enumerate().min_by_key(|(_, job)| (after(job.stream), job.arrived));
        let (at, job) = next.unwrap_or((0, &view.jobs[0]));
        self.last = job.stream;
        at
    }

    fn reason(&self) -> &'static str {
        "its turn"
    }
}
