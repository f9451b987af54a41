//! Parts of generated data sets.

use dyno_loadgen::rng::Mt19937;

/// Part of a data set that is generated from seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Samples for training.
    Training,
    /// Samples of the sample library.
    Test,
}

impl Part {
    /// Returns the random numbers from which sample `number` is generated; no sample of the other
    /// part has the same seed.
    pub(crate) fn random(self, number: u64) -> Mt19937 {
        Mt19937::new(match self {
            Self::Training => 2 * number + 1,
            Self::Test => 2 * number,
        })
    }
}
