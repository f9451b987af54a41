//! Times at which the socket accepted each request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::sut::ResponseId;

/// Samples in a chunk: half a megabyte of stamps.
const CHUNK_SAMPLES: usize = 1 << 16;
/// 2^14 chunks: a billion samples, the limit of a run.
const CHUNKS: usize = 1 << 14;

/// The stamps of one tenant.
struct Column(Box<[OnceLock<Box<[AtomicU64]>>]>);

/// Times of the samples of the current run: one store per request, without a lock.
pub(super) struct SampleTimes {
    /// By tenant, created on demand.
    columns: Box<[OnceLock<Column>]>,
    /// The last run that began. Several threads may stamp samples, but a run begins only once.
    last: Mutex<u64>,
    /// The run being recorded; 0 while the next one is expected.
    current: AtomicU64,
}

impl SampleTimes {
    pub(super) fn new() -> Self {
        let columns = (0..=usize::from(u8::MAX)).map(|_| OnceLock::new()).collect();
        Self { columns, last: Mutex::new(0), current: AtomicU64::new(0) }
    }

    /// Lets the next sample of a run other than the last begin a new run.
    pub(super) fn expect_run(&self) {
        self.current.store(0, Ordering::Release);
    }

    /// Stamps a sample, in ns since the start of its run. Samples of earlier runs are ignored.
    #[inline]
    pub(super) fn stamp(&self, id: ResponseId, at: Nanos) {
        if let Some(stamp) = self.stamp_of(id) {
            stamp.store(at.max(1), Ordering::Relaxed);
        }
    }

    /// Stamps a sample as [`stamp`](Self::stamp) does unless it has a stamp: a retry leaves the time
    /// of the first attempt.
    #[inline]
    pub(super) fn stamp_first(&self, id: ResponseId, at: Nanos) {
        if let Some(stamp) = self.stamp_of(id)
            && stamp.load(Ordering::Relaxed) == 0
        {
            stamp.store(at.max(1), Ordering::Relaxed);
        }
    }

    /// Adds to the value of a sample, for counts and total times.
    pub(super) fn add(&self, id: ResponseId, more: u64) {
        if more > 0
            && let Some(sum) = self.stamp_of(id)
        {
            sum.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Returns the time of a sample of the current run; `None` if it has none.
    #[inline]
    pub(super) fn time(&self, id: ResponseId) -> Option<Nanos> {
        let stamp = self.stamp_of(id)?.load(Ordering::Relaxed);
        (stamp > 0).then_some(stamp)
    }

    /// Returns the stamp of a sample of the current run.
    #[inline]
    fn stamp_of(&self, id: ResponseId) -> Option<&AtomicU64> {
        let run = id.run() >> 8;
        if self.current.load(Ordering::Acquire) != run && !self.begin(run) {
            return None;
        }
        let column = self.columns[usize::from(id.tenant())].get_or_init(Column::new);
        let sequence = id.sequence() as usize;
        let chunk = column.0.get(sequence / CHUNK_SAMPLES)?;
        let chunk = chunk.get_or_init(|| (0..CHUNK_SAMPLES).map(|_| AtomicU64::new(0)).collect());
        Some(&chunk[sequence % CHUNK_SAMPLES])
    }

    /// Clears the times of the previous run but keeps their memory; returns false if `run` is not
    /// expected.
    #[cold]
    fn begin(&self, run: u64) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match self.current.load(Ordering::Acquire) {
            0 if *last != run => {}
            current => return current == run,
        }
        for column in self.columns.iter().filter_map(OnceLock::get) {
            for chunk in column.0.iter().filter_map(OnceLock::get) {
                chunk.iter().for_each(|stamp| stamp.store(0, Ordering::Relaxed));
            }
        }
        *last = run;
        self.current.store(run, Ordering::Release);
        true
    }

    /// Returns the times of the first `samples` samples of a tenant in the last run; 0 for a sample
    /// that was never stamped.
    pub(super) fn stamps(&self, tenant: u8, samples: usize) -> Vec<Nanos> {
        let mut stamps = Vec::with_capacity(samples);
        // Without a stamp in the last run, those of the run before are still there.
        let has_begun = self.current.load(Ordering::Acquire) != 0;
        if let Some(column) = self.columns[usize::from(tenant)].get().filter(|_| has_begun) {
            for chunk in &column.0 {
                let left = (samples - stamps.len()).min(CHUNK_SAMPLES);
                if left == 0 {
                    break;
                }
                match chunk.get() {
                    Some(chunk) => {
                        let loaded = chunk[..left].iter().map(|at| at.load(Ordering::Relaxed));
                        stamps.extend(loaded);
                    }
                    None => stamps.resize(stamps.len() + left, 0),
                }
            }
        }
        stamps.resize(samples, 0);
        stamps
    }
}

impl Column {
    fn new() -> Self {
        Self((0..CHUNKS).map(|_| OnceLock::new()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_sees_its_own_stamps_alone() {
        let accepted = SampleTimes::new();
        accepted.stamp(ResponseId::new(1, 0, 3), 20);
        accepted.stamp(ResponseId::new(1, 0, 3), 30);
        accepted.stamp_first(ResponseId::new(1, 0, 3), 40);
        accepted.stamp(ResponseId::new(1, 2, 70_000), 0);
        assert_eq!(accepted.stamps(0, 5), [0, 0, 0, 30, 0]);
        assert_eq!(accepted.stamps(2, 70_001)[69_999..], [0, 1]);
        accepted.expect_run();
        assert_eq!(accepted.stamps(0, 5), [0; 5]);
        accepted.stamp(ResponseId::new(1, 0, 4), 40);
        accepted.stamp(ResponseId::new(2, 0, 1), 10);
        accepted.stamp(ResponseId::new(1, 0, 0), 50);
        assert_eq!(accepted.stamps(0, 5), [0, 10, 0, 0, 0]);
        assert_eq!(accepted.stamps(2, 70_001)[69_999..], [0, 0]);
        assert_eq!(accepted.stamps(9, 2), [0, 0]);
    }

    #[test]
    fn counts_of_a_sample_add_up() {
        let counts = SampleTimes::new();
        for more in [0, 1, 4] {
            counts.add(ResponseId::new(1, 0, 2), more);
        }
        assert_eq!(counts.stamps(0, 4), [0, 0, 5, 0]);
    }
}
