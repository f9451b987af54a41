//! Selects the samples of a set at random. Equal seeds select equal samples.

use dyno_loadgen::rng::split_mix;

/// Draws a share of `count` samples and returns their indices in ascending order. Each sample has
/// the same probability, and at least one is drawn. SPEC A22 asks for shares from 0.1 to 0.5.
///
/// ```
/// use dyno_number::tune::samples::draw;
/// let small = draw(1_000, 0.1, 7);
/// assert_eq!(small.len(), 100);
/// assert_eq!(small, draw(1_000, 0.1, 7));
/// ```
///
/// # Panics
/// If there are no samples, or the share is not in (0, 1].
pub fn draw(count: usize, share: f64, seed: u64) -> Vec<usize> {
    assert!(count > 0, "there are samples");
    assert!(share > 0.0 && share <= 1.0, "a share of them");
    let wanted = ((count as f64 * share).round() as usize).clamp(1, count);
    let mut all: Vec<usize> = (0..count).collect();
    let mut state = seed;
    for at in 0..wanted {
        let other = at + below(&mut state, (count - at) as u64) as usize;
        all.swap(at, other);
    }
    all.truncate(wanted);
    all.sort_unstable();
    all
}

/// Splits the samples of closed mode into those of the first pass and the rest. Formats are chosen
/// by both parts and by nothing else.
///
/// # Panics
/// If there are fewer than two samples, or the share is not in (0, 1).
pub fn split(count: usize, share: f64, seed: u64) -> [Vec<usize>; 2] {
    assert!(count > 1 && share < 1.0, "both parts have samples");
    let mut first = draw(count, share, seed);
    first.truncate(count - 1);
    let rest = (0..count).filter(|at| first.binary_search(at).is_err()).collect();
    [first, rest]
}

/// Shuffles indices. Equal seeds lead to equal orders.
pub fn shuffle(indices: &mut [usize], seed: u64) {
    let mut state = seed;
    for at in (1..indices.len()).rev() {
        let other = below(&mut state, at as u64 + 1) as usize;
        indices.swap(at, other);
    }
}

/// Returns a random number below `limit`, each with the same probability.
fn below(state: &mut u64, limit: u64) -> u64 {
    // Numbers from `fair` on would make small results more frequent.
    let fair = u64::MAX - u64::MAX % limit;
    loop {
        let number = split_mix(state);
        if number < fair {
            return number % limit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SPEC A22: drawn by a seed, uniform and without repeats; equal seeds draw equal sets.
    #[test]
    fn a22_the_small_set_is_drawn_by_a_seed() {
        let small = draw(1_000, 0.1, 7);
        assert_eq!(small.len(), 100);
        assert!(small.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(small, draw(1_000, 0.1, 7));
        assert_ne!(small, draw(1_000, 0.1, 8));
        // Each of ten samples is in half of the draws: 1,000 +- 5 standard deviations of 22.4.
        let mut counts = [0_u32; 10];
        (0..2_000).flat_map(|seed| draw(10, 0.5, seed)).for_each(|at| counts[at] += 1);
        assert!(counts.iter().all(|count| count.abs_diff(1_000) < 112), "{counts:?}");
    }

    #[test]
    fn the_inner_split_has_each_sample_once() {
        let [small, rest] = split(500, 0.25, 3);
        assert_eq!((small.len(), rest.len()), (125, 375));
        let mut all = [small, rest].concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..500));
        assert_eq!(split(2, 0.99, 1).map(|part| part.len()), [1, 1]);
    }
}
