//! How large the batches were.

use std::sync::{Arc, Mutex, PoisonError};

/// Counts batches by their size. Clones count into the same place, so that
/// whoever started a system can ask when it is gone.
#[derive(Debug, Clone, Default)]
pub struct Sizes(Arc<Mutex<Vec<u64>>>);

impl Sizes {
    /// Counts a batch of so many samples: one lock that hardly anybody else
    /// wants, beside the queue's own.
    pub(super) fn add(&self, size: usize) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if size >= counts.len() {
            counts.resize(size + 1, 0);
        }
        counts[size] += 1;
    }

    /// The sizes that were seen and how often, in ascending order; counting begins
    /// anew.
    #[must_use]
    pub fn take(&self) -> Vec<(u64, u64)> {
        let counts = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let sizes = (0..).zip(counts);
        sizes.filter(|(_, count)| *count > 0).collect()
    }
}
