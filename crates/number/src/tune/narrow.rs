//! Widths, asked for only as far as what was asked before leaves a doubt.
//!
//! The thesis evaluates every group's next bit after each bit that is saved. But a group that loses accuracy
//! loses hardly less where others have become narrower, and its next bit costs no less than its last one. So
//! what a group lost when it was asked last is taken for the least that it loses now, and a group is asked again
//! only if it could still be the best choice (the lazy greedy of Minoux, 1978). Nothing is given up by that
//! guess alone: before a search ends, all that failed earlier have failed with the very formats it ends with.

use super::moves::Move;
use super::step::{Candidate, shown};
use super::trial::{Stop, Subset};
use super::{Answer, Trials};
use crate::tune::fine::best;

/// What is expected of a group's next bit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Hope {
    /// It was never asked.
    Unknown,
    /// What it saved and lost, or what its last bit did.
    Gives { saved: f64, lost: f64 },
    /// It failed, if with wider formats elsewhere.
    Failed,
}

impl Trials<'_, '_> {
    /// Nothing is known of any group.
    pub(super) fn no_hopes(&self) -> Vec<Hope> {
        vec![Hope::Unknown; self.space.groups.len()]
    }

    /// The next bit with the best ratio of what it saves to what it loses; none if every group fails.
    pub(super) fn narrow(
        &mut self,
        subset: Subset,
        current: &Answer,
        hopes: &mut [Hope],
    ) -> Result<Option<Answer>, Stop> {
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
        // SPEC A17: of equal ratios the smaller, then the more accurate, then the first.
        let order = |a: &Candidate, b: &Candidate| {
            let of = |candidate: &Candidate| can(candidate).then(|| ratio(candidate));
            let by_ratio = of(a).partial_cmp(&of(b)).unwrap_or(std::cmp::Ordering::Equal);
            let by_size = b.objective.total_cmp(&a.objective);
            by_ratio.then(by_size).then(a.accuracy.total_cmp(&b.accuracy))
        };
        let mut groups = Vec::new();
        let mut candidates: Vec<Candidate> = Vec::new();
        let found = loop {
            let found = best(&candidates, order).filter(|at| can(&candidates[*at]));
            let least = found.map_or(0.0, |at| ratio(&candidates[at]));
            let next = self.most_hopeful(current, &left, hopes, least, floor);
            // Those that failed before are asked when nothing else is left.
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
                hopes[*group] = match can(candidate) {
                    true => Hope::Gives { saved: gain(candidate), lost },
                    false => Hope::Failed,
                };
            }
            groups.extend(asked);
            candidates.extend(answers);
        };
        let others = match left.is_empty() {
            true => "",
            false => ", with what the others lost when they were asked last",
        };
        self.tell_narrower(subset, current, candidates, found.map(|at| (at, others)))
    }

    /// Places of the groups that may do better than `least`: all that were never asked, or the one with the
    /// best ratio.
    fn most_hopeful(
        &self,
        current: &Answer,
        left: &[(usize, Move)],
        hopes: &[Hope],
        least: f64,
        floor: f64,
    ) -> Vec<usize> {
        let places = || 0..left.len();
        let unknown: Vec<usize> =
            places().filter(|at| hopes[left[*at].0] == Hope::Unknown).collect();
        if !unknown.is_empty() {
            return unknown;
        }
        let is_computed = self.network().objective.is_computed();
        let ratio = |at: usize| match hopes[left[at].0] {
            Hope::Gives { saved, lost } => {
                let now = || current.objective - self.objective(&left[at].1.assignment, None);
                Some(if is_computed { now() } else { saved } / lost.max(floor))
            }
            Hope::Unknown | Hope::Failed => None,
        };
        let hopeful = places().filter_map(|at| Some((at, ratio(at)?)));
        // The first of the best.
        let first = hopeful.reduce(|best, other| if other.1 > best.1 { other } else { best });
        first.filter(|(_, ratio)| *ratio > least).map(|(at, _)| at).into_iter().collect()
    }

    fn tell_narrower(
        &mut self,
        subset: Subset,
        current: &Answer,
        mut candidates: Vec<Candidate>,
        found: Option<(usize, &str)>,
    ) -> Result<Option<Answer>, Stop> {
        let unit = self.network().objective.unit();
        let words = |candidate: &Candidate| {
            let saved = current.objective - candidate.objective;
            let lost = current.accuracy - candidate.accuracy;
            let lost = match lost > 0.0 {
                true => format!("costs {} of accuracy", shown(lost)),
                false => format!("costs no accuracy ({})", shown(candidate.accuracy)),
            };
            format!("saves {saved:.0} {unit} and {lost}").replace("  ", " ")
        };
        let why = |at: usize, others| format!("{}: the best ratio{others}", words(&candidates[at]));
        let taken = found.map(|(at, others)| (at, why(at, others)));
        let whys: Vec<String> = candidates.iter().map(words).collect();
        for (candidate, why) in candidates.iter_mut().zip(whys) {
            candidate.why = format!("{why}: another one has a better ratio");
        }
        Ok(self.decide(subset, "which group can do with a bit less?", candidates, taken))
    }
}
