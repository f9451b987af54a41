//! Raises biases by one: half the range, and steps half as large.

use super::fine::best;
use super::moves::Move;
use super::step::{Candidate, Phase, format_accuracy};
use super::trial::{Stop, Subset};
use super::{BiasRule, Trials, TuneAnswer};

impl Trials<'_, '_> {
    /// Raises biases by the rule of the settings, as long as one of them keeps enough accuracy.
    pub(super) fn tune_biases(
        &mut self,
        subset: Subset,
        from: TuneAnswer,
    ) -> Result<TuneAnswer, Stop> {
        self.phase = Phase::Bias;
        let mut current = from;
        while let Some((better, others)) = self.best_bias(subset, &current)? {
            current = better;
            // One evaluation for each of the others, instead of one for each slot.
            if self.settings.bias_rule == BiasRule::WhenNeeded {
                return self.stack_biases(subset, current, &others);
            }
        }
        Ok(current)
    }

    /// Returns the least accuracy at which a bias is accepted.
    fn least(&self, subset: Subset, current: &TuneAnswer) -> f64 {
        let threshold = self.threshold(subset);
        match self.settings.bias_rule {
            BiasRule::Literal => threshold,
            // SPEC A20: accepting every bias that passes would tighten ranges until hardly anything
            // passes.
            BiasRule::NoWorse | BiasRule::WhenNeeded => threshold.max(current.accuracy),
        }
    }

    /// Raises the bias with the highest accuracy. Also returns the slots of the other biases that
    /// would be accepted, best first.
    fn best_bias(
        &mut self,
        subset: Subset,
        current: &TuneAnswer,
    ) -> Result<Option<(TuneAnswer, Vec<usize>)>, Stop> {
        let raised = |slot| Some((slot, self.space.bias(&current.assignment, slot, 1)?));
        let found: Vec<(usize, Move)> = (0..self.space.slots.len()).filter_map(raised).collect();
        let (slots, moves): (Vec<usize>, Vec<Move>) = found.into_iter().unzip();
        if moves.is_empty() {
            return Ok(None);
        }
        let least = self.least(subset, current);
        let mut candidates = self.candidates(subset, moves, Some(least))?;
        let can = |candidate: &Candidate| candidate.accuracy >= least;
        let best = best(&candidates, |a, b| a.accuracy.total_cmp(&b.accuracy));
        let best = best.filter(|at| can(&candidates[*at]));
        let why = |at: usize| {
            let [accuracy, least] = [candidates[at].accuracy, least].map(format_accuracy);
            format!("accuracy {accuracy} is the highest, and no lower than {least}")
        };
        let accepted = best.map(|at| (at, why(at)));
        let mut others: Vec<usize> = (0..slots.len()).filter(|at| can(&candidates[*at])).collect();
        others.retain(|at| Some(*at) != best);
        others.sort_by(|a, b| candidates[*b].accuracy.total_cmp(&candidates[*a].accuracy));
        for candidate in &mut candidates {
            let accuracy = format_accuracy(candidate.accuracy);
            candidate.why = if can(candidate) {
                format!("accuracy {accuracy}, another one is higher or comes first")
            } else {
                format!("accuracy {accuracy} is below {}, the current one", format_accuracy(least))
            };
        }
        let question = "does a smaller range with finer steps do better?";
        let answer = self.decide(subset, question, candidates, accepted);
        Ok(answer.map(|answer| (answer, others.iter().map(|at| slots[*at]).collect())))
    }

    /// Tries the biases that were accepted alone on top of each other, one after the other, without
    /// evaluating all biases again. Moves along a plateau are accepted too: they gain no accuracy
    /// on these samples, but their finer steps hold on other samples and for narrower widths.
    fn stack_biases(
        &mut self,
        subset: Subset,
        from: TuneAnswer,
        slots: &[usize],
    ) -> Result<TuneAnswer, Stop> {
        let mut current = from;
        for slot in slots {
            let Some(found) = self.space.bias(&current.assignment, *slot, 1) else { continue };
            let least = self.least(subset, &current);
            let mut candidates = self.candidates(subset, vec![found], Some(least))?;
            let [accuracy, now] = [candidates[0].accuracy, current.accuracy].map(format_accuracy);
            candidates[0].why = format!("accuracy {accuracy} is below {now}, the current one");
            let is_good = candidates[0].accuracy >= least;
            let accepted =
                is_good.then(|| (0, format!("accuracy {accuracy} is no lower than {now}")));
            let question = "does another bias that was good alone also pass in addition?";
            if let Some(better) = self.decide(subset, question, candidates, accepted) {
                current = better;
            }
        }
        Ok(current)
    }
}
