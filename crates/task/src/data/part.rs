//! Samples that are made: which for training, and which to measure with.

use dyno_loadgen::rng::Mt19937;

/// Which samples of a data set that is made of seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Those that a model was trained with.
    Training,
    /// The sample library.
    Test,
}

impl Part {
    /// The random numbers of which sample `number` is made; no sample of another part has
    /// the same.
    pub(crate) fn random(self, number: u64) -> Mt19937 {
        Mt19937::new(match self {
            Self::Training => 2 * number + 1,
            Self::Test => 2 * number,
        })
    }
}
