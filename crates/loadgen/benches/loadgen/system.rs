//! The systems that are issued to, the same for Dyno and for the floor.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use dyno_loadgen::clock::{Clock, Nanos};
use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::sut::{QuerySample, Response, ResponseId, SystemUnderTest};

/// Where answers go: Dyno's responder or the floor.
pub trait Sink: Sync {
    fn complete(&self, responses: &[Response<'_>]);
}

impl Sink for Responder {
    #[inline]
    fn complete(&self, responses: &[Response<'_>]) {
        Responder::complete(self, responses);
    }
}

/// A system that answers to a [`Sink`].
pub trait System: Send + Sync {
    fn issue(&self, samples: &[QuerySample], sink: &dyn Sink);
}

/// Completes inline, in batches.
#[derive(Default)]
pub struct Inline {
    pub batch: usize,
    /// Time that the batches of the last query took, in ns.
    pub spent: AtomicU64,
}

impl System for Inline {
    #[inline]
    fn issue(&self, samples: &[QuerySample], sink: &dyn Sink) {
        if let [sample] = samples {
            return sink.complete(&[Response::empty(sample.id)]);
        }
        let clock = Clock::start();
        let mut responses = [Response::empty(ResponseId(0)); 1_024];
        for batch in samples.chunks(self.batch) {
            for (response, sample) in responses.iter_mut().zip(batch) {
                *response = Response::empty(sample.id);
            }
            sink.complete(&responses[..batch.len()]);
        }
        self.spent.store(clock.now(), Ordering::Relaxed);
    }
}

/// Stamps each issue by a clock of its own, outside of what is measured.
pub struct StampedSystem {
    clock: Clock,
    stamps: Vec<AtomicU64>,
    next: AtomicUsize,
}

impl StampedSystem {
    pub fn new(queries: usize) -> Self {
        let stamps: Vec<AtomicU64> = (0..queries).map(|_| AtomicU64::new(1)).collect();
        Self { clock: Clock::start(), stamps, next: AtomicUsize::new(0) }
    }

    /// Lateness of each issue against the schedule, ascending; the least late
    /// query counts as punctual.
    pub fn lateness(&self, schedule: &[Nanos]) -> Vec<Nanos> {
        let behind =
            |(stamp, due): (&AtomicU64, &Nanos)| stamp.load(Ordering::Relaxed) as i64 - *due as i64;
        let behind: Vec<i64> = self.stamps.iter().zip(schedule).map(behind).collect();
        let least = behind.iter().copied().min().unwrap_or(0);
        let mut late: Vec<Nanos> = behind.iter().map(|b| (b - least) as Nanos).collect();
        late.sort_unstable();
        late
    }
}

impl System for StampedSystem {
    #[inline]
    fn issue(&self, samples: &[QuerySample], sink: &dyn Sink) {
        let at = self.next.load(Ordering::Relaxed);
        self.next.store(at + 1, Ordering::Relaxed);
        self.stamps[at].store(self.clock.now(), Ordering::Relaxed);
        sink.complete(&[Response::empty(samples[0].id)]);
    }
}

/// A [`System`] as Dyno's system under test.
pub struct MeasuredSystem<S>(pub std::sync::Arc<S>);

impl<S: System> SystemUnderTest for MeasuredSystem<S> {
    fn name(&self) -> &str {
        "bench"
    }
    #[inline]
    fn issue(&self, samples: &[QuerySample], responder: &Responder) {
        self.0.issue(samples, responder);
    }
}
