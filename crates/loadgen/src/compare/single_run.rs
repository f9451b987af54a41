//! Confidence limits of the figures of a single run. They cover the variation within the run, but
//! not the variation between runs.
//!
//! ```
//! use dyno_loadgen::compare::single_run::percentile;
//!
//! let latencies: Vec<u64> = (0..1_000).map(|query| 1_000 + query * 7_919 % 1_000).collect();
//! let factors = percentile(&latencies, 0.5, 0.05).unwrap();
//! assert!(factors.low < 1.0 && 1.0 < factors.high && factors.high < 1.1);
//! ```

use super::within::{DataShortage, mean_gap, percentiles};
use crate::clock::Nanos;

/// Factors of a figure: with confidence `1 - risk` the true value lies between the figure times
/// `low` and the figure times `high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factors {
    /// Lower factor, in (0, 1].
    pub low: f64,
    /// Upper factor, at least 1; infinite if the run has no upper limit.
    pub high: f64,
}

/// Returns the factors of percentile `p` of these latencies, which are in the order of the run.
///
/// # Errors
/// If there are too few latencies.
pub fn percentile(latencies: &[Nanos], p: f64, risk: f64) -> Result<Factors, DataShortage> {
    let [estimate, _] = percentiles([latencies, latencies], p, risk)?;
    Ok(Factors { low: (-estimate.below).exp(), high: estimate.above.exp() })
}

/// Returns the factors of the rate of these completions, from the mean time between them.
/// `completed` is in ns since the start, ascending.
///
/// # Errors
/// If there are too few completions.
pub fn rate(completed: &[Nanos], risk: f64) -> Result<Factors, DataShortage> {
    rate_in_rounds(completed, 1, risk)
}

/// Returns the factors of the rate of a closed loop with this many queries in flight, from the mean
/// time of its rounds. `completed` is in ns since the start, ascending, up to the last issue.
///
/// # Errors
/// If there are too few completions, or too few rounds of them.
pub fn rate_in_rounds(
    completed: &[Nanos],
    in_flight: usize,
    risk: f64,
) -> Result<Factors, DataShortage> {
    let between: Vec<Nanos> =
        completed.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    let gap = mean_gap(&between, in_flight, risk)?;
    // Longer times are a lower rate.
    Ok(Factors { low: (-gap.above).exp(), high: gap.below.exp() })
}

/// Distance of limits with 95 % confidence from the mean, in standard deviations.
pub const DEVIATIONS: f64 = 1.959_963_984_540_054;

/// Returns the limits of the share `value` of independent `trials` (> 0), `deviations` standard
/// deviations away.
///
/// Source: Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
pub fn wilson(value: f64, trials: f64, deviations: f64) -> (f64, f64) {
    let square = deviations.powi(2) / trials;
    let middle = (value + square / 2.0) / (1.0 + square);
    let reach = (square * (value * (1.0 - value) + square / 4.0)).sqrt() / (1.0 + square);
    // Shares of 0 and 1 exactly: rounding would leave a small difference.
    let low = if value == 0.0 { 0.0 } else { (middle - reach).max(0.0) };
    let high = if value == 1.0 { 1.0 } else { (middle + reach).min(1.0) };
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Mt19937;

    const RISK: f64 = 0.05;
    const TRIALS: u32 = 400;
    /// Minimum number of covering intervals: with 95 % coverage, fewer of 400 have a probability of
    /// 0.001.
    const COVERED_FEWEST: u32 = 365;

    /// Exponential times with a mean of 1 ms; each is the one before with this
    /// probability, so that neighbours resemble each other.
    fn times(seed: u64, count: usize, sticky: f64) -> Vec<Nanos> {
        let mut rng = Mt19937::new(seed);
        let mut last = 0;
        let unit = |rng: &mut Mt19937| (f64::from(rng.next_u32()) + 0.5) / 4_294_967_296.0;
        let mut next = || {
            if last == 0 || unit(&mut rng) >= sticky {
                last = (-unit(&mut rng).ln() * 1e6).round() as Nanos + 1;
            }
            last
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn limits_cover_the_truth_as_often_as_they_say() {
        for sticky in [0.0, 0.8] {
            let (mut percentiles, mut rates) = (0, 0);
            for seed in 0..TRIALS {
                let times = times(seed.into(), 4_000, sticky);
                let mut sorted = times.clone();
                sorted.sort_unstable();
                let found = sorted[3_600] as f64;
                let limits = percentile(&times, 0.9, RISK).unwrap();
                // p90 of an exponential is ln 10 means.
                let truth = 1e6 * 10_f64.ln();
                percentiles +=
                    u32::from((found * limits.low..=found * limits.high).contains(&truth));
                let completed: Vec<Nanos> = times
                    .iter()
                    .scan(0, |now, gap| {
                        *now += gap;
                        Some(*now)
                    })
                    .collect();
                let limits = rate(&completed, RISK).unwrap();
                let found = 3_999e9 / (completed[3_999] - completed[0]) as f64;
                rates += u32::from((found * limits.low..=found * limits.high).contains(&1_000.0));
            }
            assert!(percentiles >= COVERED_FEWEST, "sticky {sticky}: {percentiles} percentiles");
            assert!(rates >= COVERED_FEWEST, "sticky {sticky}: {rates} rates");
        }
    }

    #[test]
    fn a_share_without_events_has_the_limit_of_wilson() {
        // z^2 / (n + z^2) with z = 1.96: 3.8415 / 4,003.8415.
        let (low, high) = wilson(0.0, 4_000.0, DEVIATIONS);
        assert!(low == 0.0 && (high - 0.000_959_45).abs() < 1e-8, "{low} {high}");
    }

    #[test]
    fn rounds_of_equal_latency_have_a_certain_rate() {
        // 8 in flight for 1 s each, complete together.
        let rounds = |count: u64| -> Vec<Nanos> { (0..8 * count).map(|n| n / 8 * 1_000).collect() };
        let found = rate_in_rounds(&rounds(20), 8, RISK).unwrap();
        assert!((found.low - 1.0).abs() < 1e-12 && (found.high - 1.0).abs() < 1e-12, "{found:?}");
        assert!(rate_in_rounds(&rounds(10), 8, RISK).is_err(), "79 times are too few");
        // 64 in flight: 5 rounds are too few, however many answers they have.
        let wide: Vec<Nanos> = (0..320).map(|n| n / 64 * 1_000).collect();
        assert!(rate_in_rounds(&wide, 64, RISK).is_err());
    }

    #[test]
    fn a_short_run_says_nothing() {
        assert!(percentile(&[1; 99], 0.9, RISK).is_err());
        assert!(rate(&[], RISK).is_err());
    }
}
