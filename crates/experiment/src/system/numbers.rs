//! Samples without data.

use std::sync::Arc;

use dyno_loadgen::qsl::SampleLibrary;

/// A data set whose samples are only their numbers.
pub struct Numbers {
    /// Number of samples.
    pub count: usize,
}

impl Numbers {
    /// Returns a data set of this many samples.
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { count })
    }
}

impl SampleLibrary for Numbers {
    fn name(&self) -> &str {
        "numbers"
    }

    fn total_sample_count(&self) -> usize {
        self.count
    }
}
