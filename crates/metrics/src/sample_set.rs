//! Set of the samples that were answered.

use std::collections::HashSet;

/// Samples below this limit take a bit each, at most 16 MiB in all; others take an entry of a set.
const LOW: u64 = 1 << 27;

/// A set of samples.
#[derive(Debug, Default)]
pub struct SampleSet {
    low: Vec<u64>,
    high: HashSet<u64>,
}

impl SampleSet {
    /// Adds a sample and returns whether it is new.
    pub fn insert(&mut self, index: u64) -> bool {
        if index >= LOW {
            return self.high.insert(index);
        }
        let (word, bit) = ((index / 64) as usize, 1 << (index % 64));
        if word >= self.low.len() {
            self.low.resize(word + 1, 0);
        }
        let is_new = self.low[word] & bit == 0;
        self.low[word] |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_new_once_wherever_it_lies() {
        let mut seen = SampleSet::default();
        for index in [0, 1, 63, 64, LOW - 1, LOW, u64::MAX] {
            assert!(seen.insert(index), "{index}");
            assert!(!seen.insert(index), "{index}");
        }
    }
}
