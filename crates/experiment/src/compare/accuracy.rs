//! Compares the accuracy of both sides. A faster system that answers wrong is not better.

use dyno_loadgen::compare::{Doubt, Finding, Interval, Verdict, share_difference};
use dyno_results::summary::{self, Accuracy, QualityUnit, State};

use super::compared_run::ComparedTest;
use super::metric;

/// Changes of an accuracy up to this share are equivalent, unless its interval excludes 0. Figures
/// without an interval are worse or better beyond it: MLPerf accepts 99 % of the reference.
const MARGIN: f64 = 0.01;

/// Accuracy of both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct AccuracyRow {
    /// Name of the metric, such as `top-1`.
    pub metric: String,
    /// Unit of the values.
    pub unit: QualityUnit,
    /// Means over the runs of the baseline and of the candidate.
    pub values: [f64; 2],
    /// Fewest samples that a run of each side scored, if known.
    pub samples: Option<[u64; 2]>,
    /// Change: a difference of shares if the answers are counted, otherwise a share of the baseline.
    pub change: f64,
    /// Limits of the change; unknown for figures that are not counts of correct answers.
    pub interval: Option<Interval>,
    /// Confidence of the limits.
    pub confidence: f64,
    /// Conclusion.
    pub finding: Finding,
}

/// Returns the accuracy test that belongs to a performance test, if it is complete and has a figure.
pub fn of_test(run: &summary::Run, test: &summary::Test) -> Option<Accuracy> {
    let mut tests = run.tests.iter();
    let found = tests.find(|other| {
        other.mode == "accuracy"
            && (&other.scenario, &other.tenant) == (&test.scenario, &test.tenant)
    })?;
    let is_scored = |accuracy: &&Accuracy| accuracy.value.is_some() && accuracy.metric.is_some();
    found.accuracy.as_ref().filter(|_| found.state == State::Complete).filter(is_scored).cloned()
}

/// Returns whether every run of both sides has an accuracy of the same metric.
pub fn is_comparable(baseline: &[&ComparedTest], candidate: &[&ComparedTest]) -> bool {
    let mut all = baseline.iter().chain(candidate).map(|test| &test.accuracy[..]);
    let Some([first, ..]) = all.clone().next() else { return false };
    let is_alike = |other: &Accuracy| {
        (&first.metric, first.unit, first.lower_is_better)
            == (&other.metric, other.unit, other.lower_is_better)
    };
    all.all(|side| !side.is_empty() && side.iter().all(is_alike))
}

/// Returns why accuracies that both sides have cannot be compared; `None` if they are compared, if a run
/// has no accuracy test, if no test has a figure, and if the speed alone is compared (`is_forced`).
pub fn doubt(
    baseline: &[&ComparedTest],
    candidate: &[&ComparedTest],
    is_forced: bool,
) -> Option<String> {
    let all = || baseline.iter().chain(candidate);
    let has_tests = all().all(|test| test.conditions.has_accuracy == Some(true));
    let has_figures = all().any(|test| !test.accuracy.is_empty());
    if is_forced || !has_tests || !has_figures || is_comparable(baseline, candidate) {
        return None;
    }
    let metric = |side: &[&ComparedTest]| {
        let mut found = side.iter().flat_map(|test| &test.accuracy);
        found.next().and_then(|accuracy| accuracy.metric.clone())
    };
    let why = match (metric(baseline), metric(candidate)) {
        (Some(a), Some(b)) if a != b => format!("the baseline states {a} and the candidate {b}"),
        _ => "not every accuracy test is complete and has a figure of the same metric".into(),
    };
    Some(format!(
        "the accuracies cannot be compared: {why}; measure both with the same metric, or use --force \
         to compare the speed alone"
    ))
}

/// Returns the verdict of a test from that of its other metrics.
pub fn verdict(row: Option<&AccuracyRow>, doubt: Option<&str>, others: Verdict) -> Verdict {
    match (row, doubt, others) {
        (Some(row), _, others) => row.verdict(others),
        (None, Some(_), Verdict::Better | Verdict::Equivalent) => Verdict::Inconclusive,
        (None, _, others) => others,
    }
}

impl AccuracyRow {
    /// Compares the accuracies of both sides; `None` unless [`is_comparable`].
    pub fn new(baseline: &[ComparedTest], candidate: &[ComparedTest], risk: f64) -> Option<Self> {
        let references = [baseline, candidate].map(|side| side.iter().collect::<Vec<_>>());
        if !is_comparable(&references[0], &references[1]) {
            return None;
        }
        let sides = [baseline, candidate]
            .map(|tests| tests.iter().flat_map(|test| &test.accuracy).collect::<Vec<_>>());
        let [first, ..] = sides[0][..] else { return None };
        let values = sides.each_ref().map(|side| mean(side));
        let samples = sides.each_ref().map(|side| {
            side.iter().map(|accuracy| accuracy.scored).min().flatten().filter(|n| *n > 0)
        });
        let samples = samples[0].zip(samples[1]).map(|(a, b)| [a, b]);
        let is_counted = first.unit == QualityUnit::Share
            && sides.iter().flatten().all(|accuracy| accuracy.correct.is_some());
        // Repeated runs answer the same samples, so they do not add any.
        let interval = samples
            .filter(|_| is_counted)
            .map(|[a, b]| share_difference([(values[0], a as f64), (values[1], b as f64)], risk));
        let [a, b] = values;
        let change = interval.map_or_else(|| relative(a, b), |interval| interval.value);
        let finding = finding(change, interval, first.lower_is_better);
        Some(Self {
            metric: first.metric.clone().unwrap_or_default(),
            unit: first.unit,
            values,
            samples,
            change,
            interval,
            confidence: 1.0 - risk,
            finding,
        })
    }

    /// Returns the title, such as `accuracy (top-1)`.
    pub fn title(&self) -> String {
        format!("accuracy ({})", self.metric)
    }

    /// Returns the change as text, in percentage points or in percent.
    pub fn change_text(&self) -> String {
        self.text_of(self.change)
    }

    fn text_of(&self, change: f64) -> String {
        if self.interval.is_some() { metric::points(change) } else { metric::percent(change) }
    }

    /// Returns the cells of a table, without the finding: metric, values, change and interval.
    pub fn cells(&self) -> [String; 5] {
        let [a, b] = self.values.map(|value| {
            let accuracy = Accuracy { unit: self.unit, value: Some(value), ..Accuracy::default() };
            accuracy.shown(value)
        });
        let interval = self.interval.map_or_else(
            || "no counts".into(),
            |interval| format!("{} to {}", self.text_of(interval.low), self.text_of(interval.high)),
        );
        [self.metric.clone(), a, b, self.change_text(), interval]
    }

    /// Returns the verdict of a test with this accuracy from that of its other metrics.
    fn verdict(&self, others: Verdict) -> Verdict {
        match (self.finding, others) {
            (Finding::Worse, _) => Verdict::Worse,
            (Finding::Better, Verdict::Equivalent) => Verdict::Better,
            (_, others) => others,
        }
    }
}

fn mean(side: &[&Accuracy]) -> f64 {
    let values = side.iter().filter_map(|accuracy| accuracy.value);
    values.sum::<f64>() / side.len().max(1) as f64
}

/// Returns the change as a share of the baseline. Any change of 0 is infinite.
fn relative(baseline: f64, candidate: f64) -> f64 {
    if baseline == candidate { 0.0 } else { (candidate - baseline) / baseline.abs() }
}

fn finding(change: f64, interval: Option<Interval>, lower_is_better: bool) -> Finding {
    let is_within = |x: f64| x.abs() <= MARGIN;
    let (is_higher, is_lower) = match interval {
        Some(Interval { low, high, .. }) => (low > 0.0, high < 0.0),
        None => (change > MARGIN, change < -MARGIN),
    };
    let ends = interval.map_or([change; 2], |Interval { low, high, .. }| [low, high]);
    match (is_higher, is_lower) {
        (true, _) if lower_is_better => Finding::Worse,
        (_, true) if lower_is_better => Finding::Better,
        (true, _) => Finding::Better,
        (_, true) => Finding::Worse,
        _ if ends.into_iter().all(is_within) => Finding::Equivalent,
        _ => Finding::Inconclusive(Doubt::Wide),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts: 64 of 64 against 5 of 64 excludes equality, 500 of 540 against 497 does not (the
    /// standard error of the difference is 1.6 %).
    #[test]
    fn counted_losses_are_proven_by_their_interval() {
        let interval =
            |a: f64, b: f64, n: f64| Some(share_difference([(a / n, n), (b / n, n)], 0.05));
        let of =
            |interval: Option<Interval>| finding(interval.expect("given").value, interval, false);
        assert_eq!(of(interval(64.0, 5.0, 64.0)), Finding::Worse);
        assert_eq!(of(interval(5.0, 64.0, 64.0)), Finding::Better);
        assert_eq!(of(interval(500.0, 497.0, 540.0)), Finding::Inconclusive(Doubt::Wide));
        assert_eq!(of(interval(49_000.0, 49_000.0, 50_000.0)), Finding::Equivalent);
    }

    #[test]
    fn figures_without_counts_may_lose_one_percent() {
        assert_eq!(finding(relative(40.0, 39.7), None, false), Finding::Equivalent);
        assert_eq!(finding(relative(40.0, 39.5), None, false), Finding::Worse);
        assert_eq!(finding(relative(40.0, 41.0), None, false), Finding::Better);
        assert_eq!(finding(relative(40.0, 41.0), None, true), Finding::Worse);
        assert_eq!(finding(relative(0.0, 1.0), None, false), Finding::Better);
    }
}
