//! The second pass begins: what a part of the samples allowed may be too little for all of them.

use super::fine::best;
use super::moves::Move;
use super::step::{Candidate, Phase, shown};
use super::trial::{Stop, Subset};
use super::{Answer, Trials};
use crate::assignment::Assignment;

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

    /// Where the answer of the small set fails on the full one, and so do its neighbours, the first pass has left a way of answers, each
    /// smaller than the one before it: the last of them that passes is found by halves. That is a few evaluations,
    /// where widening asks for every group and every range at each step; and what was given back too much, the
    /// second fine-tuning takes again. If not even the coarse answer passes, it is widened.
    pub fn go_back(&mut self, coarse: &Answer, from: Answer) -> Result<Answer, Stop> {
        let accepted = self.steps.iter().flat_map(|step| &step.candidates);
        let accepted = accepted.filter(|candidate| candidate.is_accepted);
        let mut way: Vec<Assignment> = accepted.map(|found| found.assignment.clone()).collect();
        let first = way.iter().rposition(|found| *found == coarse.assignment).unwrap_or(0);
        way.drain(..first);
        self.phase = Phase::Recovery;
        self.remaining = 2 + u64::from(way.len().max(1).ilog2());
        self.begin(Subset::Full)?;
        let question = "is the answer of the small set good enough for the full one?";
        if let Some(found) = self.pass(question, "the answer so far", from.assignment.clone())? {
            return Ok(found);
        }
        if let Some(found) = self.widen_once(&from.assignment)? {
            return Ok(found);
        }
        let question = "is the coarse answer good enough for the full set?";
        let Some(mut best) = self.pass(question, "the coarse answer", coarse.assignment.clone())?
        else {
            return self.recover(coarse.clone());
        };
        let (mut passed, mut failed) = (0, way.len().saturating_sub(1));
        while failed > passed + 1 {
            let middle = passed.midpoint(failed);
            let question =
                "how far back on the way from there does the full set keep its accuracy?";
            match self.pass(question, "an answer on the way", way[middle].clone())? {
                Some(found) => (best, passed) = (found, middle),
                None => failed = middle,
            }
        }
        Ok(best)
    }

    /// The smallest neighbour that passes on the full set, with a bit more for a group or a range more for an
    /// object.
    fn widen_once(&mut self, from: &Assignment) -> Result<Option<Answer>, Stop> {
        let mut moves = self.space.biases(from, -1);
        moves.extend(self.space.wider(from));
        // Ranges cost nothing, so they come first; the first that passes is the smallest.
        let cost = |found: &Move| self.objective(&found.assignment, None);
        moves.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        let question = "does a range more, or a bit more, bring the accuracy back?";
        for found in moves {
            let change = found.change.clone();
            if let Some(found) = self.pass(question, &change, found.assignment)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// One candidate on the full set, taken if it passes.
    fn pass(
        &mut self,
        question: &str,
        what: &str,
        assignment: Assignment,
    ) -> Result<Option<Answer>, Stop> {
        let threshold = self.threshold(Subset::Full);
        let moves = vec![Move { change: format!("{what}, {assignment}"), assignment }];
        let candidates = self.candidates(Subset::Full, moves, Some(threshold))?;
        let accuracy = candidates[0].accuracy;
        let taken = (accuracy >= threshold)
            .then(|| (0, format!("accuracy {} is at least {}", shown(accuracy), shown(threshold))));
        Ok(self.decide(Subset::Full, question, candidates, taken))
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
