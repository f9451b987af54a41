//! What follows from limits: for one metric, and for the whole comparison.

use super::between::Interval;
use super::{Metric, Row};

/// What is said of one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// The limits lie on the good side of the threshold.
    Better,
    /// The limits lie on the bad side of the threshold.
    Worse,
    /// No difference was found; there is no threshold, or the limits reach
    /// beyond it.
    NoDifference,
    /// The limits lie within the threshold.
    WithinThreshold,
    /// There is a difference, and the limits reach over the threshold.
    AroundThreshold,
    /// There is a limit on neither side that would show a difference.
    TooFew,
    /// A difference that the drift of the runs could explain.
    Drift,
}

impl Finding {
    pub(super) fn of(
        metric: Metric,
        change: &Interval,
        threshold: f64,
        is_explained_by_drift: bool,
    ) -> Self {
        let &Interval { low, high, .. } = change;
        let (is_higher, is_lower) = (low > threshold, high < -threshold);
        match (is_higher, is_lower) {
            (true, _) | (_, true) if is_explained_by_drift => Self::Drift,
            (true, _) if metric.is_better_high() => Self::Better,
            (_, true) if metric.is_better_high() => Self::Worse,
            (true, _) => Self::Worse,
            (_, true) => Self::Better,
            _ if !low.is_finite() || !high.is_finite() || low <= -1.0 => Self::TooFew,
            _ if threshold > 0.0 && -threshold < low && high < threshold => Self::WithinThreshold,
            _ if low > 0.0 || high < 0.0 => Self::AroundThreshold,
            _ => Self::NoDifference,
        }
    }

    /// Whether it says that candidate and baseline differ by more than the
    /// threshold.
    #[must_use]
    pub fn is_difference(self) -> bool {
        matches!(self, Self::Better | Self::Worse)
    }
}

/// What is said of the whole comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Better in at least one metric, worse in none.
    Better,
    /// Worse in at least one metric.
    Worse,
    /// Neither, though the headline could have shown it.
    NoDifference,
    /// Not even the headline says anything.
    CannotTell,
}

impl Verdict {
    pub(super) fn of(rows: &[Row], headline: Metric) -> Self {
        let has = |finding| rows.iter().any(|row| row.finding == finding);
        let of_headline = rows.iter().find(|row| row.metric == headline).map(|row| row.finding);
        if has(Finding::Worse) {
            return Self::Worse;
        }
        match of_headline {
            None | Some(Finding::TooFew | Finding::Drift) => Self::CannotTell,
            Some(_) if has(Finding::Better) => Self::Better,
            Some(_) => Self::NoDifference,
        }
    }
}
