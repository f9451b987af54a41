//! The second pass begins: what a part of the samples allowed may be too little for all of them.
//!
//! The thesis evaluates all neighbours, takes the best, and begins again until one passes. In a long network
//! that is hundreds of evaluations of the full set, most of them of neighbours that were as good or bad one bit
//! before. Here the neighbours are evaluated once. Where none passes, they are ranked by the accuracy that they
//! gain for what they cost, and taken together: the first two, four, eight of them, all, all with a bit more,
//! until enough of them pass; then the fewest that do are bisected. What that makes too wide, fine-tuning
//! takes back.

use std::cmp::Ordering;

use super::fine::best;
use super::moves::Move;
use super::step::{Candidate, Phase, shown};
use super::trial::{Stop, Subset};
use super::{Answer, Trials};
use crate::assignment::Assignment;

/// A way to more accuracy, from wherever one is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// The next wider format of a group.
    Wider(usize),
    /// FIXED for a group of EXP, of a bit more.
    Finer(usize),
    /// A bias less of a slot: twice the range.
    Range(usize),
}

impl Way {
    fn group(self) -> Option<usize> {
        match self {
            Self::Wider(group) | Self::Finer(group) => Some(group),
            Self::Range(_) => None,
        }
    }
}

impl Trials<'_, '_> {
    /// Widens formats and ranges until the full set has its accuracy.
    pub fn recover(&mut self, from: &Answer) -> Result<Answer, Stop> {
        self.phase = Phase::Recovery;
        self.remaining = 2 + (self.space.slots.len() + self.space.groups.len()) as u64;
        let base = self.begin(Subset::Full)?;
        let question = "is the answer of the small set good enough for the full one?";
        let change = format!("the answer so far, {}", from.assignment);
        let found =
            self.try_one(question, Move { change, assignment: from.assignment.clone() }, None)?;
        let now = match found {
            (Some(found), _) => return Ok(found),
            (None, now) => now,
        };
        let (ways, moves): (Vec<Way>, Vec<Move>) = self.ways(&now.assignment).into_iter().unzip();
        if moves.is_empty() {
            return Ok(base);
        }
        // Of those that gain nothing it is the same how much they lose.
        let candidates = self.candidates(Subset::Full, moves, Some(now.accuracy.next_up()))?;
        let ranking = ranking(&ways, &candidates, &now);
        if let Some(found) = self.choose_passing(candidates, &now) {
            return Ok(found);
        }
        let ladder = self.ladder(&now.assignment, &ranking);
        Ok(self.climb(&ladder)?.unwrap_or(base))
    }

    /// Everything that may bring accuracy back.
    fn ways(&self, from: &Assignment) -> Vec<(Way, Move)> {
        let groups = || 0..self.space.groups.len();
        let wider = groups().map(Way::Wider).chain(groups().map(Way::Finer));
        let all = wider.chain((0..self.space.slots.len()).map(Way::Range));
        all.filter_map(|way| Some((way, self.go(from, way)?))).collect()
    }

    fn go(&self, from: &Assignment, way: Way) -> Option<Move> {
        match way {
            Way::Wider(group) => self.space.wider(from, group),
            Way::Finer(group) => self.space.finer(from, group),
            Way::Range(slot) => self.space.bias(from, slot, -1),
        }
    }

    /// The smallest one that passes (SPEC A19).
    fn choose_passing(&mut self, mut candidates: Vec<Candidate>, now: &Answer) -> Option<Answer> {
        let threshold = self.threshold(Subset::Full);
        let passing = best(&candidates, |a, b| {
            let can = |candidate: &Candidate| candidate.accuracy >= threshold;
            let by_size = b.objective.total_cmp(&a.objective);
            can(a).cmp(&can(b)).then(by_size).then(a.accuracy.total_cmp(&b.accuracy))
        });
        let passing = passing.filter(|at| candidates[*at].accuracy >= threshold);
        let words = |candidate: &Candidate| {
            let gained = candidate.accuracy - now.accuracy;
            let cost = candidate.objective - now.objective;
            format!("changes accuracy by {gained:+.5} and the objective by {cost:+.0}")
        };
        let taken =
            passing.map(|at| (at, format!("{}: the smallest that passes", words(&candidates[at]))));
        let whys: Vec<String> = candidates.iter().map(words).collect();
        for (candidate, why) in candidates.iter_mut().zip(whys) {
            candidate.why = format!("{why}: another one does better");
        }
        let question = "which bit more, or range more, brings the accuracy back?";
        self.decide(Subset::Full, question, candidates, taken)
    }

    /// One way after the other, each from where the last one led: the ranking, and then the groups of it a bit
    /// further each time, until nothing can be wider.
    fn ladder(&self, from: &Assignment, ranking: &[Way]) -> Vec<Assignment> {
        let mut ladder: Vec<Assignment> = Vec::new();
        let mut now = from.clone();
        let mut is_first = true;
        loop {
            let before = ladder.len();
            for way in ranking {
                let further = match way.group() {
                    Some(group) if !is_first => Way::Wider(group),
                    None if !is_first => continue,
                    _ => *way,
                };
                if let Some(next) = self.go(&now, further) {
                    now = next.assignment;
                    ladder.push(now.clone());
                }
            }
            is_first = false;
            if ladder.len() == before {
                return ladder;
            }
        }
    }

    /// The lowest step of a ladder that passes, if more of it is better: by doubling, then by bisection. Its
    /// first step is known to fail. None if its last one does.
    fn climb(&mut self, ladder: &[Assignment]) -> Result<Option<Answer>, Stop> {
        let (mut failed, mut step) = (1, 2.min(ladder.len()));
        let mut found = None;
        while failed < ladder.len() && found.is_none() {
            let question = "which of them together are enough? Twice as many";
            found = self.try_step(question, ladder, step)?.map(|answer| (answer, step));
            if found.is_none() {
                failed = step;
                step = (2 * step).min(ladder.len());
            }
        }
        let Some((mut answer, mut passed)) = found else { return Ok(None) };
        while passed - failed > 1 {
            let middle = failed.midpoint(passed);
            match self.try_step("and fewer than these?", ladder, middle)? {
                Some(found) => (answer, passed) = (found, middle),
                None => failed = middle,
            }
        }
        Ok(Some(answer))
    }

    /// The first so many of a ladder.
    fn try_step(
        &mut self,
        question: &str,
        ladder: &[Assignment],
        count: usize,
    ) -> Result<Option<Answer>, Stop> {
        let assignment = ladder[count - 1].clone();
        let change = format!("{count} in the order of what they gained, {assignment}");
        let threshold = self.threshold(Subset::Full);
        Ok(self.try_one(question, Move { change, assignment }, Some(threshold))?.0)
    }

    /// Whether one move passes on the full set; and what it is, also if not.
    fn try_one(
        &mut self,
        question: &str,
        found: Move,
        decides: Option<f64>,
    ) -> Result<(Option<Answer>, Answer), Stop> {
        let threshold = self.threshold(Subset::Full);
        let assignment = found.assignment.clone();
        let candidates = self.candidates(Subset::Full, vec![found], decides)?;
        let Candidate { accuracy, objective, .. } = candidates[0];
        let taken = (accuracy >= threshold)
            .then(|| (0, format!("accuracy {} is at least {}", shown(accuracy), shown(threshold))));
        let answer = self.decide(Subset::Full, question, candidates, taken);
        Ok((answer, Answer { assignment, objective, accuracy, subset: Subset::Full }))
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

/// Ways by the accuracy that they gain for what they cost; each group once, and ranges only if they gain. What
/// gains nothing alone comes last, the cheapest first.
fn ranking(ways: &[Way], candidates: &[Candidate], now: &Answer) -> Vec<Way> {
    let costs = candidates.iter().map(|candidate| candidate.objective - now.objective);
    // A bias costs nothing: half of the least that a bit costs keeps its ratio finite.
    let least = costs.filter(|cost| *cost > 0.0).fold(f64::INFINITY, f64::min);
    let floor = if least.is_finite() { least / 2.0 } else { 1.0 };
    let cost = |at: usize| candidates[at].objective - now.objective;
    let ratio = |at: usize| {
        let gained = candidates[at].accuracy - now.accuracy;
        (gained > 0.0).then(|| gained / cost(at).max(floor))
    };
    let mut places: Vec<usize> =
        (0..ways.len()).filter(|at| ways[*at].group().is_some() || ratio(*at).is_some()).collect();
    places.sort_by(|a, b| {
        let by_ratio = ratio(*b).partial_cmp(&ratio(*a)).unwrap_or(Ordering::Equal);
        by_ratio.then(cost(*a).total_cmp(&cost(*b)))
    });
    let mut ranking: Vec<Way> = Vec::new();
    for at in places {
        let group = ways[at].group();
        if group.is_none() || ranking.iter().all(|way| way.group() != group) {
            ranking.push(ways[at]);
        }
    }
    ranking
}
