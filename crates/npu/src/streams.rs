//! Simulation of streams that always have work: the passes of each network follow one another, as in chapter IV of the
//! thesis.
//!
//! A stream requests its next pass as soon as the previous one is fetched, so the scheduler can always choose among one
//! block per stream. A pass of a batch counts as one pass. Streams of the same network are served first come, first
//! served. The simulation uses no random numbers: equal passes, limits and schedulers give equal results.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::machine::{Machine, MachineLimits, Placement};
use crate::pass::Pass;
use crate::profile::Picos;
use crate::schedule::{PassJob, Scheduler, SchedulerView};

/// Result of simulated streams.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamsResult {
    /// Time from the first fetch to the end of the last computation, ps.
    pub duration: Picos,
    /// Time that the array was busy, ps.
    pub compute_busy: Picos,
    /// Time that the memory was busy, ps.
    pub memory_busy: Picos,
    /// Number of placed blocks.
    pub blocks: u64,
    /// Result of each stream, in order.
    pub streams: Vec<StreamResult>,
}

/// Result of one stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamResult {
    /// Number of completed passes.
    pub passes: u64,
    /// Fraction of the pass in progress: the computed or the fetched fraction, whichever is smaller, so that no stream
    /// is credited with more of a resource than it used.
    pub partial: f64,
    /// Longest interval between the ends of two successive passes, ps. The start and the end of the run count as ends,
    /// because the run may have been too short for a pass.
    pub longest: Picos,
    ended: Picos,
}

/// Simulates the streams until the array has computed for `time` ps. The block that is being computed then is the last.
/// Without streams or time, the result is empty.
///
/// ```
/// use std::sync::Arc;
/// use dyno_npu::machine::{FetchStart, MachineLimits};
/// use dyno_npu::pass::Pass;
/// use dyno_npu::profile::{Block, NetworkProfile};
/// use dyno_npu::schedule::RoundRobin;
/// use dyno_npu::streams::simulate;
///
/// let limits = MachineLimits {
///     capacity: 1_000, depth: usize::MAX, switch: 0, ps_per_byte: 1.0,
///     fetch: FetchStart::Whole,
/// };
/// let pass = |compute, fetch| {
///     let blocks = vec![Block { compute, fetch, bytes: fetch }];
///     let profile = NetworkProfile { blocks, ..NetworkProfile::default() };
///     Arc::new(Pass::new(&profile, limits).expect("the block takes time"))
/// };
/// // Both streams are compute-bound, so together they reach the throughput of one.
/// let passes = [pass(10, 2), pass(30, 2)];
/// let result = simulate(&passes, limits, &mut RoundRobin::default(), 40_000);
/// assert!((result.stp(&passes) - 1.0).abs() < 1e-3);
/// ```
///
/// # Panics
/// Panics if the scheduler picks a job that does not exist.
pub fn simulate(
    passes: &[Arc<Pass>],
    limits: MachineLimits,
    scheduler: &mut dyn Scheduler,
    time: Picos,
) -> StreamsResult {
    simulate_observed(passes, limits, scheduler, time, |_, _, _| {})
}

/// Simulates streams like [`simulate`], and calls `observe` for each placed block: the stream, the block's position in
/// its pass, and the block's times. The stream is the scheduler's pick, or another stream of the same network whose
/// request for the same block came first.
///
/// # Panics
/// Panics if the scheduler picks a job that does not exist.
pub fn simulate_observed(
    passes: &[Arc<Pass>],
    limits: MachineLimits,
    scheduler: &mut dyn Scheduler,
    time: Picos,
    mut observe: impl FnMut(usize, usize, &Placement),
) -> StreamsResult {
    let mut machine = Machine::new(limits);
    let new = |(at, pass): (usize, &Arc<Pass>)| PassJob::new(at, Arc::clone(pass), 0, Picos::MAX);
    let mut jobs: Vec<PassJob> = passes.iter().enumerate().map(new).collect();
    let mut turns = EqualStreams::new(passes);
    let mut streams = vec![StreamResult::default(); passes.len()];
    let mut blocks = 0;
    // This terminates because each pass takes time (see `Pass::new`).
    while machine.compute_free() < time && !jobs.is_empty() {
        let now = machine.memory_free();
        let picked =
            scheduler.pick(&SchedulerView { machine: &machine, jobs: &jobs, queues: &[], now });
        let index = turns.first(&jobs, picked);
        let placement = machine.place(&jobs[index].block, index, 0);
        observe(index, jobs[index].next, &placement);
        blocks += 1;
        if !jobs[index].step() {
            jobs[index].restart();
            // The next request arrives when this one is fetched, so that first come, first served takes turns.
            jobs[index].arrived = placement.fetch_end;
            turns.request(index);
            let stream = &mut streams[index];
            stream.passes += 1;
            stream.longest = stream.longest.max(placement.compute_end - stream.ended);
            stream.ended = placement.compute_end;
        }
    }
    let duration = machine.compute_free();
    for (stream, job) in streams.iter_mut().zip(&jobs) {
        let done = |left: Picos, all: Picos| (all - left) as f64 / all.max(1) as f64;
        let computed = done(job.compute_left, job.pass.compute);
        stream.partial = computed.min(done(job.fetch_left, job.pass.fetch));
        stream.longest = stream.longest.max(duration - stream.ended);
    }
    StreamsResult {
        duration,
        compute_busy: machine.compute_busy(),
        memory_busy: machine.memory_busy(),
        blocks,
        streams,
    }
}

/// Streams of the same network, and the order in which they requested their passes. Arrival times do not order the
/// requests of passes that fetch nothing.
#[derive(Debug)]
struct EqualStreams {
    /// The other streams of the network of each stream.
    others: Vec<Vec<usize>>,
    /// Number of the request of each stream. The first requests arrive together, as number 0.
    requested: Vec<u64>,
    requests: u64,
}

impl EqualStreams {
    fn new(passes: &[Arc<Pass>]) -> Self {
        let others = |at: usize| -> Vec<usize> {
            let is_other = |&other: &usize| other != at && passes[other] == passes[at];
            (0..passes.len()).filter(is_other).collect()
        };
        let others = (0..passes.len()).map(others).collect();
        Self { others, requested: vec![0; passes.len()], requests: 0 }
    }

    /// Records that a stream requests its next pass.
    fn request(&mut self, stream: usize) {
        self.requests += 1;
        self.requested[stream] = self.requests;
    }

    /// Returns the first request among the picked one and those that wait for the same block of the same network. A
    /// scheduler that compares only the work of blocks would pick the same stream forever, and starve its equals.
    fn first(&self, jobs: &[PassJob], picked: usize) -> usize {
        let is_equal = |other: &usize| jobs[*other].next == jobs[picked].next;
        let equals = self.others[picked].iter().copied().filter(is_equal);
        // Of requests that arrived together, the scheduler's pick comes first.
        std::iter::once(picked).chain(equals).min_by_key(|&at| self.requested[at]).unwrap_or(picked)
    }
}

impl StreamsResult {
    /// Returns the passes of a stream, including the fraction of the pass in progress.
    pub fn passes(&self, stream: usize) -> f64 {
        self.streams[stream].passes as f64 + self.streams[stream].partial
    }

    /// Returns the rate of a stream divided by its rate alone: 1 is as fast as alone, 0 if nothing was simulated.
    /// `passes` are those that were simulated.
    pub fn share(&self, stream: usize, passes: &[Arc<Pass>]) -> f64 {
        self.passes(stream) * passes[stream].alone as f64 / self.duration.max(1) as f64
    }

    /// Returns the system throughput (STP): the sum of all shares.
    pub fn stp(&self, passes: &[Arc<Pass>]) -> f64 {
        (0..self.streams.len()).map(|at| self.share(at, passes)).sum()
    }

    /// Returns the average normalized turnaround time (ANTT): the mean slowdown of the streams. It is infinite if a
    /// stream completed nothing.
    pub fn antt(&self, passes: &[Arc<Pass>]) -> f64 {
        let slowdowns = (0..self.streams.len()).map(|at| 1.0 / self.share(at, passes));
        slowdowns.sum::<f64>() / self.streams.len() as f64
    }

    /// Returns the longest wait for a pass of any stream, in units of the time that the pass takes alone.
    pub fn max_slowdown(&self, passes: &[Arc<Pass>]) -> f64 {
        let slowdown =
            |(stream, pass): (&StreamResult, &Arc<Pass>)| stream.longest as f64 / pass.alone as f64;
        self.streams.iter().zip(passes).map(slowdown).fold(0.0, f64::max)
    }
}
