//! The floor: the least work that still keeps the reference's schedule, stamps
//! every completion, checks ids and double completion, keeps every latency and
//! computes exact percentiles. It has no settings, logs, early stopping or
//! audits, and no misuse beyond a count. It is evidence of what is possible,
//! not a lower bound.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dyno_loadgen::clock::{Clock, Nanos, SECOND};
use dyno_loadgen::rng::Mt19937;
use dyno_loadgen::sut::{QuerySample, Response, ResponseId};

use crate::system::{Sink, System};

/// One run of the floor.
pub struct Floor {
    clock: Clock,
    scheduled: Vec<Nanos>,
    stamps: Vec<AtomicU64>,
    indices: Vec<u32>,
    done: AtomicU64,
    errors: AtomicU64,
}

impl Sink for Floor {
    #[inline]
    fn complete(&self, responses: &[Response<'_>]) {
        let at = self.clock.now().max(1);
        for response in responses {
            match self.stamps.get((response.id.0 as usize).wrapping_sub(1)) {
                Some(stamp) if stamp.load(Ordering::Relaxed) == 0 => {
                    stamp.store(at, Ordering::Relaxed);
                }
                _ => {
                    self.errors.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        self.done.fetch_add(responses.len() as u64, Ordering::Release);
    }
}

/// What a run of the floor does.
#[derive(Clone, Copy)]
pub enum Pattern {
    /// One query after the other.
    SingleStream,
    /// Poisson arrivals at this rate.
    Server { qps: f64 },
    /// Everything at once.
    Offline,
}

/// Measurements of the floor.
pub struct FloorMeasurement {
    /// Seconds to draw schedule and samples.
    pub prepare_s: f64,
    /// Seconds from the first issue to the last completion.
    pub run_s: f64,
    /// The six percentiles, so that they are not optimized away.
    pub percentiles: Vec<Nanos>,
}

fn pause_until(clock: Clock, time: Nanos) -> Nanos {
    let mut now = clock.now();
    if time > now + 80_000 {
        #[expect(clippy::disallowed_methods, reason = "a driver waits")]
        std::thread::sleep(Duration::from_nanos(time - now - 60_000));
        now = clock.now();
    }
    while now < time {
        std::hint::spin_loop();
        now = clock.now();
    }
    now
}

/// Draws schedule and samples.
fn prepared(pattern: Pattern, queries: usize) -> Floor {
    let mut rng = Mt19937::new(1);
    let indices = (0..queries).map(|_| rng.bounded(1_024)).collect();
    let mut scheduled = Vec::new();
    if let Pattern::Server { qps } = pattern {
        let (mut rng, mut at) = (Mt19937::new(crate::SCHEDULE_SEED), 0);
        scheduled.reserve_exact(queries);
        for _ in 0..queries {
            scheduled.push(at);
            at += (rng.exponential(qps) * SECOND as f64) as Nanos;
        }
    }
    Floor {
        clock: Clock::start(),
        scheduled,
        stamps: Vec::new(),
        indices,
        done: AtomicU64::new(0),
        errors: AtomicU64::new(0),
    }
}

impl Floor {
    fn sample(&self, i: usize) -> QuerySample {
        QuerySample { id: ResponseId(i as u64 + 1), index: u64::from(self.indices[i]) }
    }

    /// Issues all queries. Returns when each was issued, for SingleStream, where
    /// that is when it was due.
    fn issue(&self, pattern: Pattern, all: &[QuerySample], system: &dyn System) -> Vec<Nanos> {
        let clock = self.clock;
        let mut issued_at = Vec::new();
        match pattern {
            Pattern::Offline => system.issue(all, self),
            Pattern::SingleStream => {
                issued_at.reserve_exact(self.indices.len());
                for i in 0..self.indices.len() {
                    issued_at.push(clock.now());
                    system.issue(&[self.sample(i)], self);
                    while self.done.load(Ordering::Acquire) != i as u64 + 1 {
                        std::hint::spin_loop();
                    }
                }
            }
            Pattern::Server { .. } => {
                let begin = clock.now();
                let mut now = begin;
                for (i, &due) in self.scheduled.iter().enumerate() {
                    if now < begin + due {
                        pause_until(clock, begin + due);
                    }
                    system.issue(&[self.sample(i)], self);
                    now = clock.now();
                }
            }
        }
        issued_at
    }
}

/// Plays `queries` queries (Offline: samples) against a system.
pub fn play(pattern: Pattern, queries: usize, system: &dyn System) -> FloorMeasurement {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let preparing = Clock::start();
    let mut floor = prepared(pattern, queries);
    let prepare_s = preparing.now() as f64 / 1e9;
    floor.stamps = (0..queries).map(|_| AtomicU64::new(0)).collect();
    for page in floor.stamps.iter().step_by(512) {
        page.store(0, Ordering::Relaxed);
    }
    let mut all = Vec::new();
    if matches!(pattern, Pattern::Offline) {
        all.extend((0..queries).map(|i| floor.sample(i)));
    }
    let begin = floor.clock.now();
    let issued_at = floor.issue(pattern, &all, system);
    while floor.done.load(Ordering::Acquire) != queries as u64 {
        std::hint::spin_loop();
    }
    let run_s = (floor.clock.now() - begin) as f64 / 1e9;
    assert_eq!(floor.errors.load(Ordering::Relaxed), 0);
    let due = |i: usize| match pattern {
        Pattern::Offline => begin,
        Pattern::SingleStream => issued_at[i],
        Pattern::Server { .. } => begin + floor.scheduled[i],
    };
    let mut latencies: Vec<Nanos> = floor.stamps.into_iter().map(AtomicU64::into_inner).collect();
    for (i, latency) in latencies.iter_mut().enumerate() {
        *latency = latency.saturating_sub(due(i));
    }
    let percentiles = crate::PERCENTILES
        .iter()
        .map(|q| *latencies.select_nth_unstable((queries as f64 * q) as usize).1)
        .collect();
    FloorMeasurement { prepare_s, run_s, percentiles }
}
