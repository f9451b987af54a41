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
//!
//! They begin as late as can be: of each kind one pass is under way, and another only if it is due before that one. Two
//! of a kind would only make each other late; and whoever comes meanwhile joins the batch. A batch is as large as it can
//! be, since it fetches its weights once, but for a network that waits for the array and has the NPU for itself: to it a
//! batch brings nothing, and its first request would wait for the last. Requests that can no longer be in time let those
//! pass that can.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::layerweaver_plus::{earliest, remaining_alone};
use super::{Job, Scheduler, SchedulerView};
use crate::pass::Pass;
use crate::profile::Picos;
use crate::queue::{Batch, RequestQueue};

/// Ours.
#[derive(Clone, Debug)]
pub struct BalancedScheduler {
    /// Of its time alone, what each stream has had.
    service: Vec<f64>,
    /// When it placed a block.
    last_placed: Vec<Picos>,
    /// For how long a stream may place nothing.
    patience: Picos,
    reason: &'static str,
}

impl BalancedScheduler {
    /// For streams with these passes.
    #[must_use]
    pub fn new(passes: &[Arc<Pass>]) -> Self {
        Self {
            service: vec![0.0; passes.len()],
            last_placed: vec![0; passes.len()],
            patience: passes.iter().map(|pass| pass.alone).sum(),
            reason: "",
        }
    }

    /// Looks at each job once: this is asked for every block.
    fn next(&self, view: &SchedulerView<'_>) -> NextJobs {
        let mut urgent = None;
        let mut kinds = [None; 2];
        for (at, job) in view.jobs.iter().enumerate() {
            let is_asked = job.due < Picos::MAX;
            let ends = if is_asked { earliest(view, job) } else { 0 };
            let is_late = ends > job.due;
            // As long again for what is placed between its blocks; what remains is no more than the whole, which needs no
            // division.
            let waits = |time: Picos| ends.saturating_add(time) > job.due;
            if is_asked && !is_late && waits(job.pass.alone) && waits(remaining_alone(job)) {
                let this = (job.due, at);
                urgent = Some(urgent.map_or(this, |first: (Picos, usize)| first.min(this)));
            }
            let rank = (is_late, job.due, self.service[job.stream]);
            let kind = &mut kinds[usize::from(job.pass.is_compute_bound())];
            if kind.is_none_or(|(first, _)| rank < first) {
                *kind = Some((rank, at));
            }
        }
        let [memory, compute] = kinds.map(|kind| Some(kind?.1));
        NextJobs { urgent: urgent.map(|(_, at)| at), memory, compute }
    }
}

/// Positions of jobs that come next.
struct NextJobs {
    /// Of the requests that can still be in time, one that must be placed now to be so: the one that is due first (the one
    /// of least laxity would be one that has not begun, and two would be late in the place of one).
    urgent: Option<usize>,
    /// Of those that wait for the memory, who is next.
    memory: Option<usize>,
    /// Of those that wait for the array.
    compute: Option<usize>,
}

impl BalancedScheduler {
    /// A job of a stream that has placed nothing for too long, of several the one that has waited longest.
    fn starving(&self, view: &SchedulerView<'_>) -> Option<usize> {
        let since = |at: usize| self.last_placed[view.jobs[at].stream].max(view.jobs[at].arrived);
        let is_asked = |&at: &usize| view.jobs[at].due == Picos::MAX;
        let longest = (0..view.jobs.len()).filter(is_asked).min_by_key(|&at| since(at))?;
        (view.machine.memory_free() > since(longest).saturating_add(self.patience))
            .then_some(longest)
    }

    /// Between the best of each kind.
    fn between(view: &SchedulerView<'_>, memory: usize, compute: usize) -> (usize, &'static str) {
        let memory_job = &view.jobs[memory];
        let compute_job = &view.jobs[compute];
        let machine = view.machine;
        let placement = machine.peek(&memory_job.block, memory_job.stream, view.now);
        let hidden = placement.fetch_end <= machine.compute_free();
        let is_full = machine.room() < compute_job.block.bytes;
        if !hidden {
            (compute, "the PEs have too little work until the other is fetched")
        } else if is_full {
            (memory, "the buffer is full of work for the PEs")
        } else if placement.fetch_end + compute_job.lead() <= placement.compute_end {
            (memory, "the PEs have work until it is fetched, and enough after it")
        } else {
            (compute, "the PEs have too little work after the other")
        }
    }
}

/// It can no longer be in time.
fn is_late(view: &SchedulerView<'_>, job: &Job) -> bool {
    job.due < Picos::MAX && earliest(view, job) > job.due
}

/// What may begin: the requests of a queue that can still be in time, or all if none can.
struct Candidate {
    is_late: bool,
    due: Picos,
    stream: usize,
    after: usize,
}

impl BalancedScheduler {
    fn candidate(view: &SchedulerView<'_>, stream: usize) -> Option<Candidate> {
        let queue = &view.queues[stream];
        if queue.ready_at()? > view.now {
            return None;
        }
        let (pass, first) = (queue.pass(1), queue.due(0)?);
        // What is under way, in time and due before all of them would only be lowering late: they need not be looked at.
        let is_before = |job: &Job| {
            job.due <= first
                && job.pass.is_compute_bound() == pass.is_compute_bound()
                && !is_late(view, job)
        };
        if view.jobs.iter().any(is_before) {
            return None;
        }
        let fetched = view.machine.memory_free().max(view.now) + pass.fetch;
        let computed = view.machine.compute_free().max(view.now) + pass.compute;
        let hopeless = queue.due_before(fetched.max(computed));
        let is_late = hopeless == queue.len();
        let after = if is_late { 0 } else { hopeless };
        Some(Candidate { is_late, due: queue.due(after)?, stream, after })
    }

    /// Of what is ready, by when it is due, the first of whose kind nothing is under way that is due before.
    fn next_batch(view: &SchedulerView<'_>) -> Option<Batch> {
        let is_compute_bound = |stream: usize| view.queues[stream].pass(1).is_compute_bound();
        let may_begin = |ready: &Candidate| {
            let kind = is_compute_bound(ready.stream);
            let is_same_kind = |job: &&Job| job.pass.is_compute_bound() == kind;
            let is_before = |job: &Job| (ready.is_late, ready.due) < (is_late(view, job), job.due);
            view.jobs.iter().filter(is_same_kind).all(is_before)
        };
        let ready = (0..view.queues.len()).filter_map(|stream| Self::candidate(view, stream));
        let Candidate { stream, after, .. } =
            ready.filter(may_begin).min_by_key(|ready| (ready.is_late, ready.due))?;
        let waits = |other: usize| other != stream && !view.queues[other].is_empty();
        let is_shared =
            (0..view.queues.len()).any(waits) || view.jobs.iter().any(|job| job.stream != stream);
        let requests = if is_compute_bound(stream) && !is_shared {
            1
        } else {
            view.queues[stream].batch(after)
        };
        Some(Batch { stream, after, requests })
    }
}

impl Scheduler for BalancedScheduler {
    fn begin(&mut self, view: &SchedulerView<'_>) -> Option<Batch> {
        let is_asked = |queue: &RequestQueue| queue.due(0).is_some_and(|due| due < Picos::MAX);
        if view.queues.iter().any(is_asked) { Self::next_batch(view) } else { view.oldest() }
    }

    fn pick(&mut self, view: &SchedulerView<'_>) -> usize {
        let next = self.next(view);
        let urgent = next.urgent.map(|at| (at, "would be late if it waited"));
        let starving = || Some((self.starving(view)?, "has placed nothing for too long"));
        let (at, reason) =
            urgent.or_else(starving).unwrap_or_else(|| match (next.memory, next.compute) {
                (Some(memory), Some(compute)) => Self::between(view, memory, compute),
                (Some(only), None) | (None, Some(only)) => (only, "of its kind, it had least"),
                (None, None) => (0, ""),
            });
        self.reason = reason;
        let job = &view.jobs[at];
        // Where somebody asks, the time that is due decides and nobody looks at this.
        if job.due == Picos::MAX {
            let pass = &job.pass;
            let whole = (pass.compute + pass.fetch).max(1) as f64;
            let part = (job.block.compute + job.block.fetch) as f64 / whole;
            self.service[job.stream] += part * pass.alone as f64;
        }
        self.last_placed[job.stream] = view.machine.memory_free();
        at
    }

    fn reason(&self) -> &'static str {
        self.reason
    }
}
