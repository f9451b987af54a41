//! Start of the second pass: widens what is too narrow for the full set of samples.
//!
//! The thesis evaluates all neighbors, takes the best, and repeats this until one passes. A long
//! network then needs hundreds of evaluations of the full set, mostly of neighbors that were as
//! good or bad one bit before. Here the neighbors are evaluated once. If none passes, they are
//! ranked by accuracy gained per cost and combined: the first two, four, eight, all of them, all
//! with one more bit, until the combination passes. Then the smallest combination that passes is
//! found by bisection. Fine-tuning narrows again what this made too wide.

use std::cmp::Ordering;

use super::fine::best;
use super::moves::Move;
use super::step::{Candidate, Phase, accepted};
use super::trial::{Stop, Subset};
use super::{Trials, TuneAnswer};
use crate::assignment::Assignment;

/// A kind of change that may raise the accuracy.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RecoveryMove {
    /// The group gets its next wider format.
    Wider(usize),
    /// The EXP group becomes a wider FIXED.
    Finer(usize),
    /// The slot's bias is lowered by one, which doubles its range.
    Range(usize),
}

impl RecoveryMove {
    fn group(self) -> Option<usize> {
        match self {
            Self::Wider(group) | Self::Finer(group) => Some(group),
            Self::Range(_) => None,
        }
    }
}

impl Trials<'_, '_> {
    /// Widens formats and ranges until the accuracy suffices on the full set.
    pub fn recover(&mut self, from: &TuneAnswer) -> Result<TuneAnswer, Stop> {
        self.phase = Phase::Recovery;
        self.remaining = 2 + (self.space.slots.len() + self.space.groups.len()) as u64;
        let base = self.begin(Subset::Full)?;
        self.widen(from, base)
    }

    /// Widens formats and ranges until the accuracy suffices on the full set, which was begun.
    /// Returns `base` if nothing does.
    pub(super) fn widen(
        &mut self,
        from: &TuneAnswer,
        base: TuneAnswer,
    ) -> Result<TuneAnswer, Stop> {
        let question = "is the answer of the small set good enough for the full one?";
        let change = format!("the answer so far, {}", from.assignment);
        let found =
            self.try_one(question, Move { change, assignment: from.assignment.clone() }, None)?;
        let now = match found {
            (Some(found), _) => return Ok(found),
            (None, now) => now,
        };
        let (kinds, moves): (Vec<RecoveryMove>, Vec<Move>) =
            self.recovery_moves(&now.assignment).into_iter().unzip();
        if moves.is_empty() {
            return Ok(base);
        }
        // The loss of moves that gain nothing does not matter, so their evaluation may end early.
        let candidates = self.candidates(Subset::Full, moves, Some(now.accuracy.next_up()))?;
        let ranking = ranking(&kinds, &candidates, &now);
        if let Some(found) = self.choose_passing(candidates, &now) {
            return Ok(found);
        }
        let ladder = self.ladder(&now.assignment, &ranking);
        Ok(self.climb(&ladder)?.unwrap_or(base))
    }

    /// Returns all changes that may raise the accuracy.
    fn recovery_moves(&self, from: &Assignment) -> Vec<(RecoveryMove, Move)> {
        let groups = || 0..self.space.groups.len();
        let wider = groups().map(RecoveryMove::Wider).chain(groups().map(RecoveryMove::Finer));
        let all = wider.chain((0..self.space.slots.len()).map(RecoveryMove::Range));
        all.filter_map(|kind| Some((kind, self.apply(from, kind)?))).collect()
    }

    fn apply(&self, from: &Assignment, kind: RecoveryMove) -> Option<Move> {
        match kind {
            RecoveryMove::Wider(group) => self.space.wider(from, group),
            RecoveryMove::Finer(group) => self.space.finer(from, group),
            RecoveryMove::Range(slot) => self.space.bias(from, slot, -1),
        }
    }

    /// Accepts the smallest candidate that passes (SPEC A19).
    fn choose_passing(
        &mut self,
        mut candidates: Vec<Candidate>,
        now: &TuneAnswer,
    ) -> Option<TuneAnswer> {
        let threshold = self.threshold(Subset::Full);
        let passing = best(&candidates, |a, b| {
            let can = |candidate: &Candidate| candidate.accuracy >= threshold;
            let by_size = b.objective.total_cmp(&a.objective);
            can(a).cmp(&can(b)).then(by_size).then(a.accuracy.total_cmp(&b.accuracy))
        });
        let passing = passing.filter(|at| candidates[*at].accuracy >= threshold);
        let metric = self.network().metric.clone();
        let words = |candidate: &Candidate| {
            let gained = metric.signed(candidate.accuracy - now.accuracy);
            let cost = candidate.objective - now.objective;
            format!("changes accuracy by {gained:+.5} and the objective by {cost:+.0}")
        };
        let accepted =
            passing.map(|at| (at, format!("{}: the smallest that passes", words(&candidates[at]))));
        let whys: Vec<String> = candidates.iter().map(words).collect();
        for (candidate, why) in candidates.iter_mut().zip(whys) {
            candidate.why = format!("{why}: another one does better");
        }
        let question = "which additional bit or larger range restores the accuracy?";
        self.decide(Subset::Full, question, candidates, accepted)
    }

    /// Returns assignments that apply the changes of the ranking one after the other, each on top
    /// of the last. After that, each group of the ranking is widened bit by bit until nothing can
    /// be wider.
    fn ladder(&self, from: &Assignment, ranking: &[RecoveryMove]) -> Vec<Assignment> {
        let mut ladder: Vec<Assignment> = Vec::new();
        let mut now = from.clone();
        let mut is_first = true;
        loop {
            let before = ladder.len();
            for kind in ranking {
                let further = match kind.group() {
                    Some(group) if !is_first => RecoveryMove::Wider(group),
                    None if !is_first => continue,
                    _ => *kind,
                };
                if let Some(next) = self.apply(&now, further) {
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

    /// Finds the lowest step of a ladder that passes, assuming that accuracy rises along it: by
    /// doubling, then by bisection. The first step is known to fail. Returns `None` if the last one
    /// fails.
    fn climb(&mut self, ladder: &[Assignment]) -> Result<Option<TuneAnswer>, Stop> {
        let mut failed = 1;
        let mut step = 2.min(ladder.len());
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
            match self.try_step("are fewer of these changes enough?", ladder, middle)? {
                Some(found) => (answer, passed) = (found, middle),
                None => failed = middle,
            }
        }
        Ok(Some(answer))
    }

    /// Evaluates step `count` of a ladder, counted from 1.
    fn try_step(
        &mut self,
        question: &str,
        ladder: &[Assignment],
        count: usize,
    ) -> Result<Option<TuneAnswer>, Stop> {
        let assignment = ladder[count - 1].clone();
        let change = format!("{count} in the order of what they gained, {assignment}");
        let threshold = self.threshold(Subset::Full);
        Ok(self.try_one(question, Move { change, assignment }, Some(threshold))?.0)
    }

    /// Evaluates one move on the full set. Returns the answer if it passes, and what was evaluated
    /// in any case.
    fn try_one(
        &mut self,
        question: &str,
        found: Move,
        decides: Option<f64>,
    ) -> Result<(Option<TuneAnswer>, TuneAnswer), Stop> {
        let threshold = self.threshold(Subset::Full);
        let assignment = found.assignment.clone();
        let candidates = self.candidates(Subset::Full, vec![found], decides)?;
        let Candidate { accuracy, objective, .. } = candidates[0];
        let accepted = accepted(accuracy, threshold);
        let answer = self.decide(Subset::Full, question, candidates, accepted);
        Ok((answer, TuneAnswer { assignment, objective, accuracy, subset: Subset::Full }))
    }

    /// Returns the answer of the coarse search if it passes on the full set and is smaller than the
    /// recovered one.
    pub fn no_worse_than(
        &mut self,
        coarse: TuneAnswer,
        found: TuneAnswer,
    ) -> Result<TuneAnswer, Stop> {
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
        let accepted = is_good.then(|| (0, "it is smaller, and passes".to_owned()));
        let question = "is the answer of the coarse search good enough, and smaller?";
        Ok(self.decide(Subset::Full, question, candidates, accepted).unwrap_or(found))
    }
}

/// Sorts changes by accuracy gained per cost. Each group occurs once, and ranges only if they gain.
/// Changes that gain nothing alone come last, the cheapest first.
fn ranking(
    kinds: &[RecoveryMove],
    candidates: &[Candidate],
    now: &TuneAnswer,
) -> Vec<RecoveryMove> {
    let costs = candidates.iter().map(|candidate| candidate.objective - now.objective);
    // A bias costs nothing. Half of the least cost of a bit keeps its ratio finite.
    let least = costs.filter(|cost| *cost > 0.0).fold(f64::INFINITY, f64::min);
    let floor = if least.is_finite() { least / 2.0 } else { 1.0 };
    let cost = |at: usize| candidates[at].objective - now.objective;
    let ratio = |at: usize| {
        let gained = candidates[at].accuracy - now.accuracy;
        (gained > 0.0).then(|| gained / cost(at).max(floor))
    };
    let mut places: Vec<usize> = (0..kinds.len())
        .filter(|at| kinds[*at].group().is_some() || ratio(*at).is_some())
        .collect();
    places.sort_by(|a, b| {
        let by_ratio = ratio(*b).partial_cmp(&ratio(*a)).unwrap_or(Ordering::Equal);
        by_ratio.then(cost(*a).total_cmp(&cost(*b)))
    });
    let mut ranking: Vec<RecoveryMove> = Vec::new();
    for at in places {
        let group = kinds[at].group();
        if group.is_none() || ranking.iter().all(|kind| kind.group() != group) {
            ranking.push(kinds[at]);
        }
    }
    ranking
}
