//! Times at which the socket accepted each request.

use std::sync::atomic::{AtomicU64, Ordering};

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::sut::ResponseId;

use super::run_chunks::{Chunk, RunChunks};

/// The stamps of consecutive samples. All chunks of a tenant have a billion samples, the limit of a
/// run.
struct StampChunk(Box<[AtomicU64]>);

impl Chunk for StampChunk {
    /// Half a megabyte of stamps.
    const SAMPLES: usize = 1 << 16;

    fn empty() -> Self {
        Self((0..Self::SAMPLES).map(|_| AtomicU64::new(0)).collect())
    }

    fn clear(&self) {
        self.0.iter().for_each(|stamp| stamp.store(0, Ordering::Relaxed));
    }
}

/// Times of the samples of the current run: one store per request, without a lock.
pub(super) struct SampleTimes(RunChunks<StampChunk>);

impl SampleTimes {
    pub(super) fn new() -> Self {
        Self(RunChunks::new())
    }

    /// Lets the next sample of a run other than the last begin a new run.
    pub(super) fn expect_run(&self) {
        self.0.expect_run();
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
        self.0.chunk(id).map(|(chunk, place)| &chunk.0[place])
    }

    /// Returns the times of the first `samples` samples of a tenant in the last run; 0 for a sample
    /// that was never stamped.
    pub(super) fn stamps(&self, tenant: u8, samples: usize) -> Vec<Nanos> {
        let mut stamps = Vec::with_capacity(samples);
        if let Some(chunks) = self.0.tenant(tenant) {
            for chunk in chunks {
                let left = (samples - stamps.len()).min(StampChunk::SAMPLES);
                if left == 0 {
                    break;
                }
                match chunk.get() {
                    Some(chunk) => {
                        let loaded = chunk.0[..left].iter().map(|at| at.load(Ordering::Relaxed));
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
