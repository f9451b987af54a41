//! Which samples of a run are due in the ramp before its measured part.

use std::collections::HashSet;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::clock::Nanos;
use crate::sync::{AtomicU64, Mutex};

/// The samples of a ramp. Queries have one sample each.
#[derive(Debug)]
pub(crate) struct RampSamples {
    /// Length of the ramp, ns.
    length: Nanos,
    /// Sequence number of the first measured sample; `u64::MAX` before it is issued.
    first_measured: AtomicU64,
    /// Samples of the ramp that were issued after that one, such as turns that waited for an answer.
    later: Mutex<HashSet<u64>>,
    /// Number of the samples in `later`.
    later_count: AtomicU64,
}

impl RampSamples {
    /// Returns the samples of a ramp of `length` ns.
    pub(crate) fn new(length: Nanos) -> Self {
        Self {
            length,
            first_measured: AtomicU64::new(u64::MAX),
            later: Mutex::default(),
            later_count: AtomicU64::new(0),
        }
    }

    /// Notes a sample with its due time, before it is issued.
    pub(crate) fn note(&self, sequence: u64, due: Nanos) {
        if due >= self.length {
            self.first_measured.fetch_min(sequence, Ordering::Relaxed);
        } else if sequence > self.first_measured.load(Ordering::Relaxed) {
            self.later.lock().unwrap_or_else(PoisonError::into_inner).insert(sequence);
            self.later_count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns whether a sample is measured, as [`Record::exclude`](crate::record::Record) decides
    /// after the run.
    #[inline]
    pub(crate) fn is_measured(&self, sequence: u64) -> bool {
        sequence >= self.first_measured.load(Ordering::Relaxed)
            && (self.later_count.load(Ordering::Relaxed) == 0
                || !self.later.lock().unwrap_or_else(PoisonError::into_inner).contains(&sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_measured_by_their_due_time_in_any_order() {
        let ramp = RampSamples::new(100);
        // The last sample of the ramp is issued after a measured one.
        let due = [0, 99, 100, 60, 101];
        for (sequence, &due) in (0..).zip(&due) {
            ramp.note(sequence, due);
            assert_eq!(ramp.is_measured(sequence), due >= 100, "{due}");
        }
        let found: Vec<bool> = (0..5).map(|sequence| ramp.is_measured(sequence)).collect();
        assert_eq!(found, due.map(|due| due >= 100));
    }
}
