//! Fine-tuning: biases, widths and types, one object or group at a time. With
//! [`BiasRule::WhenNeeded`], groups are not evaluated again before they may be the best choice (see
//! `narrow`).

use std::cmp::Ordering;
use std::collections::HashSet;

use super::moves::Move;
use super::step::{Candidate, Phase, format_accuracy};
use super::trial::{Stop, Subset};
use super::{BiasRule, Trials, TuneAnswer};
use crate::assignment::Assignment;
use crate::format::Kind;

/// Types and widths of all slots, without biases.
type Shape = Vec<(Kind, u32, u32)>;

fn shape(assignment: &Assignment) -> Shape {
    let formats = assignment.formats().iter();
    formats.map(|format| (format.kind(), format.bits(), format.exponent_bits())).collect()
}

impl Trials<'_, '_> {
    /// Makes an answer smaller on its set, in rounds of biases, widths and types, until no type
    /// changes.
    pub fn fine_tune(&mut self, subset: Subset, from: TuneAnswer) -> Result<TuneAnswer, Stop> {
        // Estimate for one pass in which each group is narrowed once.
        let groups = self.space.groups.len() as u64;
        self.remaining = 2 * self.space.slots.len() as u64 + groups * (groups + 1) / 2 + groups;
        let mut current = from;
        // SPEC A18: configurations that were visited are not visited again.
        let mut visited: HashSet<Shape> = HashSet::from([shape(&current.assignment)]);
        if self.settings.bias_rule == BiasRule::WhenNeeded {
            return self.fine_tune_when_needed(subset, current, visited);
        }
        loop {
            current = self.tune_biases(subset, current)?;
            // The thesis evaluates every group's next bit again after each bit that is saved.
            while let Some(narrower) =
                self.narrow(subset, &current, &mut self.unknown_forecasts())?
            {
                visited.insert(shape(&narrower.assignment));
                current = narrower;
            }
            match self.retype(subset, &current, &visited)? {
                Some(retyped) => {
                    visited.insert(shape(&retyped.assignment));
                    current = retyped;
                }
                None => return Ok(current),
            }
        }
    }

    /// Narrows widths as long as one passes. Biases and types save nothing themselves: they are
    /// tried for more accuracy when no width passes, and not at all when no width can be narrower.
    fn fine_tune_when_needed(
        &mut self,
        subset: Subset,
        from: TuneAnswer,
        mut visited: HashSet<Shape>,
    ) -> Result<TuneAnswer, Stop> {
        let mut current = from;
        loop {
            let mut forecasts = self.unknown_forecasts();
            while let Some(narrower) = self.narrow(subset, &current, &mut forecasts)? {
                visited.insert(shape(&narrower.assignment));
                current = narrower;
            }
            if self.savings(&current).is_empty() {
                return Ok(current);
            }
            let before = current.accuracy;
            current = self.tune_biases(subset, current)?;
            if current.accuracy > before {
                continue;
            }
            match self.retype(subset, &current, &visited)? {
                Some(retyped) => {
                    visited.insert(shape(&retyped.assignment));
                    current = retyped;
                }
                None => return Ok(current),
            }
        }
    }

    /// Returns the groups that have a narrower format, with the move to it. Moves that do not make
    /// the objective smaller are left out, if the objective is known without an evaluation.
    pub(super) fn savings(&self, current: &TuneAnswer) -> Vec<(usize, Move)> {
        let narrower = |group| Some((group, self.space.narrower(&current.assignment, group)?));
        let mut moves: Vec<_> = (0..self.space.groups.len()).filter_map(narrower).collect();
        if self.network().objective.is_computed() {
            moves.retain(|(_, found)| self.objective(&found.assignment, None) < current.objective);
        }
        moves
    }

    fn retype(
        &mut self,
        subset: Subset,
        current: &TuneAnswer,
        visited: &HashSet<Shape>,
    ) -> Result<Option<TuneAnswer>, Stop> {
        self.phase = Phase::Type;
        let mut moves = self.space.retyped(&current.assignment);
        if self.settings.bias_rule == BiasRule::WhenNeeded {
            moves = moves.into_iter().map(|found| self.space.without_exp_2(found)).collect();
        }
        moves.retain(|found| !visited.contains(&shape(&found.assignment)));
        if moves.is_empty() {
            return Ok(None);
        }
        let threshold = self.threshold(subset);
        let least = threshold.max(current.accuracy);
        let mut candidates = self.candidates(subset, moves, Some(least))?;
        // SPEC A18: the width stays equal, so the accuracy must be higher.
        let can = |candidate: &Candidate| {
            candidate.accuracy > current.accuracy
                && candidate.accuracy >= threshold
                && candidate.objective <= current.objective
        };
        let best =
            best(&candidates, |a, b| can(a).cmp(&can(b)).then(a.accuracy.total_cmp(&b.accuracy)));
        let best = best.filter(|at| can(&candidates[*at]));
        let now = format_accuracy(current.accuracy);
        let accepted = best.map(|at| {
            let accuracy = format_accuracy(candidates[at].accuracy);
            (at, format!("accuracy {accuracy} is the highest, and above {now}"))
        });
        for candidate in &mut candidates {
            let accuracy = format_accuracy(candidate.accuracy);
            candidate.why = if can(candidate) {
                format!("accuracy {accuracy}, another one is higher or comes first")
            } else {
                format!("accuracy {accuracy} is no better than {now}")
            };
        }
        Ok(self.decide(subset, "is another type of the same width better?", candidates, accepted))
    }
}

/// Returns the index of the first of the greatest candidates.
pub(super) fn best(
    candidates: &[Candidate],
    order: impl Fn(&Candidate, &Candidate) -> Ordering,
) -> Option<usize> {
    (0..candidates.len()).reduce(|best, at| {
        if order(&candidates[at], &candidates[best]).is_gt() { at } else { best }
    })
}
