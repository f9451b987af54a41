//! Counts of batch sizes.

use std::sync::{Arc, Mutex, PoisonError};

/// Number of batches of each size. Clones share the counts, so that the caller can read them after
/// the system is dropped.
///
/// ```
/// use dyno_sut::batch::{BatchSizes, Batcher, Policy};
///
/// let sizes = BatchSizes::default();
/// let mut batcher = Batcher::new(Policy { max_size: 8.try_into().expect("not 0"), max_wait: 0 });
/// batcher.record_sizes(sizes.clone());
/// batcher.push(0, 'a');
/// batcher.push(0, 'b');
/// batcher.take(0, &mut Vec::new());
/// assert_eq!(sizes.take(), [(2, 1)]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct BatchSizes(Arc<Mutex<Vec<u64>>>);

impl BatchSizes {
    /// Counts a batch. The lock is almost never contended: workers take it while they hold the lock
    /// of the queue.
    pub(super) fn add(&self, size: usize) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if size >= counts.len() {
            counts.resize(size + 1, 0);
        }
        counts[size] += 1;
    }

    /// Returns the sizes and their counts, by ascending size, and resets the counts.
    #[must_use]
    pub fn take(&self) -> Vec<(u64, u64)> {
        let counts = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let sizes = (0..).zip(counts);
        sizes.filter(|(_, count)| *count > 0).collect()
    }
}
