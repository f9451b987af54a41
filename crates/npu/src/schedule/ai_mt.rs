//! After AI-MT, as the thesis' prose tells it: our reading, not the system of its authors.
//!
//! AI-MT (Baek et al., ISCA 2020) schedules blocks of parts of layers, merges and evicts them. Here blocks are those of
//! the profile, and three rules remain: with little room in the buffer, the block that is computed soonest, which gives
//! its room back; with little work laid up for the array, a block that brings more work than its fetch takes; else one
//! that brings less. Candidates of a rule are taken in turn, where the thesis draws lots.

use super::{Scheduler, SchedulerView};

/// After AI-MT.
#[derive(Clone, Debug)]
pub struct AiMt {
    /// Of the buffer, below which room is little.
    room: f64,
    /// Of the time that filling the buffer takes, below which work is little.
    work: f64,
    last: usize,
    reason: &'static str,
}

impl Default for AiMt {
    /// Thresholds as a sweep over the thesis' pairs has them best.
    fn default() -> Self {
        Self::new(0.1, 0.2)
    }
}

impl AiMt {
    /// With other thresholds, each a share in [0, 1]: of the buffer, and of the time that filling it takes.
    #[must_use]
    pub fn new(room: f64, work: f64) -> Self {
        Self { room, work, last: 0, reason: "" }
    }

    /// Of the candidates, the one whose stream comes next.
    fn in_turn(
        &mut self,
        view: &SchedulerView<'_>,
        is_candidate: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let after = |stream: usize| (stream <= self.last, stream);
        let candidates = (0..view.jobs.len()).filter(|&at| is_candidate(at));
        let next =
            candidates.min_by_key(|&at| (after(view.jobs[at].stream), view.jobs[at].arrived))?;
        self.last = view.jobs[next].stream;
        Some(next)
    }
}

impl Scheduler for AiMt {
    fn pick(&mut self, view: &SchedulerView<'_>) -> usize {
        let (machine, limits) = (view.machine, view.machine.limits());
        if (machine.room() as f64) < self.room * limits.capacity as f64 {
            self.reason = "little room: computed soonest";
            let soonest = (0..view.jobs.len()).min_by_key(|&at| view.jobs[at].block.compute);
            return soonest.unwrap_or(0);
        }
        let laid_up = machine.compute_free().saturating_sub(machine.memory_free().max(view.now));
        let is_little = (laid_up as f64) < self.work * limits.capacity as f64 * limits.ps_per_byte;
        let brings_work = |at: usize| view.jobs[at].block.compute >= view.jobs[at].block.fetch;
        self.reason = if is_little {
            "little work laid up: brings some"
        } else {
            "enough work laid up: brings less"
        };
        let wanted = self.in_turn(view, |at| brings_work(at) == is_little);
        wanted
            .or_else(|| {
                self.reason = "its turn, none is of the kind that is wanted";
                self.in_turn(view, |_| true)
            })
            .unwrap_or(0)
    }

    fn reason(&self) -> &'static str {
        self.reason
    }
}
