//! Conclusions from intervals: for one metric, and for the whole comparison.

use super::between::Interval;
use super::{Metric, Row};

/// Conclusion of one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// The interval is on the better side of 0 and of the threshold, and not within the margin.
    Better,
    /// The interval is on the worse side of 0 and of the threshold, and not within the margin.
    Worse,
    /// The whole interval lies within the margin.
    Equivalent,
    /// None of these holds.
    Inconclusive(Doubt),
}

/// Why a metric is inconclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// The interval exceeds the margin, and excludes neither 0 nor changes below the threshold.
    Wide,
    /// There are too few values: the interval has no limit on a side.
    TooFew,
    /// A drift of the runs could explain the difference.
    Drift,
    /// The conditions of the two sides differ, or one side has no valid result.
    Conditions,
}

/// Changes that are tolerated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tolerance {
    /// Changes up to this are neither better nor worse (>= 0).
    pub threshold: f64,
    /// Changes up to this are equivalent (>= 0).
    pub margin: f64,
}

/// Changes of the share of failures up to this are equivalent, unless the interval excludes 0.
const FAILURES_MARGIN: f64 = 0.01;

impl Tolerance {
    /// Returns the tolerance of a metric. Failures have no threshold.
    pub fn for_metric(self, metric: Metric) -> Self {
        if metric.is_absolute() { Self { threshold: 0.0, margin: FAILURES_MARGIN } } else { self }
    }
}

impl Finding {
    /// Returns the conclusion from a change; `drift` is on the same scale.
    pub(super) fn new(
        metric: Metric,
        change: &Interval,
        tolerance: Tolerance,
        drift: DriftEffect,
    ) -> Self {
        let &Interval { low, high, .. } = change;
        let Tolerance { threshold, margin } = tolerance;
        let (is_higher, is_lower) = (low > threshold, high < -threshold);
        let is_within = |reach: f64| -margin <= low - reach && high + reach <= margin;
        // Every difference of failures counts, even within the margin.
        let is_difference = is_higher || is_lower;
        if is_within(drift.reach) && !(metric.is_absolute() && is_difference) {
            return Self::Equivalent;
        }
        match (is_higher, is_lower) {
            (true, _) | (_, true) if drift.could_explain => Self::Inconclusive(Doubt::Drift),
            _ if is_within(0.0) && !metric.is_absolute() => Self::Inconclusive(Doubt::Drift),
            (true, _) if metric.is_better_high() => Self::Better,
            (_, true) if metric.is_better_high() => Self::Worse,
            (true, _) => Self::Worse,
            (_, true) => Self::Better,
            _ if !low.is_finite() || !high.is_finite() || low <= -1.0 => {
                Self::Inconclusive(Doubt::TooFew)
            }
            _ => Self::Inconclusive(Doubt::Wide),
        }
    }

    /// Returns whether candidate and baseline differ by more than the threshold.
    pub fn is_difference(self) -> bool {
        matches!(self, Self::Better | Self::Worse)
    }

    /// Returns whether the finding is conclusive; otherwise more runs could decide.
    pub fn is_conclusive(self) -> bool {
        !matches!(self, Self::Inconclusive(_))
    }
}

/// Possible effect of a drift of the runs on a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct DriftEffect {
    /// Whether the drift could explain the change beyond the threshold.
    pub could_explain: bool,
    /// Maximum shift of the limits by the drift (>= 0).
    pub reach: f64,
}

/// Conclusion of the whole comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Better in at least one metric, worse in none; the headline is conclusive.
    Better,
    /// Worse in at least one metric.
    Worse,
    /// The headline is equivalent, and no other metric is better or worse.
    Equivalent,
    /// The headline is inconclusive, and no metric is worse.
    Inconclusive,
}

impl Verdict {
    pub(super) fn new(rows: &[Row], headline: Metric) -> Self {
        let has = |finding| rows.iter().any(|row| row.finding == finding);
        let of_headline = rows.iter().find(|row| row.metric == headline).map(|row| row.finding);
        if has(Finding::Worse) {
            return Self::Worse;
        }
        match of_headline {
            None | Some(Finding::Inconclusive(_)) => Self::Inconclusive,
            Some(_) if has(Finding::Better) => Self::Better,
            Some(_) => Self::Equivalent,
        }
    }
}
