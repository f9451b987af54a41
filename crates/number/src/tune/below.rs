//! What is smaller than where a search is stuck: a bit of one group for a bit of another, and then other biases.
//!
//! Groups give way one by one, each where it costs least then; what the first took may have been what a later one
//! needed. A bit less that fails may pass with other biases: of the group that became narrower, and of those around it.
//! Widths give way one by one with the biases that wider formats wanted; where all fail, each of them is a place of its
//! own from which biases are asked one after the other, up and down, as long as the accuracy rises.

use super::fine::best;
use super::moves::Move;
use super::step::{Phase, shown};
use super::trial::{Stop, Subset};
use super::{Answer, Trials};

/// Evaluations of climbs at most, and of exchanges: those of a small network that pay off take some tens, and a search that is near its end
/// should end.
const MOST: u64 = 64;

impl Trials<'_, '_> {
    /// As long as any climb, or else any exchange, ends in a configuration that passes: from there on again as from any
    /// other.
    pub(super) fn go_below(&mut self, from: Answer) -> Result<Answer, Stop> {
        let (subset, mut current) = (from.subset, from);
        let [mut climbs, mut exchanges] = [MOST; 2];
        loop {
            if let Some(smaller) = self.below(subset, &current, &mut climbs)? {
                current = self.fine_tune(subset, smaller)?;
                continue;
            }
            let Some(mut smaller) = self.exchange(subset, &current, &mut exchanges)? else {
                return Ok(current);
            };
            // One after the other, before anything else is asked again.
            while let Some(next) = self.exchange(subset, &smaller, &mut exchanges)? {
                smaller = next;
            }
            current = self.fine_tune(subset, smaller)?;
        }
    }

    /// A bit more for one group and a bit less for another, which is smaller in all: those that save least first,
    /// because they are the most likely to pass, and no more of them than there are groups.
    fn exchange(
        &mut self,
        subset: Subset,
        current: &Answer,
        most: &mut u64,
    ) -> Result<Option<Answer>, Stop> {
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
            let [accuracy, least] = [candidates[0].accuracy, threshold].map(shown);
            candidates[0].why = format!("accuracy {accuracy} is below {least}");
            let passes = candidates[0].accuracy >= threshold;
            let taken = passes
                .then(|| (0, format!("smaller, and accuracy {accuracy} is at least {least}")));
            let question = "a bit of one group for a bit of another?";
            if let Some(smaller) = self.decide(subset, question, candidates, taken) {
                return Ok(Some(smaller));
            }
        }
        Ok(None)
    }

    /// What failed by least, with biases with which it passes; none if there are none.
    fn below(
        &mut self,
        subset: Subset,
        current: &Answer,
        most: &mut u64,
    ) -> Result<Option<Answer>, Stop> {
        self.phase = Phase::Bias;
        let (groups, moves): (Vec<usize>, Vec<Move>) = self.savings(current).into_iter().unzip();
        let Some(at) = self.failed_by_least(subset, &moves)? else { return Ok(None) };
        let near = self.near(groups[at]);
        self.climb_biases(subset, current, moves[at].clone(), &near, most)
    }

    /// The first of the most accurate of these, which all fail. Of those that ended early no more than a bound is known,
    /// and how early differs between evaluators: so whatever has the greatest bound is asked again, until that one is
    /// no bound.
    fn failed_by_least(&mut self, subset: Subset, moves: &[Move]) -> Result<Option<usize>, Stop> {
        let threshold = self.threshold(subset);
        let mut candidates = self.candidates(subset, moves.to_vec(), Some(threshold))?;
        // Of equals the first, be it a bound or not.
        while let Some(at) = best(&candidates, |a, b| a.accuracy.total_cmp(&b.accuracy)) {
            if !candidates[at].is_bound {
                return Ok(Some(at));
            }
            candidates[at] = self.candidates(subset, vec![moves[at].clone()], None)?.remove(0);
        }
        Ok(None)
    }

    /// Slots of a group's layers and of those beside them.
    fn near(&self, group: usize) -> Vec<usize> {
        let layer = |at: usize| self.space.slots[at].layer;
        let of_group = &self.space.groups[group].slots;
        let is_near = |at: &usize| of_group.iter().any(|own| layer(*own).abs_diff(layer(*at)) <= 1);
        (0..self.space.slots.len()).filter(is_near).collect()
    }

    /// From a narrower configuration that fails: each bias up or down, and again, until it passes or nothing gains.
    fn climb_biases(
        &mut self,
        subset: Subset,
        from: &Answer,
        found: Move,
        near: &[usize],
        most: &mut u64,
    ) -> Result<Option<Answer>, Stop> {
        let threshold = self.threshold(subset);
        let change = found.change.clone();
        let candidates = self.candidates(subset, vec![found], None)?;
        let [accuracy, least] = [candidates[0].accuracy, threshold].map(shown);
        let why = format!("from accuracy {accuracy} biases may lead back to {least}");
        let Some(mut now) =
            self.decide(subset, "does it pass with other biases?", candidates, Some((0, why)))
        else {
            return Ok(None);
        };
        // Which way each slot went last: it is asked first.
        let mut ways = vec![1; near.len()];
        let (mut at, mut still) = (0, 0);
        while still < near.len() && now.accuracy < threshold {
            let mut is_better = false;
            for by in [ways[at], -ways[at]] {
                while let Some(better) =
                    self.step_up(subset, &now, &change, (near[at], by), most)?
                {
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

    /// One bias further, if that is more accurate; of a configuration that passes, nothing is asked.
    fn step_up(
        &mut self,
        subset: Subset,
        now: &Answer,
        change: &str,
        (slot, by): (usize, i32),
        most: &mut u64,
    ) -> Result<Option<Answer>, Stop> {
        let found = self.space.bias(&now.assignment, slot, by);
        let Some(mut found) = found.filter(|_| *most > 0) else { return Ok(None) };
        if now.accuracy >= self.threshold(subset) {
            return Ok(None);
        }
        *most -= 1;
        found.change = format!("{change}, {}", found.change);
        let mut candidates = self.candidates(subset, vec![found], Some(now.accuracy.next_up()))?;
        let [accuracy, least] = [candidates[0].accuracy, now.accuracy].map(shown);
        candidates[0].why = format!("accuracy {accuracy} is no better than {least}");
        let is_better = candidates[0].accuracy > now.accuracy;
        let taken = is_better.then(|| (0, format!("accuracy {accuracy} is above {least}")));
        Ok(self.decide(subset, "and with this bias?", candidates, taken))
    }
}
