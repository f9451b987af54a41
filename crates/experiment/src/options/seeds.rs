//! Seeds of what a run draws at random.
//!
//! Generators with one seed draw the same numbers. If service times had the seed of the arrivals, a
//! long service would always come before a long gap, and no queue would form. Each use therefore has
//! a seed of its own.

use dyno_loadgen::plan::Seeds;

use super::RunOptions;

/// What a run draws at random besides the arrivals. Those have the seed that was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RandomStream {
    /// Order in which samples are loaded.
    SampleOrder = 1,
    /// Choice of the sample of each query.
    SampleChoice,
    /// Service times, token counts and faults of a simulated system.
    System,
    /// Values of random inputs.
    Inputs,
    /// Lengths and words of prompts.
    Prompts,
    /// Lengths and pauses of sessions and sequences.
    Sessions,
    /// Models of requests.
    Models,
    /// Requests to cancel.
    Cancellations,
}

impl RandomStream {
    /// Returns the seed of the stream for a seed that a user gave.
    ///
    /// It has 32 bits, as many as the generator uses. Source of the mixture: the finalizer of
    /// SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
    #[must_use]
    pub fn seed(self, given: u64) -> u64 {
        const GOLDEN_RATIO: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut bits = given.wrapping_add((self as u64).wrapping_mul(GOLDEN_RATIO));
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ (bits >> 31)) >> 32
    }

    /// Returns `seed`, or another one if a generator of the load has the same.
    #[must_use]
    pub fn apart_from(self, seed: u64, load: &Seeds) -> u64 {
        // The generator uses 32 bits. The next seed is that of the faults.
        let is_same = |other: u64| {
            let distance = (other as u32).wrapping_sub(seed as u32);
            distance <= 1
        };
        if [load.qsl, load.sample_index, load.schedule].into_iter().any(is_same) {
            self.seed(seed)
        } else {
            seed
        }
    }
}

impl RunOptions {
    /// Returns the seed of a stream: 0 unless `--seed` was given.
    #[must_use]
    pub fn seed_of(&self, stream: RandomStream) -> u64 {
        self.seed.map_or(0, |seed| stream.seed(seed))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_stream_has_the_seed_of_the_arrivals_or_of_another() {
        use RandomStream::{
            Cancellations, Inputs, Models, Prompts, SampleChoice, SampleOrder, Sessions, System,
        };
        let streams =
            [SampleOrder, SampleChoice, System, Inputs, Prompts, Sessions, Models, Cancellations];
        for given in (0..1_000).chain([u64::MAX, 16_159_082_839_903_944_936]) {
            let mut seeds: BTreeSet<u32> = streams.map(|stream| stream.seed(given) as u32).into();
            assert!(seeds.insert(given as u32), "{given}");
            assert_eq!(seeds.len(), streams.len() + 1, "{given}");
        }
    }

    #[test]
    fn a_seed_that_the_load_has_is_replaced() {
        let load = Seeds { qsl: 7, sample_index: 8, schedule: 1 << 32, accuracy_log: 0 };
        let apart = |seed| RandomStream::System.apart_from(seed, &load);
        assert_eq!(apart(5), 5);
        // 0 in the low 32 bits, and faults with the seed 7.
        assert_ne!([apart(0), apart(6)], [0, 6]);
    }
}
