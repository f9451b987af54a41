//! Metrics of requests to a server of texts, each with its distribution.

use serde::{Deserialize, Serialize};

/// One metric with its distribution. Percentiles are `sorted[floor(count * q)]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetricDistribution {
    /// `ttft`, `tpot`, `itl`, `e2el`, `requests_per_s`, `images_per_s`, `input_tokens_per_s`,
    /// `output_tokens_per_s`, `input_tokens` or `output_tokens`
    pub metric: String,
    /// `ns`, `1/s` or `tokens`
    pub unit: String,
    /// values; of rates the seconds of the run, the last of which may be longer
    pub count: u64,
    /// mean; of rates over the whole run
    pub mean: f64,
    /// standard deviation of the values; null if only the mean is known, like the next two
    pub std: Option<f64>,
    /// smallest value
    pub min: Option<f64>,
    /// largest value
    pub max: Option<f64>,
    /// percentiles of `--metric-percentiles`; empty if only the mean is known, or if
    /// `--percentile-metrics` excludes the metric
    pub percentiles: Vec<Percentile>,
}

impl MetricDistribution {
    /// Returns a percentile, such as 99.0; `None` if it was not measured.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        self.percentiles.iter().find(|at| at.percent == percent).map(|at| at.value)
    }
}

/// Returns whether a percentile of so many values is only the largest one.
///
/// ```
/// use dyno_results::summary::distributions::is_only_largest;
///
/// assert!(is_only_largest(32, 99.0));
/// assert!(!is_only_largest(32, 90.0));
/// ```
pub fn is_only_largest(values: u64, percent: f64) -> bool {
    percent > 50.0 && (values as f64 * (1.0 - percent / 100.0)) < 1.0 - 1e-9
}

/// A percentile of a metric.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Percentile {
    /// in percent
    pub percent: f64,
    /// in the unit of the metric
    pub value: f64,
}

/// Percentiles that are shown, and of which metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Percentiles {
    /// In percent, ascending.
    pub percents: Vec<f64>,
    /// Names of metrics among [`TIMES`]; `None` means all.
    pub metrics: Option<Vec<String>>,
}

/// Metrics that `--percentile-metrics` can name.
pub const TIMES: [&str; 4] = ["ttft", "tpot", "itl", "e2el"];

impl Default for Percentiles {
    fn default() -> Self {
        Self { percents: vec![50.0, 90.0, 99.0], metrics: None }
    }
}

impl Percentiles {
    /// Returns the distribution of values with the number of times that each occurs; `None` without
    /// values.
    pub fn distribution(
        &self,
        metric: &str,
        unit: &str,
        mut values: Vec<(f64, u64)>,
    ) -> Option<MetricDistribution> {
        values.retain(|(_, times)| *times > 0);
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (min, max) = (values.first()?.0, values.last()?.0);
        let count: u64 = values.iter().map(|(_, times)| times).sum();
        let sum = |of: &dyn Fn(f64) -> f64| -> f64 {
            values.iter().map(|(value, times)| of(*value) * *times as f64).sum()
        };
        let mean = sum(&|value| value) / count as f64;
        let variance = sum(&|value| (value - mean).powi(2)) / count as f64;
        let at = |percent: f64| {
            let rank = ((count as f64 * percent / 100.0) as u64).min(count - 1);
            let mut seen = 0;
            let found = values.iter().find(|(_, times)| {
                seen += times;
                seen > rank
            });
            Percentile { percent, value: found.map_or(max, |(value, _)| *value) }
        };
        let is_wanted = !TIMES.contains(&metric)
            || self.metrics.as_ref().is_none_or(|named| named.iter().any(|name| name == metric));
        let percents = self.percents.iter().copied().filter(|_| is_wanted);
        Some(MetricDistribution {
            metric: metric.into(),
            unit: unit.into(),
            count,
            mean,
            std: Some(variance.sqrt()),
            min: Some(min),
            max: Some(max),
            percentiles: percents.map(at).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_of_counted_values_is_that_of_the_list() {
        let percentiles = Percentiles { percents: vec![25.0, 50.0, 99.9], metrics: None };
        let values = vec![(4.0, 1), (2.0, 3), (9.0, 1), (5.0, 2), (7.0, 1), (1.0, 0)];
        let found = percentiles.distribution("e2el", "ns", values).unwrap();
        // 2 2 2 4 5 5 7 9: mean 4.5, squared deviations 46.
        assert_eq!((found.count, found.mean, found.min), (8, 4.5, Some(2.0)));
        assert!((found.std.unwrap() - (46.0_f64 / 8.0).sqrt()).abs() < 1e-12);
        let at: Vec<f64> = found.percentiles.iter().map(|found| found.value).collect();
        assert_eq!(at, [2.0, 5.0, 9.0]);
        assert_eq!(percentiles.distribution("e2el", "ns", Vec::new()), None);
    }

    #[test]
    fn only_named_times_have_percentiles() {
        let named = Some(vec!["ttft".to_owned()]);
        let percentiles = Percentiles { metrics: named, ..Percentiles::default() };
        let count = |metric| {
            let found = percentiles.distribution(metric, "ns", vec![(1.0, 1)]);
            found.unwrap().percentiles.len()
        };
        assert_eq!((count("ttft"), count("e2el"), count("output_tokens")), (3, 0, 3));
    }
}
