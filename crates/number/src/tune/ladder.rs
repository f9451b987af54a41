//! A ladder of answers for the confirmation: from small ones that lose almost the margin to wide ones
//! that lose nothing.
//!
//! The ladder decides how small a confirmed answer can be, so it must not have gaps. A search under
//! no loss at all starts at the narrowest width for all objects, and goes on under growing shares of
//! the margin. It starts with all samples of the search, so the draw of the small set has no part in
//! it. Its answers, and everything else that was evaluated, are the configurations of which none is
//! both smaller and more accurate. Where two of them are far apart, groups change one after the
//! other. Wider ones are added at the top, because the most accurate ones are so by chance as well.

use super::step::Phase;
use super::trial::{Stop, Subset};
use super::{Trials, TuneAnswer};
use crate::assignment::Assignment;
use crate::objective::Objective;

/// Shares of the margin under which the search goes on, one after the other.
const SHARES: [f64; 5] = [0.2, 0.4, 0.6, 0.8, 1.0];
/// Most rungs that are a bit wider everywhere.
const MOST_WIDER: usize = 6;
/// Most rungs between two others.
const MOST_BETWEEN: usize = 6;
/// Rungs are at least so much smaller than the next wider one. A part of the level belongs to each.
const LEAST_STEP: f64 = 1.01;
/// Two rungs are far apart if one is so much larger.
const GAP: f64 = 1.03;

impl Trials<'_, '_> {
    /// Returns a ladder of answers, the smallest first. Held-out samples have no part in it.
    pub(super) fn rungs(&mut self, found: &TuneAnswer) -> Result<Vec<TuneAnswer>, Stop> {
        let subset = found.subset;
        let mut last = self.descend(subset)?;
        let mut wide = vec![last.clone()];
        for _ in 0..MOST_WIDER {
            let Some(wider) = self.wider_everywhere(&last.assignment) else { break };
            last = self.known_answer(subset, wider)?;
            if last.accuracy >= self.threshold(subset) {
                wide.push(last.clone());
            }
        }
        for pair in self.front(found).windows(2) {
            self.fill(&pair[0], &pair[1])?;
        }
        let mut ladder = self.front(found);
        let top = ladder.last().unwrap_or(found).clone();
        wide.sort_by(|a, b| a.objective.total_cmp(&b.objective));
        wide.retain(|rung| rung.objective > top.objective);
        if let Some(first) = wide.first() {
            ladder.extend(self.fill(&top, first)?);
        }
        ladder.extend(wide);
        let base = self.network().base();
        ladder.retain(|rung| rung.assignment != base);
        Ok(self.thinned(ladder))
    }

    /// Searches without a loss, and then under growing shares of the margin, each from the answer
    /// before it or from the narrowest width for all objects, whichever ends smaller. Returns the
    /// answer without a loss.
    fn descend(&mut self, subset: Subset) -> Result<TuneAnswer, Stop> {
        let strictest = self.under(subset, 0.0, None)?;
        let mut last = strictest.clone();
        for share in SHARES {
            last = self.under(subset, share, Some(last))?;
        }
        Ok(strictest)
    }

    /// Searches under a share of the margin.
    fn under(
        &mut self,
        subset: Subset,
        share: f64,
        last: Option<TuneAnswer>,
    ) -> Result<TuneAnswer, Stop> {
        let whole = self.narrow_margin(subset, share);
        let found = self.descend_further(subset, last);
        self.restore(subset, whole);
        found
    }

    fn descend_further(
        &mut self,
        subset: Subset,
        last: Option<TuneAnswer>,
    ) -> Result<TuneAnswer, Stop> {
        let base = self.known_answer(subset, self.network().base())?;
        let start = self.coarse_from(base)?;
        let fresh = self.fine_tune(subset, start)?;
        let Some(last) = last else { return Ok(fresh) };
        let further = self.fine_tune(subset, last)?;
        Ok(if further.objective < fresh.objective { further } else { fresh })
    }

    /// Returns the answers so far of which none is smaller and as accurate, from the smallest to the
    /// widest. They include `found`.
    fn front(&self, found: &TuneAnswer) -> Vec<TuneAnswer> {
        let threshold = self.threshold(found.subset);
        let passing = self.points().iter().filter(|point| {
            point.subset == found.subset
                && point.accuracy >= threshold
                && point.objective >= found.objective
        });
        let mut all: Vec<TuneAnswer> = passing
            .map(|point| TuneAnswer {
                assignment: point.assignment.clone(),
                objective: point.objective,
                accuracy: point.accuracy,
                subset: point.subset,
            })
            .collect();
        all.push(found.clone());
        all.sort_by(|a, b| {
            a.objective.total_cmp(&b.objective).then(b.accuracy.total_cmp(&a.accuracy))
        });
        let mut front: Vec<TuneAnswer> = Vec::new();
        for answer in all {
            if front.last().is_none_or(|last| answer.accuracy > last.accuracy) {
                front.push(answer);
            }
        }
        front
    }

    /// Returns an assignment with the next wider format of each group, with the ranges of its
    /// values: a range that was made smaller for coarse steps cuts values off, which finer steps do
    /// not repair.
    fn wider_everywhere(&self, from: &Assignment) -> Option<Assignment> {
        let mut now = from.clone();
        for group in 0..self.space.groups.len() {
            if let Some(wider) = self.space.wider(&now, group) {
                now = wider.assignment;
            }
        }
        let slots = self.space.slots.iter().zip(now.formats());
        let ranged = slots.map(|(slot, format)| self.network().profiled(*slot, *format)).collect();
        let wider = now.with_formats(ranged);
        (now != *from).then_some(wider)
    }

    /// Evaluates an assignment by the samples of the search.
    fn known_answer(&mut self, subset: Subset, assignment: Assignment) -> Result<TuneAnswer, Stop> {
        let evaluation = self.ask(subset, std::slice::from_ref(&assignment), None)?.remove(0);
        let objective = self.objective(&assignment, Some(&evaluation));
        Ok(TuneAnswer { assignment, objective, accuracy: evaluation.accuracy, subset })
    }

    /// Evaluates answers between two rungs that are far apart: groups change one after the other,
    /// those that cost least first.
    fn fill(&mut self, narrow: &TuneAnswer, wide: &TuneAnswer) -> Result<Vec<TuneAnswer>, Stop> {
        if !self.is_smaller(narrow, wide, GAP) {
            return Ok(Vec::new());
        }
        self.phase = Phase::Recovery;
        let groups = self.space.groups.clone();
        let with = |from: &Assignment, slots: &[usize]| {
            let mut formats = from.formats().to_vec();
            slots.iter().for_each(|at| formats[*at] = wide.assignment.formats()[*at]);
            from.with_formats(formats)
        };
        let mut steps: Vec<(f64, Vec<usize>)> = Vec::new();
        for group in groups {
            let changed = with(&narrow.assignment, &group.slots);
            if changed != narrow.assignment {
                steps.push((self.objective(&changed, None), group.slots));
            }
        }
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        steps.pop();
        let every = steps.len().div_ceil(MOST_BETWEEN).max(1);
        let mut now = narrow.assignment.clone();
        let mut found = Vec::new();
        for (at, (_, slots)) in steps.iter().enumerate() {
            now = with(&now, slots);
            if (at + 1) % every == 0 {
                let rung = self.known_answer(narrow.subset, now.clone())?;
                let is_between = rung.objective > narrow.objective
                    && rung.objective < wide.objective
                    && rung.accuracy >= self.threshold(narrow.subset);
                found.extend(is_between.then_some(rung));
            }
        }
        Ok(found)
    }

    /// Returns rungs, the smallest first, that are not too near to each other. The smallest one stays.
    fn thinned(&self, mut ladder: Vec<TuneAnswer>) -> Vec<TuneAnswer> {
        ladder.sort_by(|a, b| a.objective.total_cmp(&b.objective));
        let mut kept: Vec<TuneAnswer> = Vec::new();
        while let Some(rung) = ladder.pop() {
            let is_far = kept.last().is_none_or(|last| self.is_smaller(&rung, last, LEAST_STEP));
            if is_far || ladder.is_empty() {
                kept.push(rung);
            }
        }
        kept.dedup_by(|a, b| a.assignment == b.assignment);
        kept.reverse();
        kept
    }

    /// Returns whether a rung is smaller than another one by this factor. A function of the bits may hardly change
    /// with them, and then the bits themselves count.
    fn is_smaller(&self, rung: &TuneAnswer, other: &TuneAnswer, factor: f64) -> bool {
        let bits = |of: &TuneAnswer| Objective::Bits.value(self.network(), &of.assignment, None);
        let is_function = matches!(self.network().objective, Objective::Function(_));
        other.objective > factor * rung.objective
            || is_function && bits(other) > factor * bits(rung)
    }
}
