//! Biases one up: half the range, and steps half as wide.

use super::fine::best;
use super::moves::Move;
use super::step::{Candidate, Phase, shown};
use super::trial::{Stop, Subset};
use super::{Answer, BiasRule, Trials};

impl Trials<'_, '_> {
    /// By the rule of the settings, as long as any does well.
    pub(super) fn tune_biases(&mut self, subset: Subset, from: Answer) -> Result<Answer, Stop> {
        self.phase = Phase::Bias;
        let mut current = from;
        while let Some((better, others)) = self.best_bias(subset, &current)? {
            current = better;
            // Each of the others is one evaluation more, and not as many as there are slots.
            if self.settings.bias_rule == BiasRule::WhenNeeded {
                return self.stack_biases(subset, current, &others);
            }
        }
        Ok(current)
    }

    /// The least accuracy with which a bias is taken.
    fn least(&self, subset: Subset, current: &Answer) -> f64 {
        let threshold = self.threshold(subset);
        match self.settings.bias_rule {
            BiasRule::Literal => threshold,
            // SPEC A20: any that passes tightens ranges until hardly anything passes.
            BiasRule::NoWorse | BiasRule::WhenNeeded => threshold.max(current.accuracy),
        }
    }

    /// The most accurate one of all, and the slots of the others that would do as well, the best first.
    fn best_bias(
        &mut self,
        subset: Subset,
        current: &Answer,
    ) -> Result<Option<(Answer, Vec<usize>)>, Stop> {
        let of = |slot| Some((slot, self.space.bias(&current.assignment, slot, 1)?));
        let found: Vec<(usize, Move)> = (0..self.space.slots.len()).filter_map(of).collect();
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
            let [accuracy, least] = [candidates[at].accuracy, least].map(shown);
            format!("accuracy {accuracy} is the highest, and no lower than {least}")
        };
        let taken = best.map(|at| (at, why(at)));
        let mut others: Vec<usize> = (0..slots.len()).filter(|at| can(&candidates[*at])).collect();
        others.retain(|at| Some(*at) != best);
        others.sort_by(|a, b| candidates[*b].accuracy.total_cmp(&candidates[*a].accuracy));
        for candidate in &mut candidates {
            let accuracy = shown(candidate.accuracy);
            candidate.why = match can(candidate) {
                true => format!("accuracy {accuracy}, another one is higher or comes first"),
                false => format!("accuracy {accuracy} is below {}, what there is", shown(least)),
            };
        }
        let question = "does a smaller range with finer steps do better?";
        let answer = self.decide(subset, question, candidates, taken);
        Ok(answer.map(|answer| (answer, others.iter().map(|at| slots[*at]).collect())))
    }

    /// What did as well or better alone is asked on top of each other, one after the other: not all biases
    /// again. Steps along a plateau are taken as well: they gain no accuracy that these samples show, but
    /// finer steps, which hold on other samples and for narrower widths.
    fn stack_biases(
        &mut self,
        subset: Subset,
        from: Answer,
        slots: &[usize],
    ) -> Result<Answer, Stop> {
        let mut current = from;
        for slot in slots {
            let Some(found) = self.space.bias(&current.assignment, *slot, 1) else { continue };
            let least = self.least(subset, &current);
            let mut candidates = self.candidates(subset, vec![found], Some(least))?;
            let [accuracy, now] = [candidates[0].accuracy, current.accuracy].map(shown);
            candidates[0].why = format!("accuracy {accuracy} is below {now}, what there is");
            let is_good = candidates[0].accuracy >= least;
            let taken = is_good.then(|| (0, format!("accuracy {accuracy} is no lower than {now}")));
            let question = "and another bias, which did well alone, on top of it?";
            if let Some(better) = self.decide(subset, question, candidates, taken) {
                current = better;
            }
        }
        Ok(current)
    }
}
