//! The scheduler online, as the thesis deploys it: a queue for each network, passes of batches, and a decision whenever
//! the memory is free.
//!
//! Requests wait in the queue of their stream until there are enough for a batch or the oldest has waited for the window.
//! Whenever the memory is free, passes begin for the batches that are ready, if fewer than the limit are under way, and
//! the scheduler picks the next block of one of them: no batch is closed before it can be fetched. What has been placed
//! stays placed: a request that comes later is fetched after it.
//!
//! Time comes from outside ([`Server::advance`]); nothing here sleeps or reads a clock.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::machine::{Limits, Machine, Placed};
use crate::pass::Pass;
use crate::profile::Picos;
use crate::schedule::{Job, Scheduler, View};

/// How requests become passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// A request waits so long for others at most.
    pub window: Picos,
    /// Passes that have begun and are not placed to their ends, at most; at least 1.
    pub active: usize,
    /// The scheduler is woken so long before the array runs out of work: what comes meanwhile need not wait behind more
    /// than that. The end of time: whenever the memory is free.
    pub wake: Picos,
}

/// A network that is served.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// Of batches of 1, 2, and so on; at least one.
    pub passes: Vec<Arc<Pass>>,
    /// A request should be computed so long after it came; the end of time where nobody asks.
    pub limit: Picos,
}

/// A request that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    arrived: Picos,
    ticket: u64,
}

/// A batch that will be computed then.
#[derive(Debug)]
struct Ending {
    at: Picos,
    tickets: Vec<u64>,
}

/// Told of each block as it is placed: the stream, its position in the pass, and its times.
pub type Onlooker = dyn FnMut(usize, usize, &Placed);

/// An NPU that serves.
pub struct Server {
    batching: Batching,
    served: Vec<Served>,
    machine: Machine,
    scheduler: Box<dyn Scheduler>,
    queues: Vec<VecDeque<Waiting>>,
    jobs: Vec<Job>,
    /// Of each job, whom it answers.
    tickets: Vec<Vec<u64>>,
    /// In order, since computations keep the order of decisions.
    endings: VecDeque<Ending>,
    onlooker: Option<Box<Onlooker>>,
    // Lists of tickets that are used again.
    spare: Vec<Vec<u64>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("machine", &self.machine)
            .field("jobs", &self.jobs)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// An idle NPU. `served` are the streams, by their numbers.
    #[must_use]
    pub fn new(
        limits: Limits,
        batching: Batching,
        served: Vec<Served>,
        scheduler: Box<dyn Scheduler>,
    ) -> Self {
        Self {
            batching,
            queues: vec![VecDeque::new(); served.len()],
            served,
            machine: Machine::new(limits),
            scheduler,
            jobs: Vec::new(),
            tickets: Vec::new(),
            endings: VecDeque::new(),
            onlooker: None,
            spare: Vec::new(),
        }
    }

    /// Shows each block to `onlooker` as it is placed.
    pub fn watch(&mut self, onlooker: Box<Onlooker>) {
        self.onlooker = Some(onlooker);
    }

    /// What has been placed.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Requests that wait in the queue of `stream`, not in a pass yet: what a load balancer looks at.
    #[must_use]
    pub fn queued(&self, stream: usize) -> usize {
        self.queues[stream].len()
    }

    /// A request of `stream` comes; `ticket` comes back when it has been computed.
    pub fn arrive(&mut self, now: Picos, stream: usize, ticket: u64) {
        self.queues[stream].push_back(Waiting { arrived: now, ticket });
    }

    /// When something next happens, if anything is under way; never before what [`advance`](Self::advance) was told last.
    #[must_use]
    pub fn next_event(&self) -> Option<Picos> {
        let ending = self.endings.front().map(|ending| ending.at);
        let free = self.decides_at();
        let ready = || (0..self.queues.len()).filter_map(|stream| self.ready_at(stream)).min();
        let decision = match self.jobs.is_empty() {
            false => Some(free),
            true => ready().map(|ready| ready.max(free)),
        };
        [ending, decision].into_iter().flatten().min()
    }

    /// When the next block may be placed.
    fn decides_at(&self) -> Picos {
        let wake = self.machine.compute_free().saturating_sub(self.batching.wake);
        self.machine.memory_free().max(wake)
    }

    /// When the queue of `stream` becomes a batch: when its oldest request has waited, or at once if there are enough.
    fn ready_at(&self, stream: usize) -> Option<Picos> {
        let (queue, most) = (&self.queues[stream], self.served[stream].passes.len());
        let full = queue.get(most - 1).map(|request| request.arrived);
        let waited =
            queue.front().map(|request| request.arrived.saturating_add(self.batching.window));
        full.or(waited)
    }

    /// Plays what happens until `now`, and appends the tickets of the requests that have been computed by then, each with
    /// the time.
    pub fn advance(&mut self, now: Picos, computed: &mut Vec<(Picos, u64)>) {
        while self.decides_at() <= now {
            self.begin(now);
            if self.jobs.is_empty() {
                break;
            }
            self.place(now);
        }
        while let Some(ending) = self.endings.front()
            && ending.at <= now
        {
            if let Some(mut ending) = self.endings.pop_front() {
                computed.extend(ending.tickets.drain(..).map(|ticket| (ending.at, ticket)));
                self.spare.push(ending.tickets);
            }
        }
    }

    /// Begins passes of the batches that are ready, the one that has been ready for longest first.
    fn begin(&mut self, now: Picos) {
        while self.jobs.len() < self.batching.active {
            let ready = |stream: usize| {
                self.ready_at(stream).filter(|at| *at <= now).map(|at| (at, stream))
            };
            let Some((_, stream)) = (0..self.queues.len()).filter_map(ready).min() else { return };
            let (queue, served) = (&mut self.queues[stream], &self.served[stream]);
            let batch = queue.len().min(served.passes.len());
            let arrived = queue.front().map_or(now, |request| request.arrived);
            let mut tickets = self.spare.pop().unwrap_or_default();
            tickets.extend(queue.drain(..batch).map(|request| request.ticket));
            // The oldest decides: the others have more time.
            let due = arrived.saturating_add(served.limit);
            self.jobs.push(Job::new(stream, Arc::clone(&served.passes[batch - 1]), arrived, due));
            self.tickets.push(tickets);
        }
    }

    /// Places the block that the scheduler picks.
    fn place(&mut self, now: Picos) {
        // The memory may have been idle until now.
        let view = View { machine: &self.machine, jobs: &self.jobs, now };
        let at = self.scheduler.pick(&view);
        let job = &mut self.jobs[at];
        let placed = self.machine.place(&job.block, job.stream, now);
        if let Some(onlooker) = &mut self.onlooker {
            onlooker(job.stream, job.next, &placed);
        }
        if !job.step() {
            self.jobs.swap_remove(at);
            let tickets = self.tickets.swap_remove(at);
            self.endings.push_back(Ending { at: placed.compute_end, tickets });
        }
    }
}
