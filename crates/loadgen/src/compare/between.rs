//! The difference between two sides, from estimates of single runs or from several runs per side.

use super::POWER;
use super::anytime::{self, LookPolicy};
use super::probability::{normal, student};
use super::single_run::wilson;
use super::within::{Estimate, Share};

/// Difference with its limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Candidate minus baseline.
    pub value: f64,
    /// Lower limit; may be infinite.
    pub low: f64,
    /// Upper limit; may be infinite.
    pub high: f64,
    /// Degrees of freedom of its standard error.
    pub freedom: f64,
}

impl Interval {
    /// Converts logarithms to changes.
    pub(super) fn exponential(self) -> Self {
        let [value, low, high] = [self.value, self.low, self.high].map(f64::exp_m1);
        Self { value, low, high, ..self }
    }

    /// Widens both limits by the variation between runs, given as a standard deviation of the
    /// logarithm.
    pub(super) fn widened(self, between_runs: f64, risk: f64) -> Self {
        let added = normal(risk / 2.0) * between_runs * std::f64::consts::SQRT_2;
        let (below, above) = (self.value - self.low, self.high - self.value);
        let (low, high) = (self.value - below.hypot(added), self.value + above.hypot(added));
        Self { low, high, ..self }
    }

    /// Returns the difference that limits of this width find in [`POWER`](super::POWER) of all
    /// cases.
    pub(super) fn detectable(&self, risk: f64) -> f64 {
        let reach = 0.5 * (self.high - self.low);
        reach * (1.0 + student(1.0 - POWER, self.freedom) / student(risk / 2.0, self.freedom))
    }
}

/// Returns the difference of two single runs, whose batches correspond if `is_paired`.
///
/// The limits of the two sides are combined as squares, which keeps their asymmetry. Correlation of
/// the batches narrows them.
///
/// Source: Zou and Donner, "Construction of confidence limits about effect measures: a general
/// approach", 2008; Zou, "On the estimation of additive interaction", 2008, for sides that are
/// correlated.
pub fn single(baseline: &Estimate, candidate: &Estimate, is_paired: bool) -> Interval {
    let value = candidate.value - baseline.value;
    let alike = if is_paired { correlation(&baseline.batches, &candidate.batches) } else { 0.0 };
    let reach = |a: f64, b: f64| {
        if a.is_finite() && b.is_finite() {
            (a * a + b * b - 2.0 * alike * a * b).max(0.0).sqrt()
        } else {
            f64::INFINITY
        }
    };
    Interval {
        value,
        low: value - reach(candidate.below, baseline.above),
        high: value + reach(candidate.above, baseline.below),
        freedom: (baseline.batches.len() - 1) as f64,
    }
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let (of_a, of_b) = (Moments::from_values(a), Moments::from_values(b));
    let product: f64 = a.iter().zip(b).map(|(a, b)| (a - of_a.mean) * (b - of_b.mean)).sum();
    let size = (of_a.squares * of_b.squares).sqrt();
    if size > 0.0 { product / size } else { 0.0 }
}

/// Returns the difference of several runs per side, where run `i` of one side was played beside run
/// `i` of the other.
///
/// The limits are those of Student's t for one look, and those of [`anytime`] for any number of
/// looks.
pub fn paired(baseline: &[f64], candidate: &[f64], risk: f64, looks: LookPolicy) -> Interval {
    let differences: Vec<f64> = baseline.iter().zip(candidate).map(|(a, b)| b - a).collect();
    let moments = Moments::from_values(&differences);
    let freedom = moments.count - 1.0;
    let error = (moments.squares / freedom / moments.count).sqrt();
    let reach = match looks {
        LookPolicy::One => student(risk / 2.0, freedom),
        LookPolicy::Any => anytime::student(moments.count, risk),
    };
    let found = around(moments.mean, error * reach, freedom);
    // Each pair after the first has the sign of the first with a probability of 1/2.
    if_certain(found, error, 0.5_f64.powf(freedom), risk)
}

/// Returns the difference of independent runs, several on at least one side.
///
/// If one side is a single run, the variation of runs comes from the other side.
///
/// Source: Welch, "The generalization of Student's problem when several
/// different population variances are involved", 1947.
pub fn independent(baseline: &[f64], candidate: &[f64], risk: f64) -> Interval {
    let (a, b) = (Moments::from_values(baseline), Moments::from_values(candidate));
    let value = b.mean - a.mean;
    if a.count < 2.0 || b.count < 2.0 {
        let freedom = a.count + b.count - 2.0;
        let variance = (a.squares + b.squares) / freedom;
        let error = (variance * (1.0 / a.count + 1.0 / b.count)).sqrt();
        let reach = student(risk / 2.0, freedom) * error;
        return if_certain(around(value, reach, freedom), error, apart(&a, &b), risk);
    }
    let part = |m: &Moments| m.squares / (m.count - 1.0) / m.count;
    let (of_a, of_b) = (part(&a), part(&b));
    let sum = of_a + of_b;
    let freedom = sum * sum / (of_a * of_a / (a.count - 1.0) + of_b * of_b / (b.count - 1.0));
    // Not finite without variance on both sides.
    let freedom = if freedom.is_finite() { freedom } else { a.count + b.count - 2.0 };
    let reach = student(risk / 2.0, freedom) * sum.sqrt();
    if_certain(around(value, reach, freedom), sum.sqrt(), apart(&a, &b), risk)
}

/// Returns the probability that all runs of one side are below or all above those of the other
/// side, if the sides are equal.
fn apart(a: &Moments, b: &Moments) -> f64 {
    let (few, all) = (a.count.min(b.count) as u32, a.count + b.count);
    let orders: f64 = (0..few).map(|i| (all - f64::from(i)) / f64::from(i + 1)).product();
    2.0 / orders
}

/// Standard errors of logarithms below this are rounding errors.
const NO_ERROR: f64 = 1e-12;

/// Removes the limits of an interval without error if chance explains it. Equal differences have no
/// error but are not certain: if latencies come in steps, two pairs often differ by the same step.
/// `chance` is the probability that all differences are on the same side.
fn if_certain(found: Interval, error: f64, chance: f64, risk: f64) -> Interval {
    let is_step = error < NO_ERROR && found.value.abs() > NO_ERROR;
    if is_step && chance > risk {
        Interval { low: f64::NEG_INFINITY, high: f64::INFINITY, ..found }
    } else {
        found
    }
}

fn around(value: f64, reach: f64, freedom: f64) -> Interval {
    // 0 times infinity is NaN: there is no limit.
    let reach = if reach.is_nan() { f64::INFINITY } else { reach };
    Interval { value, low: value - reach, high: value + reach, freedom }
}

/// Returns the difference of two shares, with limits `z` standard errors away.
///
/// Source: Newcombe, "Interval estimation for the difference between
/// independent proportions", 1998, method 10.
pub fn shares(baseline: Share, candidate: Share, z: f64) -> Interval {
    let limits = |share: Share| wilson(share.value, share.independent, z);
    let [(low_a, high_a), (low_b, high_b)] = [baseline, candidate].map(limits);
    let value = candidate.value - baseline.value;
    Interval {
        value,
        low: value - (candidate.value - low_b).hypot(high_a - baseline.value),
        high: value + (high_b - candidate.value).hypot(baseline.value - low_a),
        freedom: f64::INFINITY,
    }
}

/// Count, mean, and sum of squares around the mean.
pub struct Moments {
    /// Number of values.
    pub count: f64,
    /// Mean of the values.
    pub mean: f64,
    /// Sum of squared distances from the mean.
    pub squares: f64,
}

impl Moments {
    /// Returns the moments of at least one value.
    pub fn from_values(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        Self { count, mean, squares: values.iter().map(|v| (v - mean).powi(2)).sum() }
    }
}
