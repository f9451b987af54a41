//! Ours: the work that is laid up for the array decides between streams that wait for the memory and streams that wait
//! for the array; among those of one kind, the one that has had least of its time alone.
//!
//! With both resources busy all the time the mix is the optimum of the two-resource linear program, whatever the
//! networks: so nothing is steered but the work that is laid up. A block that waits for the memory is placed whenever the
//! array has work until it is there *and* enough after it for what the other stream has yet to fetch in this pass (the
//! block's lead); else a block for the array is placed. Where that one would have to wait for room, the buffer is full of
//! work, and the first condition is enough.
//!
//! No stream starves: among those of one kind each has its share, and one that has placed nothing for as long as a pass of
//! every stream takes alone is next, whatever that costs.
//!
//! Requests with deadlines stand before that: of a kind the one that is due first, those that can no longer be in time
//! after all others; and one that would be late if it had to wait for as long as it takes is next whatever its kind.

use std::sync::Arc;

use super::layerweaver_plus::{earliest, remaining_alone};
use super::{Scheduler, View};
use crate::pass::Pass;
use crate::profile::Picos;

/// Ours.
#[derive(Clone, Debug)]
pub struct Balanced {
    /// Of its time alone, what each stream has had.
    had: Vec<f64>,
    /// When it placed a block.
    placed: Vec<Picos>,
    /// For how long a stream may place nothing.
    patience: Picos,
}

impl Balanced {
    /// For streams with these passes.
    #[must_use]
    pub fn new(passes: &[Arc<Pass>]) -> Self {
        Self {
            had: vec![0.0; passes.len()],
            placed: vec![0; passes.len()],
            patience: passes.iter().map(|pass| pass.alone).sum(),
        }
    }

    /// Of a kind, the job that is next.
    fn least(&self, view: &View<'_>, is_compute_bound: bool) -> Option<usize> {
        let of_kind = |&at: &usize| view.jobs[at].pass.is_compute_bound() == is_compute_bound;
        let order = |at: usize| {
            let job = &view.jobs[at];
            let is_late = job.due < Picos::MAX && earliest(view, job) > job.due;
            (is_late, job.due, self.had[job.stream])
        };
        let before = |a: &usize, b: &usize| {
            let (a, b) = (order(*a), order(*b));
            (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2))
        };
        (0..view.jobs.len()).filter(of_kind).min_by(before)
    }
}

impl Balanced {
    /// A job of a stream that has placed nothing for too long, of several the one that has waited longest.
    fn starving(&self, view: &View<'_>) -> Option<usize> {
        let since = |at: usize| self.placed[view.jobs[at].stream].max(view.jobs[at].arrived);
        let is_asked = |&at: &usize| view.jobs[at].due == Picos::MAX;
        let longest = (0..view.jobs.len()).filter(is_asked).min_by_key(|&at| since(at))?;
        (view.machine.memory_free() > since(longest).saturating_add(self.patience))
            .then_some(longest)
    }

    /// Of the requests that can still be in time, one that must be placed now to be so: the one
    /// that is due first (the one of least laxity would be one that has not begun, and two would be late in the place of one).
    fn urgent(view: &View<'_>) -> Option<usize> {
        let laxity = |at: usize| {
            let job = &view.jobs[at];
            let ends = earliest(view, job);
            // As long again for what is placed between its blocks.
            let is_urgent = ends <= job.due && ends.saturating_add(remaining_alone(job)) > job.due;
            is_urgent.then_some((job.due, at))
        };
        (0..view.jobs.len())
            .filter(|&at| view.jobs[at].due < Picos::MAX)
            .filter_map(laxity)
            .min()
            .map(|(_, at)| at)
    }

    /// Between the best of each kind.
    fn between(view: &View<'_>, memory: usize, compute: usize) -> usize {
        let (of_memory, of_compute) = (&view.jobs[memory], &view.jobs[compute]);
        let machine = view.machine;
        let placed = machine.peek(&of_memory.block, of_memory.stream, view.now);
        let hidden = placed.fetch_end <= machine.compute_free();
        let is_full = machine.room() < of_compute.block.bytes;
        if hidden && (is_full || placed.fetch_end + of_compute.lead() <= placed.compute_end) {
            memory
        } else {
            compute
        }
    }
}

impl Scheduler for Balanced {
    fn pick(&mut self, view: &View<'_>) -> usize {
        let at = Self::urgent(view).or_else(|| self.starving(view)).unwrap_or_else(|| {
            match (self.least(view, false), self.least(view, true)) {
                (Some(memory), Some(compute)) => Self::between(view, memory, compute),
                (Some(only), None) | (None, Some(only)) => only,
                (None, None) => 0,
            }
        });
        let job = &view.jobs[at];
        let pass = &job.pass;
        let whole = (pass.compute + pass.fetch).max(1) as f64;
        let part = (job.block.compute + job.block.fetch) as f64 / whole;
        self.had[job.stream] += part * pass.alone as f64;
        self.placed[job.stream] = view.machine.memory_free();
        at
    }
}
