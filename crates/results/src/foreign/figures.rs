//! Figures of a result, by the names of `dyno compare --metric`.

use std::collections::BTreeMap;

use crate::summary::metrics::Distribution;
use crate::summary::{Metrics, Test};

/// Figures by name: `p99`, `mean`, `ttft-p99`, `tpot-mean`, ... in ns, `throughput` per second, and
/// `failures` as a share in [0, 1].
pub type Figures = BTreeMap<String, f64>;

/// Returns the figures of a test of Dyno.
pub fn of_summary(test: &Test) -> Figures {
    let mut figures = Figures::new();
    let Some(metrics) = &test.metrics else { return figures };
    add(&mut figures, "", Some(metrics.timed()));
    add(&mut figures, "ttft-", metrics.first_token_ns.as_ref());
    add(&mut figures, "tpot-", metrics.time_per_output_token_ns.as_ref());
    figures.insert("failures".into(), metrics.error_rate);
    figures.extend(throughput(metrics).map(|rate| ("throughput".into(), rate)));
    figures
}

fn throughput(metrics: &Metrics) -> Option<f64> {
    let rates = &metrics.rates;
    let samples = rates.completed_samples_per_s.or(rates.samples_per_s);
    samples.or(rates.queries_per_s_with_overhead)
}

fn add(figures: &mut Figures, of: &str, distribution: Option<&Distribution>) {
    let Some(d) = distribution.filter(|d| d.count > 0) else { return };
    let values = [
        ("mean", d.mean),
        ("p50", d.p50),
        ("p90", d.p90),
        ("p95", d.p95),
        ("p99", d.p99),
        ("p99.9", d.p99_9),
    ];
    figures.extend(values.map(|(name, value)| (format!("{of}{name}"), value as f64)));
}
