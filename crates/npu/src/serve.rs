//! The scheduler online, as the thesis deploys it: a queue for each network, passes of batches, and a decision whenever
//! the memory is free.
//!
//! Requests wait in the queue of their stream until there are enough for a batch or the oldest has waited for the window.
//! Whenever the memory is free, passes begin for batches that are ready, if fewer than the limit are under way and the
//! scheduler does not hold them back, and it picks the next block of one of them: no batch is closed before it can be
//! fetched. What has been placed stays placed: a request that comes later is fetched after it.
//!
//! Time comes from outside ([`NpuServer::advance`]); nothing here sleeps or reads a clock.

#[cfg(test)]
pub(crate) mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::machine::{Machine, MachineLimits, Placement};
use crate::pass::Pass;
use crate::profile::Picos;
pub use crate::queue::ServedNetwork;
use crate::queue::{QueuedRequest, RequestQueue};
use crate::schedule::{Job, Scheduler, SchedulerView};
use crate::version::VersionSet;

/// How requests become passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchingPolicy {
    /// A request waits so long for others at most.
    pub window: Picos,
    /// Passes that have begun and are not placed to their ends, at most; at least 1.
    pub active: usize,
    /// The scheduler is woken so long before the array runs out of work: what comes meanwhile need not wait behind more
    /// than that. The end of time: whenever the memory is free.
    pub wake: Picos,
}

/// A batch that will be computed then.
#[derive(Debug)]
struct Completion {
    at: Picos,
    stream: usize,
    tickets: Vec<u64>,
}

/// Told of each block as it is placed: the stream, its position in the pass, and its times.
pub type BlockObserver = dyn FnMut(usize, usize, &Placement);

/// An NPU that serves.
pub struct NpuServer {
    batching: BatchingPolicy,
    machine: Machine,
    scheduler: Box<dyn Scheduler>,
    queues: Vec<RequestQueue>,
    jobs: Vec<Job>,
    /// Of each job, whom it answers.
    tickets: Vec<Vec<u64>>,
    /// In order, since computations keep the order of decisions.
    completions: VecDeque<Completion>,
    observer: Option<Box<BlockObserver>>,
    /// Of each stream.
    unanswered: Vec<u64>,
    /// Of streams that have others than the one that queues know.
    versions: Vec<Option<VersionSet>>,
    // Lists of tickets that are used again.
    spare: Vec<Vec<u64>>,
}

impl std::fmt::Debug for NpuServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NpuServer")
            .field("machine", &self.machine)
            .field("jobs", &self.jobs)
            .finish_non_exhaustive()
    }
}

impl NpuServer {
    /// An idle NPU. `served` are the streams, by their numbers.
    #[must_use]
    pub fn new(
        limits: MachineLimits,
        batching: BatchingPolicy,
        served: Vec<ServedNetwork>,
        scheduler: Box<dyn Scheduler>,
    ) -> Self {
        Self {
            batching,
            unanswered: vec![0; served.len()],
            versions: vec![None; served.len()],
            queues: served
                .into_iter()
                .map(|served| RequestQueue::new(served, batching.window))
                .collect(),
            machine: Machine::new(limits),
            scheduler,
            jobs: Vec::new(),
            tickets: Vec::new(),
            completions: VecDeque::new(),
            observer: None,
            spare: Vec::new(),
        }
    }

    /// Shows each block to `observer` as it is placed.
    pub fn observe(&mut self, observer: Box<BlockObserver>) {
        self.observer = Some(observer);
    }

    /// What has been placed.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Requests that wait and are in no pass yet, of each stream: what a load balancer looks at.
    #[must_use]
    pub fn queues(&self) -> &[RequestQueue] {
        &self.queues
    }

    /// Passes that have begun and are not placed to their ends.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Requests that came and are not computed yet.
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        self.unanswered.iter().sum()
    }

    /// The same, of one stream.
    #[must_use]
    pub fn unanswered_of(&self, stream: usize) -> u64 {
        self.unanswered[stream]
    }

    /// Batches of `stream` are computed in one of these versions from now on; a scheduler sees the passes that it was lowering
    /// for until they begin.
    pub fn offer(&mut self, stream: usize, versions: VersionSet) {
        self.versions[stream] = Some(versions);
    }

    /// The versions of `stream`, if it has any.
    #[must_use]
    pub fn versions(&self, stream: usize) -> Option<&VersionSet> {
        self.versions[stream].as_ref()
    }

    /// Somebody else has the memory until then.
    pub fn hold_memory(&mut self, until: Picos) {
        self.machine.hold_memory(until);
    }

    /// Somebody else has the array until then.
    pub fn hold_array(&mut self, until: Picos) {
        self.machine.hold_array(until);
    }

    /// For how long the array and the memory would be busy with what is here and `more` requests of each stream, if those
    /// that wait were computed in the largest batches.
    #[must_use]
    pub fn work(&self, now: Picos, more: impl Fn(usize) -> usize) -> [Picos; 2] {
        let (array, memory) = (self.machine.compute_free(), self.machine.memory_free());
        let mut sum = [array.saturating_sub(now), memory.saturating_sub(now)];
        let mut add = |times: u64, compute: Picos, fetch: Picos| {
            sum[0] = sum[0].saturating_add(times.saturating_mul(compute));
            sum[1] = sum[1].saturating_add(times.saturating_mul(fetch));
        };
        for job in &self.jobs {
            add(1, job.compute_left, job.fetch_left);
        }
        for (stream, queue) in self.queues.iter().enumerate() {
            let waiting = queue.len() + more(stream);
            let (whole, rest) = (waiting / queue.largest(), waiting % queue.largest());
            let largest = queue.pass(queue.largest());
            add(whole as u64, largest.compute, largest.fetch);
            if rest > 0 {
                add(1, queue.pass(rest).compute, queue.pass(rest).fetch);
            }
        }
        sum
    }

    /// A request of `stream` comes; `ticket` comes back when it has been computed.
    pub fn arrive(&mut self, now: Picos, stream: usize, ticket: u64) {
        self.unanswered[stream] += 1;
        self.queues[stream].requests.push_back(QueuedRequest { arrived: now, ticket });
    }

    /// When something next happens, if anything is under way; never before what [`advance`](Self::advance) was told last.
    #[must_use]
    pub fn next_event(&self) -> Option<Picos> {
        let completion = self.completions.front().map(|completion| completion.at);
        let free = self.decides_at();
        let ready = || self.queues.iter().filter_map(RequestQueue::ready_at).min();
        let decision =
            if self.jobs.is_empty() { ready().map(|ready| ready.max(free)) } else { Some(free) };
        // Asked for every block: a minimum of two, not of a list.
        match (completion, decision) {
            (Some(completion), Some(decision)) => Some(completion.min(decision)),
            (completion, decision) => completion.or(decision),
        }
    }

    /// When something next happens that is seen from outside: an answer, or, as long as none is known, a decision. What is
    /// decided before an answer cannot make it sooner, so that it may be played when that is due, or somebody arrives.
    #[must_use]
    pub fn next_answer(&self) -> Option<Picos> {
        self.completions.front().map(|completion| completion.at).or_else(|| self.next_event())
    }

    /// When the next block may be placed.
    fn decides_at(&self) -> Picos {
        let wake = self.machine.compute_free().saturating_sub(self.batching.wake);
        self.machine.memory_free().max(wake)
    }

    /// Plays what happens until `now`, and appends the tickets of the requests that have been computed by then, each with
    /// the time.
    pub fn advance(&mut self, now: Picos, computed: &mut Vec<(Picos, u64)>) {
        while self.decide(now) {}
        self.answer(now, computed);
    }

    /// If the memory is free by now, begins passes and places a block: whether there was one.
    pub fn decide(&mut self, now: Picos) -> bool {
        if self.decides_at() > now {
            return false;
        }
        self.begin(now);
        if !self.jobs.is_empty() {
            self.place(now);
            return true;
        }
        false
    }

    /// Appends the tickets of the requests that have been computed by now, each with the time.
    pub fn answer(&mut self, now: Picos, computed: &mut Vec<(Picos, u64)>) {
        while let Some(completion) = self.completions.front()
            && completion.at <= now
        {
            if let Some(mut completion) = self.completions.pop_front() {
                self.unanswered[completion.stream] -= completion.tickets.len() as u64;
                computed.extend(completion.tickets.drain(..).map(|ticket| (completion.at, ticket)));
                self.spare.push(completion.tickets);
            }
        }
    }

    /// Begins passes of the batches that the scheduler chooses; if nothing is under way, one begins whatever it says.
    fn begin(&mut self, now: Picos) {
        while self.jobs.len() < self.batching.active {
            let view = SchedulerView {
                machine: &self.machine,
                jobs: &self.jobs,
                queues: &self.queues,
                now,
            };
            let Some(oldest) = view.oldest() else { return };
            let chosen = self.scheduler.begin(&view);
            let Some(batch) = chosen.or(self.jobs.is_empty().then_some(oldest)) else { return };
            let (queue, stream) = (&mut self.queues[batch.stream], batch.stream);
            let mut pass = Arc::clone(queue.pass(batch.requests));
            // The oldest request sets the deadline of the batch: the others have more time.
            let arrived = queue.arrived(batch.after).unwrap_or(now);
            let due = queue.due(batch.after).unwrap_or(now);
            let mut tickets = self.spare.pop().unwrap_or_default();
            let range = batch.after..batch.after + batch.requests;
            tickets.extend(queue.requests.drain(range).map(|request| request.ticket));
            let [compute, fetch] = match self.versions[stream] {
                Some(_) => self.work(now, |_| 0),
                None => [0, 0],
            };
            if let Some(versions) = &mut self.versions[stream] {
                let ends = |pass: &Pass| {
                    let array = compute.saturating_add(pass.compute);
                    now.saturating_add(array.max(fetch.saturating_add(pass.fetch)))
                };
                pass = versions.begin(batch.requests, due, ends);
            }
            self.jobs.push(Job::new(stream, pass, arrived, due));
            self.tickets.push(tickets);
        }
    }

    /// Places the block that the scheduler picks.
    fn place(&mut self, now: Picos) {
        // The memory may have been idle until now.
        let view =
            SchedulerView { machine: &self.machine, jobs: &self.jobs, queues: &self.queues, now };
        let index = self.scheduler.pick(&view);
        let job = &mut self.jobs[index];
        let placement = self.machine.place(&job.block, job.stream, now);
        if let Some(observer) = &mut self.observer {
            observer(job.stream, job.next, &placement);
        }
        if !job.step() {
            let stream = job.stream;
            self.jobs.swap_remove(index);
            let tickets = self.tickets.swap_remove(index);
            self.completions.push_back(Completion { at: placement.compute_end, stream, tickets });
        }
    }
}
