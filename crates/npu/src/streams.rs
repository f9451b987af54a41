//! Streams that never run dry: each network's passes follow one another, as in the thesis' chapter IV.

use crate::machine::{Limits, Machine};
use crate::profile::{Picos, Profile};
use crate::schedule::{Job, Scheduler, Tenant, View};

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Streams {
    /// From the first fetch to the end of the last computation.
    pub lasted: Picos,
    /// The array was busy.
    pub compute_busy: Picos,
    /// The memory was busy until then.
    pub memory_busy: Picos,
    /// Blocks that were placed.
    pub blocks: u64,
    /// Of each stream, in order.
    pub streams: Vec<Stream>,
}

/// Of one stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stream {
    /// Whole passes that were computed.
    pub passes: u64,
    /// Of the pass that has begun, the part that is computed and the part that is fetched, whichever is less: so that no
    /// stream seems to have had more of a resource than it had.
    pub begun: f64,
    /// The longest time from the end of a pass to the end of the next, or from the start to the first; also that from
    /// the last to the end of the run, which may not have been long enough.
    pub longest: Picos,
    ended: Picos,
}

/// Plays the streams until the array has been at it for `time`.
pub fn play(
    profiles: &[&Profile],
    limits: Limits,
    scheduler: &mut dyn Scheduler,
    time: Picos,
) -> Streams {
    let mut machine = Machine::new(limits);
    let whole: Vec<Job> = profiles
        .iter()
        .enumerate()
        .map(|(at, profile)| Job::new(at, &profile.blocks, 0, Picos::MAX))
        .collect();
    let mut jobs = whole.clone();
    let mut streams = vec![Stream::default(); profiles.len()];
    let mut blocks = 0;
    while machine.compute_free() < time {
        let at = scheduler.pick(&View { machine: &machine, jobs: &jobs, now: 0 });
        let placed = machine.place(&jobs[at].block, at, 0);
        blocks += 1;
        if !jobs[at].step() {
            jobs[at].restart();
            let stream = &mut streams[at];
            stream.passes += 1;
            stream.longest = stream.longest.max(placed.compute_end - stream.ended);
            stream.ended = placed.compute_end;
        }
    }
    let lasted = machine.compute_free();
    for ((stream, job), whole) in streams.iter_mut().zip(&jobs).zip(&whole) {
        let done = |left: Picos, all: Picos| (all - left) as f64 / all.max(1) as f64;
        let computed = done(job.compute_left, whole.compute_left);
        stream.begun = computed.min(done(job.fetch_left, whole.fetch_left));
        stream.longest = stream.longest.max(lasted - stream.ended);
    }
    let (compute_busy, memory_busy) = (machine.compute_busy(), machine.memory_busy());
    Streams { lasted, compute_busy, memory_busy, blocks, streams }
}

/// How long a pass takes that follows another of the same network, with nothing else there: many of them, counted from
/// the end of one in the middle, when the buffer is as full as it gets.
#[must_use]
pub fn alone(profile: &Profile, limits: Limits) -> Picos {
    /// Passes before it is counted, and passes counted.
    const PASSES: u64 = 32;
    let mut machine = Machine::new(limits);
    let mut middle = 0;
    for pass in 0..2 * PASSES {
        for block in profile.blocks.iter() {
            machine.place(block, 0, 0);
        }
        if pass + 1 == PASSES {
            middle = machine.compute_free();
        }
    }
    ((machine.compute_free() - middle) / PASSES).max(1)
}

/// What schedulers may know of these streams.
#[must_use]
pub fn tenants(profiles: &[&Profile], limits: Limits) -> Vec<Tenant> {
    let of = |profile: &&Profile| Tenant {
        compute: profile.compute(),
        fetch: profile.fetch(),
        wait: profile.blocks.iter().map(|block| limits.wait(block)).sum(),
        alone: alone(profile, limits),
    };
    profiles.iter().map(of).collect()
}

impl Streams {
    /// Passes of stream `at` for each of its time alone: 1 is as fast as alone.
    #[must_use]
    pub fn share(&self, at: usize, tenants: &[Tenant]) -> f64 {
        (self.streams[at].passes as f64 + self.streams[at].begun) * tenants[at].alone as f64
            / self.lasted as f64
    }

    /// System throughput: the sum of all shares.
    #[must_use]
    pub fn stp(&self, tenants: &[Tenant]) -> f64 {
        (0..self.streams.len()).map(|at| self.share(at, tenants)).sum()
    }

    /// Average normalised turnaround time: the mean of what each stream is slowed down by, infinite if one had no pass.
    #[must_use]
    pub fn antt(&self, tenants: &[Tenant]) -> f64 {
        let slowdowns = (0..self.streams.len()).map(|at| 1.0 / self.share(at, tenants));
        slowdowns.sum::<f64>() / self.streams.len() as f64
    }

    /// The longest that any stream waited for a pass, in its time alone.
    #[must_use]
    pub fn max_slowdown(&self, tenants: &[Tenant]) -> f64 {
        let slowdown =
            |(stream, tenant): (&Stream, &Tenant)| stream.longest as f64 / tenant.alone as f64;
        self.streams.iter().zip(tenants).map(slowdown).fold(0.0, f64::max)
    }
}
