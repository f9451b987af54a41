//! The second pass begins: what a part of the samples allowed may be too little for all of them.

use super::fine::best;
use super::moves::Move;
use super::step::{Candidate, Phase, shown};
use super::trial::{Stop, Subset};
use super::{Answer, Trials};

impl Trials<'_, '_> {
    /// Widens formats and ranges until the full set has its accuracy.
    pub fn recover(&mut self, from: Answer) -> Result<Answer, Stop> {
        self.phase = Phase::Recovery;
        self.remaining = 2 + (self.space.slots.len() + self.space.groups.len()) as u64;
        let base = self.begin(Subset::Full)?;
        let threshold = self.threshold(Subset::Full);
        let question = "is the answer of the small set good enough for the full one?";
        let change = format!("the answer so far, {}", from.assignment);
        let moves = vec![Move { change, assignment: from.assignment }];
        let candidates = self.candidates(Subset::Full, moves, None)?;
        let [Candidate { accuracy, objective, ref assignment, .. }] = candidates[..] else {
            unreachable!("one move is one candidate")
        };
        let mut current =
            Answer { assignment: assignment.clone(), objective, accuracy, subset: Subset::Full };
        let passes = accuracy >= threshold;
        let taken = passes
            .then(|| (0, format!("accuracy {} is at least {}", shown(accuracy), shown(threshold))));
        if let Some(found) = self.decide(Subset::Full, question, candidates, taken) {
            return Ok(found);
        }
        let mut visited = vec![current.assignment.clone()];
        loop {
            let mut moves = self.space.wider(&current.assignment);
            moves.extend(self.space.biases(&current.assignment, -1));
            moves.retain(|found| !visited.contains(&found.assignment));
            if moves.is_empty() {
                return Ok(base);
            }
            let candidates = self.candidates(Subset::Full, moves, None)?;
            let (found, passes) = self.choose_wider(candidates, &current);
            if passes {
                return Ok(found);
            }
            visited.push(found.assignment.clone());
            current = found;
        }
    }

    /// The smallest one that passes (SPEC A19); else the one that gains most accuracy for what it costs.
    fn choose_wider(&mut self, mut candidates: Vec<Candidate>, current: &Answer) -> (Answer, bool) {
        let threshold = self.threshold(Subset::Full);
        let costs = candidates.iter().map(|candidate| candidate.objective - current.objective);
        // A bias costs nothing: half of the least that a bit costs keeps its ratio finite.
        let least = costs.filter(|cost| *cost > 0.0).fold(f64::INFINITY, f64::min);
        let floor = if least.is_finite() { least / 2.0 } else { 1.0 };
        let gain = |candidate: &Candidate| candidate.accuracy - current.accuracy;
        let ratio = |candidate: &Candidate| {
            gain(candidate) / (candidate.objective - current.objective).max(floor)
        };
        let passing = best(&candidates, |a, b| {
            let can = |candidate: &Candidate| candidate.accuracy >= threshold;
            let by_size = b.objective.total_cmp(&a.objective);
            can(a).cmp(&can(b)).then(by_size).then(a.accuracy.total_cmp(&b.accuracy))
        });
        let passing = passing.filter(|at| candidates[*at].accuracy >= threshold);
        let best = best(&candidates, |a, b| {
            // Where nothing gains, a bit more leads on, and a bias less may lead round in circles.
            let helps = |candidate: &Candidate| {
                (gain(candidate) > 0.0, candidate.objective > current.objective)
            };
            let (a_helps, b_helps) = (helps(a), helps(b));
            a_helps.0.cmp(&b_helps.0).then_with(|| match a_helps.0 {
                true => ratio(a).total_cmp(&ratio(b)),
                false => a_helps.1.cmp(&b_helps.1).then(ratio(a).total_cmp(&ratio(b))),
            })
        });
        let at = passing.or(best).expect("there is a candidate");
        let words = |candidate: &Candidate| {
            let (gained, cost) = (gain(candidate), candidate.objective - current.objective);
            format!("changes accuracy by {gained:+.5} and the objective by {cost:+.0}")
        };
        let why = match passing {
            Some(_) => format!("{}: the smallest that passes", words(&candidates[at])),
            None => format!("{}: the most accuracy for its size", words(&candidates[at])),
        };
        let whys: Vec<String> = candidates.iter().map(words).collect();
        for (candidate, why) in candidates.iter_mut().zip(whys) {
            candidate.why = format!("{why}: another one does better");
        }
        let question = "which bit more, or range more, brings the accuracy back?";
        let found = self.decide(Subset::Full, question, candidates, Some((at, why)));
        (found.expect("one was taken"), passing.is_some())
    }

    /// What the first pass found before it was fine-tuned may do for the full set, and be smaller than what
    /// came of recovering.
    pub fn no_worse_than(&mut self, coarse: Answer, found: Answer) -> Result<Answer, Stop> {
        if coarse.objective >= found.objective {
            return Ok(found);
        }
        self.phase = Phase::Recovery;
        let threshold = self.threshold(Subset::Full);
        let change = format!("the answer of the coarse search, {}", coarse.assignment);
        let moves = vec![Move { change, assignment: coarse.assignment }];
        let candidates = self.candidates(Subset::Full, moves, Some(threshold))?;
        let is_good =
            candidates[0].accuracy >= threshold && candidates[0].objective < found.objective;
        let taken = is_good.then(|| (0, "it is smaller, and passes".to_owned()));
        let question = "is the answer of the coarse search good enough, and smaller?";
        Ok(self.decide(Subset::Full, question, candidates, taken).unwrap_or(found))
    }
}
