//! Early stopping: how many queries a run needs before a percentile is certain.
//!
//! ```
//! use dyno_loadgen::early_stopping::{Look, Params, largest_overlatency, look};
//!
//! let params = Params::rules(0.99);
//! assert_eq!(look(458, 0, &params), Look::Further(1));
//! assert_eq!(look(459, 0, &params), Look::Met);
//! assert_eq!(largest_overlatency(459, &params), Some(0));
//! ```
//!
//! A query is either over its bound or not, so the count of over-latency
//! queries in a run is binomial. Let the system be exactly on the boundary: a
//! share `x = percentile - tolerance` of its queries meets the bound. A run with
//! `t` over-latency queries passes if so few of them are less likely than
//! `1 - confidence` on that boundary. [`minimum_underlatency`] is the number of
//! good queries that this takes.
//!
//! Only one look at the data is worth the stated confidence. A run that is
//! extended until the criterion holds (the `Extend` policy) passes on the
//! boundary several times as often; `examples/repeated_looks.rs` measures how often.
//!
//! Sources: the appendix on early stopping of the MLPerf inference rules; C.
//! Loader, "Fast and Accurate Computation of Binomial Probabilities" (2000).

use std::f64::consts::TAU;

use crate::settings::EarlyStopping;

/// Early-stopping criterion of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Criterion {
    /// When it is evaluated.
    pub policy: EarlyStopping,
    /// Confidence, in (0, 1).
    pub confidence: f64,
    /// Tolerance, in [0, percentile).
    pub tolerance: f64,
}

/// Parameters of the criterion for one percentile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Params {
    /// The share of queries that must meet the bound, in (0, 1).
    pub percentile: f64,
    /// Confidence, in (0, 1); 0.99 in the rules.
    pub confidence: f64,
    /// Tolerance, in [0, percentile); 0 in the rules.
    pub tolerance: f64,
}

impl Params {
    /// Returns the parameters of the rules: confidence 99 % without tolerance.
    pub fn rules(percentile: f64) -> Self {
        Self { percentile, confidence: 0.99, tolerance: 0.0 }
    }

    /// Returns the parameters of a plan's criterion for this percentile.
    pub fn new(criterion: &Criterion, percentile: f64) -> Self {
        let &Criterion { confidence, tolerance, .. } = criterion;
        Self { percentile, confidence, tolerance }
    }

    /// Returns the probability that a query is over its bound, for a system on the boundary.
    fn over_probability(&self) -> f64 {
        1.0 - (self.percentile - self.tolerance)
    }

    /// Returns whether `over` of `queries` over the bound are too few for chance alone.
    fn rejects_boundary(&self, queries: u64, over: u64) -> bool {
        at_most(over, queries, self.over_probability()) < 1.0 - self.confidence
    }
}

/// Result of a look at a run in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// The criterion holds.
    Met,
    /// It would hold after this many further queries (> 0) if all of them met
    /// the bound.
    Further(u64),
}

/// Evaluates `decided` queries of which `over` were over the bound.
///
/// SingleStream and MultiStream have no bound. They need enough queries to discard one, and
/// therefore use `over = 1`.
pub fn look(decided: u64, over: u64, params: &Params) -> Look {
    match minimum_queries(over, params).saturating_sub(decided) {
        0 => Look::Met,
        further => Look::Further(further),
    }
}

/// Returns the smallest number of queries at which a run with `over` over-latency queries passes.
pub fn minimum_queries(over: u64, params: &Params) -> u64 {
    minimum_underlatency(over, params).saturating_add(over)
}

/// Returns the smallest number of under-latency queries at which a run with `over` over-latency
/// queries passes; `u64::MAX` if none is enough (a percentile or confidence of 1).
///
/// Costs O(log h) binomial sums, each of O(sqrt h) terms.
pub fn minimum_underlatency(over: u64, params: &Params) -> u64 {
    // Counts stay exact in f64 up to here; no run is longer.
    const NEVER: u64 = 1 << 52;
    let passes = |under: u64| params.rejects_boundary(under.saturating_add(over), over);
    if passes(0) {
        return 0;
    }
    let (mut fails, mut reach) = (0, 1);
    while !passes(reach) {
        (fails, reach) = (reach, reach * 2);
        if reach > NEVER {
            return u64::MAX;
        }
    }
    while reach - fails > 1 {
        let middle = fails + (reach - fails) / 2;
        if passes(middle) {
            reach = middle;
        } else {
            fails = middle;
        }
    }
    reach
}

/// Returns the largest number of over-latency queries with which a run of `queries` passes; `None`
/// if it is too short to pass at all.
///
/// Costs O(log n) binomial sums. For a fixed `n`, `n >= h_min(t) + t` is equivalent to "t or fewer
/// are less likely than 1 - confidence".
pub fn largest_overlatency(queries: u64, params: &Params) -> Option<u64> {
    if !params.rejects_boundary(queries, 0) {
        return None;
    }
    let (mut passes, mut fails) = (0, queries + 1);
    while fails - passes > 1 {
        let middle = passes + (fails - passes) / 2;
        if params.rejects_boundary(queries, middle) {
            passes = middle;
        } else {
            fails = middle;
        }
    }
    Some(passes)
}

/// Returns the probability that a system on the boundary passes after exactly `queries` queries. It
/// is below `1 - confidence` for one look, by construction.
pub fn false_pass_rate(queries: u64, params: &Params) -> f64 {
    largest_overlatency(queries, params)
        .map_or(0.0, |over| at_most(over, queries, params.over_probability()))
}

/// Conservative estimate of a latency percentile from one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Estimated percentile, in (0, 1).
    pub percentile: f64,
    /// Number of processed queries (or samples).
    pub processed: u64,
    /// Minimum number of queries: enough to pass with one over the bound.
    pub needed: u64,
    /// Rank of the estimate among the latencies in descending order (>= 1); `None` if too few
    /// queries were processed.
    pub rank: Option<u64>,
    /// Estimated latency, ns; 0 without a rank, as shown in the logs.
    pub latency: i64,
}

impl Estimate {
    /// Returns an estimate with the rank for a run of `processed` queries; its latency is not set
    /// yet.
    pub fn for_count(processed: u64, params: &Params) -> Self {
        Self {
            percentile: params.percentile,
            processed,
            needed: minimum_queries(1, params),
            rank: largest_overlatency(processed, params).filter(|&rank| rank >= 1),
            latency: 0,
        }
    }

    /// Returns the position of the estimate among the latencies in ascending order.
    pub fn position(&self) -> Option<u64> {
        self.rank.map(|rank| self.processed - rank)
    }
}

/// Returns the query count of the rules for a percentile in (0, 1), before rounding up.
///
/// With this count the margin of error of the percentile, at 99 % confidence, is one twentieth of
/// the distance to 1: `z^2 p (1 - p) / margin^2` with `margin = (1 - p) / 20`. The rules define z
/// as `NormsInv((1 - 0.99) / 2)`, which is negative; only its square counts.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and small")]
pub fn query_count(percentile: f64) -> u64 {
    /// Two-sided normal quantile at 99 % confidence: the inverse of Phi at 0.995.
    const Z: f64 = 2.575_829_303_548_900_4;
    let margin = (1.0 - percentile) / 20.0;
    (Z * Z * percentile * (1.0 - percentile) / (margin * margin)).round() as u64
}

/// Returns the minimum query count of the rules for a percentile in (0, 1): [`query_count`] rounded
/// up to a multiple of 2^13.
pub fn minimum_query_count(percentile: f64) -> u64 {
    query_count(percentile).next_multiple_of(1 << 13)
}

/// Returns P(X <= `over`) for X binomial with `trials` and `probability`: the
/// regularized incomplete beta function `I_{1-probability}(trials - over, over + 1)`.
///
/// Summed term by term from the term nearest `over` outwards. All terms have one
/// sign and shrink, so the relative error stays that of the first term, below
/// 1e-12 for up to 10^9 trials.
fn at_most(over: u64, trials: u64, probability: f64) -> f64 {
    if over >= trials {
        return 1.0;
    }
    if probability <= 0.0 {
        return 1.0;
    }
    if probability >= 1.0 {
        return 0.0;
    }
    let (n, odds) = (trials as f64, probability / (1.0 - probability));
    if (over as f64) < n * probability {
        let mut k = over as f64;
        let mut term = exactly(over, trials, probability);
        let mut sum = term;
        while k > 0.0 && term > sum * f64::EPSILON {
            term *= k / ((n - k + 1.0) * odds);
            sum += term;
            k -= 1.0;
        }
        sum
    } else {
        let mut k = (over + 1) as f64;
        let mut term = exactly(over + 1, trials, probability);
        let mut sum = term;
        while k < n && term > sum * f64::EPSILON {
            k += 1.0;
            term *= (n - k + 1.0) * odds / k;
            sum += term;
        }
        1.0 - sum
    }
}

/// Returns P(X = `over`) by Loader's expansion around the mean, which does not subtract large
/// logarithms.
fn exactly(over: u64, trials: u64, probability: f64) -> f64 {
    let (k, n) = (over as f64, trials as f64);
    if over == 0 {
        return (n * (-probability).ln_1p()).exp();
    }
    if over == trials {
        return (n * probability.ln()).exp();
    }
    let exponent = stirling_error(trials)
        - stirling_error(over)
        - stirling_error(trials - over)
        - deviance(k, n * probability)
        - deviance(n - k, n * (1.0 - probability));
    exponent.exp() * (n / (TAU * k * (n - k))).sqrt()
}

/// Returns ln(n!) minus Stirling's formula; absolute error below 1e-14.
fn stirling_error(n: u64) -> f64 {
    let x = n as f64;
    if n < 16 {
        // The factorials up to 15! are exact in f64.
        let factorial: f64 = (1..=n).map(|i| i as f64).product();
        return factorial.ln() - ((x + 0.5) * x.ln() - x + 0.5 * TAU.ln());
    }
    let inverse_square = 1.0 / (x * x);
    let tail = 1.0 / 1680.0 - inverse_square / 1188.0;
    let tail = 1.0 / 1260.0 - inverse_square * tail;
    let tail = 1.0 / 360.0 - inverse_square * tail;
    (1.0 / 12.0 - inverse_square * tail) / x
}

/// Returns `x ln(x / mean) + mean - x`, without cancellation if `x` is near `mean`.
fn deviance(x: f64, mean: f64) -> f64 {
    if (x - mean).abs() >= 0.1 * (x + mean) {
        return x * (x / mean).ln() + mean - x;
    }
    let v = (x - mean) / (x + mean);
    let mut sum = (x - mean) * v;
    let mut power = 2.0 * x * v;
    for odd in (3..).step_by(2) {
        power *= v * v;
        let next = sum + power / f64::from(odd);
        if next == sum {
            break;
        }
        sum = next;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stirling_errors_agree_with_sums_of_logarithms() {
        let mut log_factorial = 0.0;
        for n in 1..200_u64 {
            let x = n as f64;
            log_factorial += x.ln();
            let direct = log_factorial - ((x + 0.5) * x.ln() - x + 0.5 * TAU.ln());
            assert!((stirling_error(n) - direct).abs() < 1e-12, "{n}");
        }
    }

    #[test]
    fn binomial_sums_are_complementary() {
        for (trials, probability) in [(10, 0.3), (100, 0.01), (5_000, 0.1), (270_336, 0.01)] {
            let mean = (trials as f64 * probability) as u64;
            for over in [0, mean / 2, mean, mean + mean / 3 + 1, trials - 1] {
                let here = at_most(over, trials, probability);
                let mirrored = at_most(trials - over - 1, trials, 1.0 - probability);
                assert!((here + mirrored - 1.0).abs() < 1e-11, "{over} of {trials}");
            }
        }
        // (1 - 0.3)^10 + 10 * 0.3 * (1 - 0.3)^9
        assert!((at_most(1, 10, 0.3) - 0.149_308_345_9).abs() < 1e-13);
    }
}
