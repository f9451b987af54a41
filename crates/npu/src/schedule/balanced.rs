//! Dyno's own scheduler. The work that is queued for the array decides between memory-bound and compute-bound streams.
//! Among streams of one kind, the one with the least service is next.
//!
//! **Balance.** If both resources are always busy, the mix of streams is the optimum of the two-resource linear program
//! for any networks. So the scheduler controls only the queued work. It places a memory-bound block if the array has
//! work until that block is fetched, and enough work after it for the fetches that the compute-bound stream has left in
//! this pass (the block's lead). Otherwise it places a compute-bound block. If that block would have to wait for room,
//! the buffer is full of work, and the first condition suffices.
//!
//! **Fairness.** No stream starves. Streams of one kind share their resource. A stream that has placed nothing for
//! longer than the sum of all streams' pass times alone is next in any case.
//!
//! **Deadlines** take precedence. Of each kind, the job with the earliest deadline is next; jobs that can no longer
//! meet their deadlines come last. A job that would be late if it waited for as long as it takes is next, whatever its
//! kind.
//!
//! **Starting passes.** Passes start as late as possible: one pass of each kind is active, and another starts only if
//! its deadline is earlier. Two active passes of one kind would only delay each other, and requests that arrive
//! meanwhile can join the batch. A batch is as large as possible, because it fetches its weights once. The exception is
//! a compute-bound network that has the NPU to itself: a batch gains nothing, and its first request would wait for the
//! last. Requests that can no longer meet their deadlines let others pass.

use std::sync::Arc;

use super::layerweaver_plus::{earliest, remaining_alone};
use super::{PassJob, Scheduler, SchedulerView};
use crate::pass::Pass;
use crate::profile::Picos;
use crate::queue::{Batch, RequestQueue};

/// Dyno's own scheduler; see the module documentation.
#[derive(Clone, Debug)]
pub struct BalancedScheduler {
    /// Service of each stream, in ps of its time alone.
    service: Vec<f64>,
    /// When each stream last placed a block.
    last_placed: Vec<Picos>,
    /// Longest time for which a stream may place nothing, ps.
    patience: Picos,
    reason: &'static str,
}

impl BalancedScheduler {
    /// Creates a scheduler for streams with these passes.
    pub fn new(passes: &[Arc<Pass>]) -> Self {
        Self {
            service: vec![0.0; passes.len()],
            last_placed: vec![0; passes.len()],
            patience: passes.iter().map(|pass| pass.alone).sum(),
            reason: "",
        }
    }

    /// Returns the best jobs by kind. It visits each job once, because it runs for every block.
    fn next(&self, view: &SchedulerView<'_>) -> NextJobs {
        let mut urgent = None;
        let mut kinds = [None; 2];
        for (at, job) in view.jobs.iter().enumerate() {
            let has_deadline = job.due < Picos::MAX;
            let ends = if has_deadline { earliest(view, job) } else { 0 };
            let is_late = ends > job.due;
            // The job may need as long again, because blocks of others are placed between its own. The whole time alone
            // bounds the remaining time, and comparing it first saves a division.
            let waits = |time: Picos| ends.saturating_add(time) > job.due;
            if has_deadline && !is_late && waits(job.pass.alone) && waits(remaining_alone(job)) {
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

/// Indices of the best jobs.
struct NextJobs {
    /// A job that can still meet its deadline, but only if it is placed now. Of several, it is the one with the
    /// earliest deadline: the one with the least laxity would be a job that has not started, and two jobs would be late
    /// instead of one.
    urgent: Option<usize>,
    /// The best memory-bound job.
    memory: Option<usize>,
    /// The best compute-bound job.
    compute: Option<usize>,
}

impl BalancedScheduler {
    /// Returns the job without a deadline whose stream has placed nothing for longest, if that is longer than the
    /// patience.
    fn starving(&self, view: &SchedulerView<'_>) -> Option<usize> {
        let since = |at: usize| self.last_placed[view.jobs[at].stream].max(view.jobs[at].arrived);
        let has_no_deadline = |&at: &usize| view.jobs[at].due == Picos::MAX;
        let longest = (0..view.jobs.len()).filter(has_no_deadline).min_by_key(|&at| since(at))?;
        (view.machine.memory_free() > since(longest).saturating_add(self.patience))
            .then_some(longest)
    }

    /// Chooses between the best job of each kind, and returns the reason.
    fn between(view: &SchedulerView<'_>, memory: usize, compute: usize) -> (usize, &'static str) {
        let memory_job = &view.jobs[memory];
        let compute_job = &view.jobs[compute];
        let machine = view.machine;
        let placement = machine.peek(&memory_job.block, memory_job.stream, view.now);
        let hidden = placement.fetch_end <= machine.compute_free();
        let is_full = machine.room() < compute_job.block.bytes;
        if !hidden {
            (compute, "the PEs have too little work until the other block is fetched")
        } else if is_full {
            (memory, "the buffer is full of work for the PEs")
        } else if placement.fetch_end + compute_job.lead() <= placement.compute_end {
            (memory, "the PEs have work until it is fetched, and enough afterward")
        } else {
            (compute, "the PEs would have too little work after the other block")
        }
    }
}

/// Returns whether the job can no longer meet its deadline.
fn is_late(view: &SchedulerView<'_>, job: &PassJob) -> bool {
    job.due < Picos::MAX && earliest(view, job) > job.due
}

/// Requests of a queue that may start: those that can still meet their deadlines, or all of them if none can.
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
        // An active job that can meet a deadline before all requests of this queue would only be delayed by them.
        let is_before = |job: &PassJob| {
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

    /// Returns the first ready batch, ordered by deadline with hopeless requests last, whose kind has no active job
    /// with an earlier deadline.
    fn next_batch(view: &SchedulerView<'_>) -> Option<Batch> {
        let is_compute_bound = |stream: usize| view.queues[stream].pass(1).is_compute_bound();
        let may_begin = |ready: &Candidate| {
            let kind = is_compute_bound(ready.stream);
            let is_same_kind = |job: &&PassJob| job.pass.is_compute_bound() == kind;
            let is_before =
                |job: &PassJob| (ready.is_late, ready.due) < (is_late(view, job), job.due);
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
        let has_deadline = |queue: &RequestQueue| queue.due(0).is_some_and(|due| due < Picos::MAX);
        if view.queues.iter().any(has_deadline) { Self::next_batch(view) } else { view.oldest() }
    }

    fn pick(&mut self, view: &SchedulerView<'_>) -> usize {
        let next = self.next(view);
        let urgent = next.urgent.map(|at| (at, "would be late if it waited"));
        let starving = || Some((self.starving(view)?, "no block placed for too long"));
        let (at, reason) =
            urgent.or_else(starving).unwrap_or_else(|| match (next.memory, next.compute) {
                (Some(memory), Some(compute)) => Self::between(view, memory, compute),
                (Some(only), None) | (None, Some(only)) => {
                    (only, "the least served stream of its kind")
                }
                (None, None) => (0, ""),
            });
        self.reason = reason;
        let job = &view.jobs[at];
        // Jobs with deadlines are ranked by them, so their service is not counted.
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
