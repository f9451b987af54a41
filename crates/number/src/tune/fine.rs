//! Fine-tuning: biases, widths and types, one object or group at a time. Where biases wait until they are
//! needed, what was asked before is not asked again before it is needed either (`narrow`).

use std::cmp::Ordering;
use std::collections::HashSet;

use super::moves::Move;
use super::step::{Candidate, Phase, shown};
use super::trial::{Stop, Subset};
use super::{Answer, BiasRule, Trials};
use crate::assignment::Assignment;
use crate::format::Kind;

/// Types and widths, without biases.
type Shape = Vec<(Kind, u32, u32)>;

fn shape(assignment: &Assignment) -> Shape {
    let formats = assignment.formats().iter();
    formats.map(|format| (format.kind(), format.bits(), format.exponent_bits())).collect()
}

impl Trials<'_, '_> {
    /// Makes an answer smaller on its set, in rounds of biases, widths and types, until no type changes.
    pub fn fine_tune(&mut self, subset: Subset, from: Answer) -> Result<Answer, Stop> {
        // What a pass takes where each group gives way once, as a guess.
        let groups = self.space.groups.len() as u64;
        self.remaining = 2 * self.space.slots.len() as u64 + groups * (groups + 1) / 2 + groups;
        let mut current = from;
        // SPEC A18: who was there once does not come back.
        let mut visited: HashSet<Shape> = HashSet::from([shape(&current.assignment)]);
        if self.settings.bias_rule == BiasRule::WhenNeeded {
            return self.fine_tune_when_needed(subset, current, visited);
        }
        loop {
            current = self.tune_biases(subset, current)?;
            // The thesis asks for every group's next bit again after each bit that is saved.
            while let Some(narrower) = self.narrow(subset, &current, &mut self.no_hopes())? {
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

    /// Widths as long as any gives way. Biases and types save nothing: they are asked for more accuracy where
    /// widths are stuck, and for nothing where there is no narrower width.
    fn fine_tune_when_needed(
        &mut self,
        subset: Subset,
        from: Answer,
        mut visited: HashSet<Shape>,
    ) -> Result<Answer, Stop> {
        let mut current = from;
        loop {
            let mut hopes = self.no_hopes();
            while let Some(narrower) = self.narrow(subset, &current, &mut hopes)? {
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

    /// Narrower widths that make the objective smaller, as far as that is known without an evaluation.
    pub(super) fn savings(&self, current: &Answer) -> Vec<(usize, Move)> {
        let of = |group| Some((group, self.space.narrower(&current.assignment, group)?));
        let mut moves: Vec<_> = (0..self.space.groups.len()).filter_map(of).collect();
        if self.network().objective.is_computed() {
            moves.retain(|(_, found)| self.objective(&found.assignment, None) < current.objective);
        }
        moves
    }

    fn retype(
        &mut self,
        subset: Subset,
        current: &Answer,
        visited: &HashSet<Shape>,
    ) -> Result<Option<Answer>, Stop> {
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
        // SPEC A18: of equal width, so it must be better.
        let can = |candidate: &Candidate| {
            candidate.accuracy > current.accuracy
                && candidate.accuracy >= threshold
                && candidate.objective <= current.objective
        };
        let best =
            best(&candidates, |a, b| can(a).cmp(&can(b)).then(a.accuracy.total_cmp(&b.accuracy)));
        let best = best.filter(|at| can(&candidates[*at]));
        let now = shown(current.accuracy);
        let taken = best.map(|at| {
            let accuracy = shown(candidates[at].accuracy);
            (at, format!("accuracy {accuracy} is the highest, and above {now}"))
        });
        for candidate in &mut candidates {
            let accuracy = shown(candidate.accuracy);
            candidate.why = match can(candidate) {
                true => format!("accuracy {accuracy}, another one is higher or comes first"),
                false => format!("accuracy {accuracy} is no better than {now}"),
            };
        }
        Ok(self.decide(subset, "is another type of the same width better?", candidates, taken))
    }
}

/// The first of the greatest.
pub(super) fn best(
    candidates: &[Candidate],
    order: impl Fn(&Candidate, &Candidate) -> Ordering,
) -> Option<usize> {
    (0..candidates.len()).reduce(|best, at| {
        if order(&candidates[at], &candidates[best]).is_gt() { at } else { best }
    })
}
