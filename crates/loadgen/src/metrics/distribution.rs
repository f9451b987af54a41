//! Distribution of a list of times, computed by selection without sorting.

use crate::early_stopping::Estimate;

/// Percentiles of every distribution.
pub const PERCENTILES: [f64; 6] = [0.50, 0.90, 0.95, 0.97, 0.99, 0.999];

/// Distribution of a list of times, in ns.
///
/// Values are signed, because a time per output token is negative if a system reports no tokens.
/// All values are 0 if `count` is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Distribution {
    /// Number of times.
    pub count: u64,
    /// Smallest.
    pub min: i64,
    /// Largest.
    pub max: i64,
    /// Sum / count, truncated towards zero.
    pub mean: i64,
    /// Values at [`PERCENTILES`]: `sorted[floor(count * q)]`, without interpolation.
    pub percentiles: [i64; 6],
    /// Value at the plan's target percentile.
    pub target: i64,
}

/// Early-stopping estimates of one kind of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimates {
    /// Estimate at the plan's target percentile.
    pub target: Estimate,
    /// Estimate at the 99th percentile; SingleStream only.
    pub tail: Option<Estimate>,
}

/// Returns the distribution of `values`, which it reorders, and the estimates with their latencies.
pub(super) fn summarize(
    values: &mut [i64],
    target: f64,
    estimates: Option<Estimates>,
) -> (Distribution, Option<Estimates>) {
    let Some(&first) = values.first() else {
        return (Distribution::default(), estimates);
    };
    let (mut min, mut max, mut sum) = (first, first, 0_i128);
    for &value in values.iter() {
        min = min.min(value);
        max = max.max(value);
        sum += i128::from(value);
    }
    let count = values.len();
    let index = |q: f64| rank(count as u64, q) as usize;
    let rank_of = |estimate: &Estimate| -> Option<usize> {
        estimate.position().and_then(|position| usize::try_from(position).ok())
    };
    let mut ranks: Vec<usize> = PERCENTILES.iter().map(|&q| index(q)).collect();
    ranks.push(index(target));
    let tail = estimates.and_then(|e| e.tail);
    ranks.extend(estimates.iter().filter_map(|e| rank_of(&e.target)));
    ranks.extend(tail.iter().filter_map(rank_of));
    ranks.sort_unstable();
    ranks.dedup();
    if min < max {
        place(values, &ranks, 0);
    }

    let distribution = Distribution {
        count: count as u64,
        min,
        max,
        mean: i64::try_from(sum / count as i128).expect("a mean lies between minimum and maximum"),
        percentiles: PERCENTILES.map(|q| values[index(q)]),
        target: values[index(target)],
    };
    let filled = |estimate: Estimate| Estimate {
        latency: rank_of(&estimate).map_or(0, |at| values[at]),
        ..estimate
    };
    let estimates =
        estimates.map(|e| Estimates { target: filled(e.target), tail: e.tail.map(filled) });
    (distribution, estimates)
}

/// Returns the index of percentile `q` among `count` sorted values, as in the reference.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounding down")]
pub(crate) fn rank(count: u64, q: f64) -> u64 {
    ((count as f64 * q) as u64).min(count.saturating_sub(1))
}

/// Moves the value that sorting would put there to each of the ascending `ranks`. `values` is the
/// part of the list that starts at `offset`.
///
/// Splitting near the middle first halves the work for the other ranks.
fn place(values: &mut [i64], ranks: &[usize], offset: usize) {
    let middle = offset + values.len() / 2;
    let Some(chosen) = (0..ranks.len()).min_by_key(|&at| ranks[at].abs_diff(middle)) else {
        return;
    };
    let (below, _, above) = values.select_nth_unstable(ranks[chosen] - offset);
    place(below, &ranks[..chosen], offset);
    place(above, &ranks[chosen + 1..], ranks[chosen] + 1);
}
