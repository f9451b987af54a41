//! Streams that never run dry: each network's passes follow one another, as in the thesis' chapter IV.
//!
//! A stream asks for its next pass as soon as the one before is fetched, so that there is always one block of each stream
//! to choose from. A pass may be one of a batch: its samples are computed together, and it counts as one. Nothing is drawn
//! at random: the same passes, limits and scheduler give the same run.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::machine::{Machine, MachineLimits, Placement};
use crate::pass::Pass;
use crate::profile::Picos;
use crate::schedule::{Job, Scheduler, SchedulerView};

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamsResult {
    /// From the first fetch to the end of the last computation.
    pub duration: Picos,
    /// The array was busy.
    pub compute_busy: Picos,
    /// The memory was busy until then.
    pub memory_busy: Picos,
    /// Blocks that were placement.
    pub blocks: u64,
    /// Of each stream, in order.
    pub streams: Vec<StreamResult>,
}

/// Of one stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamResult {
    /// SerialOrder passes that were computed.
    pub passes: u64,
    /// Of the pass that has begun, the part that is computed and the part that is fetched, whichever is less: so that no
    /// stream seems to have had more of a resource than it had.
    pub partial: f64,
    /// The longest time from the end of a pass to the end of the next, or from the start to the first; also that from
    /// the last to the end of the run, which may not have been long enough.
    pub longest: Picos,
    ended: Picos,
}

/// Plays the streams until the array has been at it for `time`: the block that is computed then is the last. Where there
/// are no streams, or no time, nothing happens.
///
/// # Panics
/// If the scheduler names a job that there is not.
pub fn simulate(
    passes: &[Arc<Pass>],
    limits: MachineLimits,
    scheduler: &mut dyn Scheduler,
    time: Picos,
) -> StreamsResult {
    simulate_observed(passes, limits, scheduler, time, |_, _, _| {})
}

/// The same; `watch` is told of each block as it is placed: the stream, its position in the pass, and its times.
///
/// # Panics
/// As [`simulate`].
pub fn simulate_observed(
    passes: &[Arc<Pass>],
    limits: MachineLimits,
    scheduler: &mut dyn Scheduler,
    time: Picos,
    mut observe: impl FnMut(usize, usize, &Placement),
) -> StreamsResult {
    let mut machine = Machine::new(limits);
    let new = |(at, pass): (usize, &Arc<Pass>)| Job::new(at, Arc::clone(pass), 0, Picos::MAX);
    let mut jobs: Vec<Job> = passes.iter().enumerate().map(new).collect();
    let mut streams = vec![StreamResult::default(); passes.len()];
    let mut blocks = 0;
    // Each pass takes time (see `Pass::new`), so that this ends.
    while machine.compute_free() < time && !jobs.is_empty() {
        let now = machine.memory_free();
        let index =
            scheduler.pick(&SchedulerView { machine: &machine, jobs: &jobs, queues: &[], now });
        let placement = machine.place(&jobs[index].block, index, 0);
        observe(index, jobs[index].next, &placement);
        blocks += 1;
        if !jobs[index].step() {
            jobs[index].restart();
            // The next request is there as soon as all of this one is fetched: first come first served takes turns.
            jobs[index].arrived = placement.fetch_end;
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

impl StreamsResult {
    /// Passes of stream `at`, with the part of the one that has begun.
    #[must_use]
    pub fn passes(&self, stream: usize) -> f64 {
        self.streams[stream].passes as f64 + self.streams[stream].partial
    }

    /// Passes of stream `at` for each of its time alone: 1 is as fast as alone, and 0 where nothing was played. `passes` are
    /// those that were played.
    #[must_use]
    pub fn share(&self, stream: usize, passes: &[Arc<Pass>]) -> f64 {
        self.passes(stream) * passes[stream].alone as f64 / self.duration.max(1) as f64
    }

    /// System throughput: the sum of all shares.
    #[must_use]
    pub fn stp(&self, passes: &[Arc<Pass>]) -> f64 {
        (0..self.streams.len()).map(|at| self.share(at, passes)).sum()
    }

    /// Average normalised turnaround time: the mean of what each stream is slowed down by, infinite if one had no pass.
    #[must_use]
    pub fn antt(&self, passes: &[Arc<Pass>]) -> f64 {
        let slowdowns = (0..self.streams.len()).map(|at| 1.0 / self.share(at, passes));
        slowdowns.sum::<f64>() / self.streams.len() as f64
    }

    /// The longest that any stream waited for a pass, in its time alone.
    #[must_use]
    pub fn max_slowdown(&self, passes: &[Arc<Pass>]) -> f64 {
        let slowdown =
            |(stream, pass): (&StreamResult, &Arc<Pass>)| stream.longest as f64 / pass.alone as f64;
        self.streams.iter().zip(passes).map(slowdown).fold(0.0, f64::max)
    }
}
