//! Leaves a local optimum: exchanges a bit of one group for a bit of another, and then tries other
//! biases.
//!
//! Fine-tuning narrows groups one by one, each time the group with the best ratio. A bit that one
//! group saved early may have cost another group more later, so exchanges are tried. A narrower
//! width that fails may also pass with other biases of its group and of the layers around it. From
//! the narrower configuration that fails by least, biases move one at a time, up or down, as long
//! as the accuracy rises.

use super::fine::best;
use super::moves::Move;
use super::step::{Phase, format_accuracy};
use super::trial::{Stop, Subset};
use super::{Trials, TuneAnswer};

/// Maximum number of evaluations for climbs, and also for exchanges. In small networks some tens of
/// evaluations pay off; the limit ends the search.
const MOST: u64 = 64;

impl Trials<'_, '_> {
    /// Tries climbs, and then exchanges, until neither finds a smaller configuration that passes.
    /// Each such configuration is fine-tuned.
    pub(super) fn go_below(&mut self, from: TuneAnswer) -> Result<TuneAnswer, Stop> {
        let subset = from.subset;
        let mut current = from;
        let [mut climbs, mut exchanges] = [MOST; 2];
        loop {
            if let Some(smaller) = self.below(subset, &current, &mut climbs)? {
                current = self.fine_tune(subset, smaller)?;
                continue;
            }
            let Some(mut smaller) = self.exchange(subset, &current, &mut exchanges)? else {
                return Ok(current);
            };
            // All exchanges in a row come before anything else is tried again.
            while let Some(next) = self.exchange(subset, &smaller, &mut exchanges)? {
                smaller = next;
            }
            current = self.fine_tune(subset, smaller)?;
        }
    }

    /// Finds a configuration that gives one group a bit more and another a bit less, and is
    /// smaller. Candidates that save least come first, because they are the most likely to pass. At
    /// most as many candidates as there are groups are evaluated.
    fn exchange(
        &mut self,
        subset: Subset,
        current: &TuneAnswer,
        most: &mut u64,
    ) -> Result<Option<TuneAnswer>, Stop> {
        self.phase = Phase::Width;
        let mut found: Vec<(f64, Move)> = Vec::new();
        if !self.network().objective.is_computed() {
            return Ok(None);
        }
        let groups = self.space.groups.len();
        for wider in 0..groups {
            let Some(more) = self.space.wider(&current.assignment, wider) else { continue };
            for narrower in (0..groups).filter(|other| *other != wider) {
                let less = self.space.narrower(&more.assignment, narrower);
                let Some(mut both) = less else { continue };
                let objective = self.objective(&both.assignment, None);
                if objective < current.objective {
                    both.change = format!("{}, {}", more.change, both.change);
                    found.push((objective, both));
                }
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        let threshold = self.threshold(subset);
        for (_, both) in found.into_iter().take(groups) {
            if *most == 0 {
                break;
            }
            *most -= 1;
            let mut candidates = self.candidates(subset, vec![both], Some(threshold))?;
            let [accuracy, least] = [candidates[0].accuracy, threshold].map(format_accuracy);
            candidates[0].why = format!("accuracy {accuracy} is below {least}");
            let passes = candidates[0].accuracy >= threshold;
            let accepted = passes
                .then(|| (0, format!("smaller, and accuracy {accuracy} is at least {least}")));
            let question = "does it pass to move one bit from one group to another?";
            if let Some(smaller) = self.decide(subset, question, candidates, accepted) {
                return Ok(Some(smaller));
            }
        }
        Ok(None)
    }

    /// Finds biases with which the narrower width that fails by least passes; `None` if there are
    /// none.
    fn below(
        &mut self,
        subset: Subset,
        current: &TuneAnswer,
        most: &mut u64,
    ) -> Result<Option<TuneAnswer>, Stop> {
        self.phase = Phase::Bias;
        let (groups, moves): (Vec<usize>, Vec<Move>) = self.savings(current).into_iter().unzip();
        let Some(at) = self.failed_by_least(subset, &moves)? else { return Ok(None) };
        let near = self.near(groups[at]);
        self.climb_biases(subset, current, moves[at].clone(), &near, most)
    }

    /// Returns the first of the most accurate moves, which all fail. For evaluations that ended
    /// early only a bound is known, and the bound depends on the evaluator. Therefore the move with
    /// the greatest bound is evaluated to its end, until the greatest accuracy is not a bound.
    fn failed_by_least(&mut self, subset: Subset, moves: &[Move]) -> Result<Option<usize>, Stop> {
        let threshold = self.threshold(subset);
        let mut candidates = self.candidates(subset, moves.to_vec(), Some(threshold))?;
        // Among equals, the first counts, even if it is a bound.
        while let Some(at) = best(&candidates, |a, b| a.accuracy.total_cmp(&b.accuracy)) {
            if !candidates[at].is_bound {
                return Ok(Some(at));
            }
            candidates[at] = self.candidates(subset, vec![moves[at].clone()], None)?.remove(0);
        }
        Ok(None)
    }

    /// Returns the slots of a group's layers and of the layers next to them.
    fn near(&self, group: usize) -> Vec<usize> {
        let layer = |at: usize| self.space.slots[at].layer;
        let of_group = &self.space.groups[group].slots;
        let is_near = |at: &usize| of_group.iter().any(|own| layer(*own).abs_diff(layer(*at)) <= 1);
        (0..self.space.slots.len()).filter(is_near).collect()
    }

    /// Starts at a narrower configuration that fails, and moves each bias up or down until it
    /// passes or no move helps.
    fn climb_biases(
        &mut self,
        subset: Subset,
        from: &TuneAnswer,
        found: Move,
        near: &[usize],
        most: &mut u64,
    ) -> Result<Option<TuneAnswer>, Stop> {
        let threshold = self.threshold(subset);
        let change = found.change.clone();
        let candidates = self.candidates(subset, vec![found], None)?;
        let [accuracy, least] = [candidates[0].accuracy, threshold].map(format_accuracy);
        let why = format!("from accuracy {accuracy} biases may lead back to {least}");
        let Some(mut now) =
            self.decide(subset, "does it pass with other biases?", candidates, Some((0, why)))
        else {
            return Ok(None);
        };
        // Last direction of each slot, which is tried first.
        let mut ways = vec![1; near.len()];
        let mut at = 0;
        let mut still = 0;
        while still < near.len() && now.accuracy < threshold {
            let mut is_better = false;
            for by in [ways[at], -ways[at]] {
                while let Some(better) = self.step_up(subset, &now, &change, near[at], by, most)? {
                    (now, ways[at], is_better) = (better, by, true);
                }
                if is_better {
                    break;
                }
            }
            still = if is_better { 1 } else { still + 1 };
            at = (at + 1) % near.len();
        }
        Ok((now.accuracy >= threshold && now.objective < from.objective).then_some(now))
    }

    /// Moves one bias further if that raises the accuracy. Returns `None` if the configuration
    /// passes already.
    fn step_up(
        &mut self,
        subset: Subset,
        now: &TuneAnswer,
        change: &str,
        slot: usize,
        by: i32,
        most: &mut u64,
    ) -> Result<Option<TuneAnswer>, Stop> {
        let found = self.space.bias(&now.assignment, slot, by);
        let Some(mut found) = found.filter(|_| *most > 0) else { return Ok(None) };
        if now.accuracy >= self.threshold(subset) {
            return Ok(None);
        }
        *most -= 1;
        found.change = format!("{change}, {}", found.change);
        let mut candidates = self.candidates(subset, vec![found], Some(now.accuracy.next_up()))?;
        let [accuracy, least] = [candidates[0].accuracy, now.accuracy].map(format_accuracy);
        candidates[0].why = format!("accuracy {accuracy} is no better than {least}");
        let is_better = candidates[0].accuracy > now.accuracy;
        let accepted = is_better.then(|| (0, format!("accuracy {accuracy} is above {least}")));
        Ok(self.decide(subset, "is it better with this bias, too?", candidates, accepted))
    }
}
