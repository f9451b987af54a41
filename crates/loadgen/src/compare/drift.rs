//! Drift of runs over time, and whether it could explain a difference between the sides.

use super::between::{Interval, Moments};
use super::probability::{student, student_two_sided};

/// Trend over the order in which runs were played, common to both sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Change from one run to the next, on the scale of the metric.
    pub per_run: f64,
    /// Probability of a trend at least as steep without any drift.
    pub chance: f64,
    /// Maximum difference between the sides that the drift could explain.
    pub explains: f64,
}

/// Maximum probability of a trend by chance at which the drift is reported.
pub const CHANCE: f64 = 0.05;

/// Returns the trend of the runs, given as positions and values; `None` if there are too few runs,
/// or if the values do not vary.
///
/// The trend is a least-squares line with one slope and one offset per side, so that a true
/// difference between the sides is not a trend.
pub fn estimate(baseline: &[(f64, f64)], candidate: &[(f64, f64)]) -> Option<Drift> {
    let sides = [baseline, candidate].map(|side| {
        let (positions, values): (Vec<f64>, Vec<f64>) = side.iter().copied().unzip();
        (Moments::from_values(&positions), Moments::from_values(&values), positions, values)
    });
    let freedom = (baseline.len() + candidate.len()) as f64 - 3.0;
    if freedom < FREEDOM_FEWEST {
        return None;
    }
    let (mut spread, mut product, mut squares) = (0.0, 0.0, 0.0);
    for (position, value, positions, values) in &sides {
        spread += position.squares;
        squares += value.squares;
        let terms = positions.iter().zip(values);
        product += terms.map(|(p, v)| (p - position.mean) * (v - value.mean)).sum::<f64>();
    }
    if spread <= 0.0 || squares <= 0.0 {
        return None;
    }
    let per_run = product / spread;
    let residual = (squares - per_run * product).max(0.0);
    let error = (residual / freedom / spread).sqrt();
    let chance = student_two_sided(per_run / error.max(f64::MIN_POSITIVE), freedom);
    let steepest = per_run.abs() + student(CHANCE / 2.0, freedom) * error;
    let apart = (sides[1].0.mean - sides[0].0.mean).abs();
    Some(Drift { per_run, chance, explains: steepest * apart })
}

/// Minimum degrees of freedom for a trend.
const FREEDOM_FEWEST: f64 = 3.0;

impl Drift {
    /// Returns whether the drift is reported.
    pub fn is_seen(&self) -> bool {
        self.chance < CHANCE
    }

    /// Returns whether the drift alone could explain that a difference exceeds `threshold` (a
    /// share).
    pub fn could_explain(&self, difference: &Interval, threshold: f64) -> bool {
        let higher = difference.low - threshold.ln_1p();
        let lower = (-threshold).ln_1p() - difference.high;
        let beyond = higher.max(lower);
        self.is_seen() && beyond > 0.0 && beyond <= self.explains
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: f64 = 0.01;

    /// Returns runs, each `STEP` above the one before, with a little noise.
    fn runs(positions: [f64; 5]) -> Vec<(f64, f64)> {
        positions.map(|p| (p, STEP * p + 0.001 * (p * 7.0).sin())).to_vec()
    }

    fn interval(low: f64, high: f64) -> Interval {
        Interval { value: 0.5 * (low + high), low, high, freedom: 4.0 }
    }

    #[test]
    fn a_trend_explains_what_one_side_after_the_other_shows() {
        let drift = estimate(&runs([0., 1., 2., 3., 4.]), &runs([5., 6., 7., 8., 9.])).unwrap();
        assert!(drift.is_seen() && (drift.per_run - STEP).abs() < 1e-3, "{drift:?}");
        assert!(drift.could_explain(&interval(0.04, 0.06), 0.0));
        assert!(!drift.could_explain(&interval(0.08, 0.12), 0.0), "more than the trend makes");
        assert!(!drift.could_explain(&interval(-0.01, 0.02), 0.0), "nothing to explain");
        assert!(drift.could_explain(&interval(0.08, 0.12), 0.05), "what matters of it");
        assert!(drift.could_explain(&interval(-0.12, -0.08), 0.05), "what matters of it");
        assert!(!drift.could_explain(&interval(0.04, 0.06), 0.05), "nothing of it matters");
    }

    #[test]
    fn alternating_runs_leave_a_trend_little_to_explain() {
        let drift = estimate(&runs([0., 3., 4., 7., 8.]), &runs([1., 2., 5., 6., 9.])).unwrap();
        assert!(drift.is_seen() && drift.explains < 0.3 * STEP, "{drift:?}");
        assert!(!drift.could_explain(&interval(STEP, 2.0 * STEP), 0.0));
    }

    #[test]
    fn a_difference_between_the_sides_is_no_trend() {
        let flat = |offset: f64, positions: [f64; 5]| {
            positions.map(|p| (p, offset + 0.001 * (p * 7.0).sin())).to_vec()
        };
        let baseline = flat(0.0, [0., 1., 2., 3., 4.]);
        let drift = estimate(&baseline, &flat(0.3, [5., 6., 7., 8., 9.])).unwrap();
        assert!(!drift.is_seen(), "{drift:?}");
        assert_eq!(estimate(&baseline[..1], &baseline[..1]), None, "two runs show no trend");
    }
}
