//! Online simulation of an NPU that serves requests, as the thesis deploys it: a queue per network, passes of batches,
//! and a scheduling decision whenever the memory is free.
//!
//! A request waits in the queue of its stream until the batch is full or the oldest request has waited for the window.
//! Whenever the memory is free, the server starts passes for ready batches, unless the limit of active passes is
//! reached or the scheduler holds them back. The scheduler then picks the next block of one active pass. A batch stays
//! open until its first block can be fetched. A placed block is never moved: a later request is fetched after it.
//!
//! The caller supplies the time ([`NpuServer::advance`]); this module never sleeps or reads a clock.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::machine::{Machine, MachineLimits, Placement};
use crate::pass::Pass;
use crate::profile::Picos;
pub use crate::queue::ServedNetwork;
use crate::queue::{QueuedRequest, RequestQueue};
use crate::schedule::{PassJob, Scheduler, SchedulerView};
use crate::version::VersionSet;

/// Rules by which requests become passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchingPolicy {
    /// Maximum time that a request waits for others, ps.
    pub window: Picos,
    /// Maximum number of active passes: started, but with blocks left to place. At least 1.
    pub active: usize,
    /// How long before the array runs out of work the scheduler decides, ps. A request that arrives meanwhile waits
    /// behind no more than this work. `Picos::MAX` means that the scheduler decides whenever the memory is free.
    pub wake: Picos,
}

/// A batch whose blocks have all been placed, and when it will be computed.
#[derive(Debug)]
struct Completion {
    at: Picos,
    stream: usize,
    tickets: Vec<u64>,
}

/// Observer of placed blocks: called with the stream, the block's position in its pass, and the block's times.
pub type BlockObserver = dyn FnMut(usize, usize, &Placement);

/// An NPU that serves requests.
///
/// ```
/// use std::sync::Arc;
/// use dyno_npu::machine::{FetchStart, MachineLimits};
/// use dyno_npu::pass::Pass;
/// use dyno_npu::profile::{Block, NetworkProfile, Picos};
/// use dyno_npu::schedule::RoundRobin;
/// use dyno_npu::serve::{BatchingPolicy, NpuServer, ServedNetwork};
///
/// let limits = MachineLimits {
///     capacity: 100, depth: usize::MAX, switch: 0, ps_per_byte: 1.0,
///     fetch: FetchStart::Whole,
/// };
/// let blocks = vec![Block { compute: 50, fetch: 20, bytes: 20 }];
/// let profile = NetworkProfile { blocks, ..NetworkProfile::default() };
/// let pass = Arc::new(Pass::new(&profile, limits).expect("the block takes time"));
/// let network = ServedNetwork { passes: vec![pass], limit: Picos::MAX };
/// let batching = BatchingPolicy { window: 0, active: 4, wake: Picos::MAX };
/// let mut server = NpuServer::new(limits, batching, vec![network], Box::new(RoundRobin::default()));
///
/// server.arrive(1_000, 0, 7);
/// let mut computed = Vec::new();
/// while let Some(now) = server.next_event() {
///     server.advance(now, &mut computed);
/// }
/// assert_eq!(computed, [(1_000 + 20 + 50, 7)]);
/// ```
pub struct NpuServer {
    batching: BatchingPolicy,
    machine: Machine,
    scheduler: Box<dyn Scheduler>,
    queues: Vec<RequestQueue>,
    jobs: Vec<PassJob>,
    /// Tickets of the requests of each job.
    tickets: Vec<Vec<u64>>,
    /// In order of time, because computations keep the order of decisions.
    completions: VecDeque<Completion>,
    observer: Option<Box<BlockObserver>>,
    /// Unanswered requests of each stream.
    unanswered: Vec<u64>,
    /// Versions of each stream; `None` for a stream that always uses the passes of its queue.
    versions: Vec<Option<VersionSet>>,
    // Empty lists of tickets, kept to avoid allocations.
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
    /// Creates an idle NPU. The index of a network in `served` is its stream number.
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

    /// Calls `observer` for each block when it is placed.
    pub fn observe(&mut self, observer: Box<BlockObserver>) {
        self.observer = Some(observer);
    }

    /// Returns the machine with the blocks placed so far.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the queue of waiting requests of each stream.
    pub fn queues(&self) -> &[RequestQueue] {
        &self.queues
    }

    /// Returns the active passes: started, but with blocks left to place.
    pub fn jobs(&self) -> &[PassJob] {
        &self.jobs
    }

    /// Returns the number of requests that arrived and are not computed yet.
    pub fn unanswered(&self) -> u64 {
        self.unanswered.iter().sum()
    }

    /// Returns the number of unanswered requests of one stream.
    pub(crate) fn unanswered_of(&self, stream: usize) -> u64 {
        self.unanswered[stream]
    }

    /// Lets the server choose a version for each batch of `stream` from now on. The scheduler sees the passes of the
    /// queue until a batch starts.
    pub fn offer(&mut self, stream: usize, versions: VersionSet) {
        self.versions[stream] = Some(versions);
    }

    /// Returns the versions of `stream`, if it has any.
    pub fn versions(&self, stream: usize) -> Option<&VersionSet> {
        self.versions[stream].as_ref()
    }

    /// Blocks the memory until this time, while another user has it.
    pub fn hold_memory(&mut self, until: Picos) {
        self.machine.hold_memory(until);
    }

    /// Blocks the array until this time, while another user has it.
    pub fn hold_array(&mut self, until: Picos) {
        self.machine.hold_array(until);
    }

    /// Returns how long the array and the memory would be busy with all current work and `more(stream)` further
    /// requests of each stream, if waiting requests were computed in the largest batches. ps.
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

    /// Adds a request of `stream` at time `now`. [`advance`](Self::advance) returns `ticket` when the request has been
    /// computed.
    pub fn arrive(&mut self, now: Picos, stream: usize, ticket: u64) {
        self.unanswered[stream] += 1;
        self.queues[stream].requests.push_back(QueuedRequest { arrived: now, ticket });
    }

    /// Returns the time of the next event; `None` if no work is in progress. It is never before the time of the last
    /// [`advance`](Self::advance).
    #[must_use]
    pub fn next_event(&self) -> Option<Picos> {
        let completion = self.completions.front().map(|completion| completion.at);
        let free = self.decides_at();
        let ready = || self.queues.iter().filter_map(RequestQueue::ready_at).min();
        let decision =
            if self.jobs.is_empty() { ready().map(|ready| ready.max(free)) } else { Some(free) };
        // This function runs for every block, so it compares two values instead of building a list.
        match (completion, decision) {
            (Some(completion), Some(decision)) => Some(completion.min(decision)),
            (completion, decision) => completion.or(decision),
        }
    }

    /// Returns the time of the next visible event: an answer or, if none is known yet, a decision.
    ///
    /// Decisions before a known answer cannot make that answer earlier, so the caller may simulate them when the answer
    /// is due or a request arrives.
    #[must_use]
    pub fn next_answer(&self) -> Option<Picos> {
        self.completions.front().map(|completion| completion.at).or_else(|| self.next_event())
    }

    /// Returns when the next block may be placed.
    fn decides_at(&self) -> Picos {
        let wake = self.machine.compute_free().saturating_sub(self.batching.wake);
        self.machine.memory_free().max(wake)
    }

    /// Simulates up to `now` and appends the requests that were computed by then: completion time and ticket.
    pub fn advance(&mut self, now: Picos, computed: &mut Vec<(Picos, u64)>) {
        while self.decide(now) {}
        self.answer(now, computed);
    }

    /// Starts ready passes and places one block if the scheduler may decide by `now`. Returns whether a block was
    /// placed.
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

    /// Appends the requests that were computed by `now`: completion time and ticket.
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

    /// Starts passes of the batches that the scheduler chooses. If no pass is active, the oldest ready batch starts in
    /// any case.
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
            self.jobs.push(PassJob::new(stream, pass, arrived, due));
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
            // Jobs stay in the order in which they began, so that schedulers serve equal requests first come, first
            // served.
            self.jobs.remove(index);
            let tickets = self.tickets.remove(index);
            self.completions.push_back(Completion { at: placement.compute_end, stream, tickets });
        }
    }
}
