//! The order of runs of two sides that are played in turn, and which slices form one observation.
//!
//! A run may be played in slices. Four slices in the order A B B A, or B A A B, are one
//! observation: the two slices of each side are pooled, so that a steady drift of the machine
//! affects both sides equally. The order of each observation is random. Any remaining effect of the
//! machine therefore has a random sign, and observations of equal systems are uncorrelated, however
//! slowly or regularly the machine changes.

use super::Run;
use crate::rng::Mt19937;

/// Number of sides: baseline and candidate.
const SIDES: usize = 2;

/// Slices per side in one observation.
const POOLED: usize = 2;

/// Returns the side (0 or 1) of each run of pair `pair`, in the order in which they
/// are played. With one slice a side the pairs are A B, B A, A B, and so on.
///
/// # Panics
/// If `slices`, those of one side, are neither 1 nor even.
pub fn order(pair: usize, slices: usize, seed: u64) -> Vec<usize> {
    if slices == 1 {
        return if pair.is_multiple_of(2) { vec![0, 1] } else { vec![1, 0] };
    }
    assert!(slices > 0 && slices.is_multiple_of(POOLED), "{slices} slices");
    // Each pair has its own generator, so that a comparison can be resumed at any pair.
    let mut random = Mt19937::new(seed.wrapping_mul(PAIRS_OF_SEED).wrapping_add(pair as u64));
    let mut four = |_| match random.bounded(2) {
        0 => [0, 1, 1, 0],
        _ => [1, 0, 0, 1],
    };
    (0..slices / POOLED).flat_map(&mut four).collect()
}

/// Seeds reserved per comparison: more than it has pairs.
const PAIRS_OF_SEED: u64 = 1 << 20;

/// Returns the position of a slice among all runs: slice `slice` of `side` in pair `pair`.
///
/// # Panics
/// If `slices`, those of one side, are neither 1 nor even.
pub fn position(pair: usize, side: usize, slice: usize, slices: usize, seed: u64) -> f64 {
    let sides = order(pair, slices, seed);
    let mut places = (0..sides.len()).filter(|&at| sides[at] == side);
    let within = places.nth(slice).unwrap_or(0);
    (pair * SIDES * slices + within) as f64
}

/// Returns the observations of one side of a pair, from its slices in order.
pub fn observations(slices: &[Run]) -> Vec<Run> {
    slices.chunks(POOLED).map(Run::pool).collect()
}

/// Returns the number of observations of a pair.
pub fn observations_per_pair(slices: usize) -> usize {
    slices.div_ceil(POOLED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_drift_falls_on_both_sides_of_each_observation_alike() {
        for (pair, slices) in [(0, 2), (3, 4), (7, 8)] {
            for observation in 0..observations_per_pair(slices) {
                let sum = |side: usize| -> f64 {
                    let place = |i: usize| position(pair, side, 2 * observation + i, slices, 5);
                    place(0) + place(1)
                };
                assert!((sum(0) - sum(1)).abs() < 1e-9, "{pair} {slices}");
            }
        }
    }

    #[test]
    fn both_orders_come_about_as_often_and_each_run_has_a_place_of_its_own() {
        let begins = (0..400).filter(|&pair| order(pair, 2, 1)[0] == 0).count();
        // 6 standard deviations of a fair coin.
        assert!((140..=260).contains(&begins), "{begins}");
        let mut places: Vec<u64> = Vec::new();
        for pair in 0..3 {
            for run in 0..16 {
                places.push(position(pair, run / 8, run % 8, 8, 9) as u64);
            }
        }
        places.sort_unstable();
        assert!(places.iter().copied().eq(0..48), "{places:?}");
    }

    #[test]
    fn without_slices_pairs_take_turns() {
        let sides: Vec<usize> = (0..5).flat_map(|pair| order(pair, 1, 3)).collect();
        assert_eq!(sides, [0, 1, 1, 0, 0, 1, 1, 0, 0, 1]);
        let sum = |side| (0..4).map(|pair| position(pair, side, 0, 1, 3)).sum::<f64>();
        assert!((sum(0) - sum(1)).abs() < 1e-9);
    }
}
