//! A scheduler after AI-MT, as the thesis describes it in prose. This is our reading, not the authors' system.
//!
//! AI-MT (Baek et al., ISCA 2020) schedules blocks of parts of layers, and merges and evicts them. Here blocks are
//! those of the profile, and three rules remain:
//!
//! 1. With little room in the buffer, pick the block that computes shortest, because it releases its room soonest.
//! 2. With little work queued for the array, pick a block that computes at least as long as it fetches.
//! 3. Otherwise pick a block that computes shorter than it fetches.
//!
//! Candidates of rules 2 and 3 take turns; the thesis picks one at random.

use super::{Scheduler, SchedulerView};

/// Scheduler after AI-MT.
#[derive(Clone, Debug)]
pub struct AiMt {
    /// Fraction of the buffer below which room is little.
    room: f64,
    /// Fraction of the buffer's fill time below which queued work is little.
    work: f64,
    last: usize,
    reason: &'static str,
}

impl Default for AiMt {
    /// Returns the thresholds that were best in a sweep over the thesis' pairs.
    fn default() -> Self {
        Self::new(0.1, 0.2)
    }
}

impl AiMt {
    /// Creates a scheduler with other thresholds in [0, 1]: fractions of the buffer, and of the time to fill it.
    #[must_use]
    pub fn new(room: f64, work: f64) -> Self {
        Self { room, work, last: 0, reason: "" }
    }

    /// Returns the candidate whose stream is next in turn.
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
