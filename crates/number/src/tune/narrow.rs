//! Narrows widths with fewer evaluations than the thesis.
//!
//! The thesis evaluates every group's next bit again after each bit that is saved. But when other
//! groups have become narrower, a group's next bit rarely costs less accuracy than before. So the
//! loss of a group's last evaluation serves as a lower bound of its current loss, and a group is
//! evaluated again only if it could still be the best choice (the lazy greedy algorithm of Minoux,
//! 1978). The bound alone rejects nothing: before a search ends, all groups that failed earlier
//! have failed with the final formats.

use super::moves::Move;
use super::step::{Candidate, format_accuracy};
use super::trial::{Stop, Subset};
use super::{Trials, TuneAnswer};
use crate::tune::fine::best;

/// Expected result of narrowing a group by one bit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Forecast {
    /// The group was never evaluated.
    Unknown,
    /// Objective saved and accuracy lost by the last evaluation of the group.
    Gives { saved: f64, lost: f64 },
    /// The last evaluation failed, perhaps with wider formats elsewhere.
    Failed,
}

impl Trials<'_, '_> {
    /// Returns a forecast for each group without any evaluation.
    pub(super) fn unknown_forecasts(&self) -> Vec<Forecast> {
        vec![Forecast::Unknown; self.space.groups.len()]
    }

    /// Narrows the group with the best ratio of objective saved to accuracy lost; `None` if every
    /// group fails.
    pub(super) fn narrow(
        &mut self,
        subset: Subset,
        current: &TuneAnswer,
        forecasts: &mut [Forecast],
    ) -> Result<Option<TuneAnswer>, Stop> {
        self.phase = super::Phase::Width;
        let mut left = self.savings(current);
        if left.is_empty() {
            return Ok(None);
        }
        let threshold = self.threshold(subset);
        let floor = self.loss_floor(subset);
        let gain = |candidate: &Candidate| current.objective - candidate.objective;
        let can = |candidate: &Candidate| candidate.accuracy >= threshold && gain(candidate) > 0.0;
        let ratio = |candidate: &Candidate| {
            gain(candidate) / (current.accuracy - candidate.accuracy).max(floor)
        };
        // SPEC A17: among equal ratios, the smaller objective wins, then the higher accuracy, then
        // the first group.
        let order = |a: &Candidate, b: &Candidate| {
            let ratio = |candidate: &Candidate| can(candidate).then(|| ratio(candidate));
            let by_ratio = ratio(a).partial_cmp(&ratio(b)).unwrap_or(std::cmp::Ordering::Equal);
            let by_size = b.objective.total_cmp(&a.objective);
            by_ratio.then(by_size).then(a.accuracy.total_cmp(&b.accuracy))
        };
        let mut groups = Vec::new();
        let mut candidates: Vec<Candidate> = Vec::new();
        let found = loop {
            let found = best(&candidates, order).filter(|at| can(&candidates[*at]));
            let least = found.map_or(0.0, |at| ratio(&candidates[at]));
            let next = self.most_promising(current, &left, forecasts, least, floor);
            // Groups that failed before are evaluated only when nothing else is left.
            if next.is_empty() && (found.is_some() || left.is_empty()) {
                break found;
            }
            let next = if next.is_empty() { (0..left.len()).collect() } else { next };
            let (now, later): (Vec<_>, Vec<_>) =
                left.into_iter().enumerate().partition(|(at, _)| next.contains(at));
            left = later.into_iter().map(|(_, found)| found).collect();
            let (asked, moves): (Vec<usize>, Vec<Move>) =
                now.into_iter().map(|(_, found)| found).unzip();
            let answers = self.candidates(subset, moves, Some(threshold))?;
            for (group, candidate) in asked.iter().zip(&answers) {
                let lost = current.accuracy - candidate.accuracy;
                forecasts[*group] = if can(candidate) {
                    Forecast::Gives { saved: gain(candidate), lost }
                } else {
                    Forecast::Failed
                };
            }
            groups.extend(asked);
            candidates.extend(answers);
        };
        let others = if left.is_empty() {
            ""
        } else {
            "; the others count with their loss when they were last evaluated"
        };
        self.decide_narrower(subset, current, candidates, found.map(|at| (at, others)))
    }

    /// Returns the indices in `left` of groups that may have a better ratio than `least`: all that
    /// were never evaluated, or else the one with the best forecast.
    fn most_promising(
        &self,
        current: &TuneAnswer,
        left: &[(usize, Move)],
        forecasts: &[Forecast],
        least: f64,
        floor: f64,
    ) -> Vec<usize> {
        let places = || 0..left.len();
        let unknown: Vec<usize> =
            places().filter(|at| forecasts[left[*at].0] == Forecast::Unknown).collect();
        if !unknown.is_empty() {
            return unknown;
        }
        let is_computed = self.network().objective.is_computed();
        let ratio = |at: usize| match forecasts[left[at].0] {
            Forecast::Gives { saved, lost } => {
                let now = || current.objective - self.objective(&left[at].1.assignment, None);
                Some(if is_computed { now() } else { saved } / lost.max(floor))
            }
            Forecast::Unknown | Forecast::Failed => None,
        };
        let known = places().filter_map(|at| Some((at, ratio(at)?)));
        // The first of the best.
        let first = known.reduce(|best, other| if other.1 > best.1 { other } else { best });
        first.filter(|(_, ratio)| *ratio > least).map(|(at, _)| at).into_iter().collect()
    }

    fn decide_narrower(
        &mut self,
        subset: Subset,
        current: &TuneAnswer,
        mut candidates: Vec<Candidate>,
        found: Option<(usize, &str)>,
    ) -> Result<Option<TuneAnswer>, Stop> {
        let objective = &self.network().objective;
        let words = |candidate: &Candidate| {
            let saved = match objective.text(candidate.objective) {
                Some(text) => format!("reaches {text}"),
                None => {
                    let saved = current.objective - candidate.objective;
                    format!("saves {saved:.0} {}", objective.unit())
                }
            };
            let lost = current.accuracy - candidate.accuracy;
            let lost = if lost > 0.0 {
                format!("costs {} of accuracy", format_accuracy(lost))
            } else {
                format!("costs no accuracy ({})", format_accuracy(candidate.accuracy))
            };
            format!("{saved} and {lost}").replace("  ", " ")
        };
        let why = |at: usize, others| format!("{}: the best ratio{others}", words(&candidates[at]));
        let accepted = found.map(|(at, others)| (at, why(at, others)));
        let whys: Vec<String> = candidates.iter().map(words).collect();
        for (candidate, why) in candidates.iter_mut().zip(whys) {
            candidate.why = format!("{why}: another one has a better ratio");
        }
        Ok(self.decide(subset, "which group can lose one bit?", candidates, accepted))
    }
}
