//! Parts of a run: the stages of its load, and the part in which latencies neither rise nor fall.

use serde::{Deserialize, Serialize};

use super::distributions::MetricDistribution;

/// Part of a run with its figures. The verdict covers the whole run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Window {
    /// `steady`, the stage of the load, such as `30s@2`, or a model
    pub name: String,
    /// its start, since the start of the run
    pub from_ns: u64,
    /// its end
    pub to_ns: u64,
    /// requests that are due in it
    pub requests: u64,
    /// requests that failed or were never answered
    pub lost: u64,
    /// these requests / its length
    pub offered_per_s: f64,
    /// requests answered within it / its length
    pub completed_per_s: f64,
    /// their output tokens / its length; null if a count is missing
    pub output_tokens_per_s: Option<f64>,
    /// times of the requests that are due in it
    pub distributions: Vec<MetricDistribution>,
}

impl Window {
    /// Returns the distribution of a metric, such as `ttft`; `None` if it was not measured.
    pub fn distribution(&self, metric: &str) -> Option<&MetricDistribution> {
        self.distributions.iter().find(|of| of.metric == metric)
    }
}

/// Values in a batch of the rule.
const BATCH: usize = 5;

/// Minimum number of batches.
const LEAST_BATCHES: usize = 20;

/// Returns the position of the first value of the steady part of a series; `None` if the series is too
/// short, or not steady in its second half.
///
/// The rule is MSER-5: the beginning is cut where the variance of the means of five values each, divided
/// by their number, is lowest. A cut in the second half shows that the series has no steady part.
///
/// Source: White, An effective truncation heuristic for bias reduction in simulation output, 1997.
pub fn steady_from(values: &[f64]) -> Option<usize> {
    let means: Vec<f64> =
        values.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    if means.len() < LEAST_BATCHES {
        return None;
    }
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    let mut best = (f64::INFINITY, means.len());
    for (at, value) in means.iter().enumerate().rev() {
        // Sums of the batches from `at` on, updated as in Welford's method.
        count += 1.0;
        let away = value - mean;
        mean += away / count;
        squares += away * (value - mean);
        let error = squares / (count * count);
        // The last batches are too few for a variance.
        if count >= BATCH as f64 && error <= best.0 {
            best = (error, at);
        }
    }
    (best.1 <= means.len() / 2).then_some(best.1 * BATCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise from -0.5 to 0.5 without a period.
    fn noise(n: usize) -> f64 {
        (n * 7_919 % 1_009) as f64 / 1_009.0 - 0.5
    }

    #[test]
    fn the_transient_at_the_beginning_is_cut() {
        for transient in [0, 50, 200] {
            let values: Vec<f64> = (0..1_000)
                .map(|n| {
                    let extra = if n < transient { 20.0 } else { 0.0 };
                    10.0 + extra + noise(n)
                })
                .collect();
            let from = steady_from(&values).unwrap();
            assert!(from >= transient && from <= transient + 150, "{transient}: {from}");
        }
    }

    #[test]
    fn a_series_that_rises_to_its_end_is_not_steady() {
        let rising: Vec<f64> = (0..1_000).map(|n| n as f64 + noise(n)).collect();
        assert_eq!(steady_from(&rising), None);
        assert_eq!(steady_from(&[1.0; 99]), None, "too short");
        assert_eq!(steady_from(&[1.0; 100]), Some(0));
    }
}
