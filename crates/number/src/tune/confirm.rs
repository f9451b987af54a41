//! Confirmation: proves that the answer loses at most the margin, on samples that the search has
//! not seen.
//!
//! An answer of a search is chosen among hundreds of configurations by some samples, and loses more
//! on others. Therefore the search makes a ladder of answers by its own samples: the smallest one,
//! then ones that keep more of the accuracy, then wider ones. The ladder is complete before a
//! held-out sample is looked at. Then its rungs are tested from the widest to the narrowest until one
//! fails; such a fixed order needs no correction for the number of rungs (Maurer, Hothorn and
//! Lehmacher, 1995). The held-out samples are divided into folds if there are many. A rung that
//! fails is tried again on the next fold with half of the level that is left
//! ([`Spending`](crate::confirm::Spending)).

use std::ops::Range;

use dyno_loadgen::compare::probability::binomial_at_least;

use super::moves::Move;
use super::step::Phase;
use super::trial::{Stop, Subset};
use super::{Trials, TuneAnswer};
use crate::assignment::Assignment;
use crate::confirm::{
    LEVEL, PairedCounts, PairedSamples, SampleOutcomes, Spending, fewest_samples,
};

/// What the held-out samples show about the margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarginVerdict {
    /// The loss is at most the margin, with the stated confidence.
    Valid,
    /// The loss is beyond the margin, with the stated confidence.
    Invalid,
    /// The samples are too few for either.
    Undecided,
}

impl MarginVerdict {
    /// Returns the word for display.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Valid => "VALID",
            Self::Invalid => "INVALID",
            Self::Undecided => "UNDECIDED",
        }
    }
}

/// A look at a fold of the held-out samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// Number of the fold, counted from 1.
    pub fold: usize,
    /// Probability of a wrong confirmation that this look may have.
    pub level: f64,
    /// Number of samples in the fold.
    pub samples: u64,
    /// Objective of the configuration.
    pub objective: f64,
    /// Formats of the configuration.
    pub assignment: Assignment,
    /// Share of the metric that the configuration loses on the fold.
    pub loss: f64,
    /// Samples that FLOAT(32) alone answers rightly, and the configuration alone; `None` for scores.
    pub changed: Option<[u64; 2]>,
    /// Whether a loss within the margin is confirmed.
    pub is_confirmed: bool,
}

/// Result of a confirmation.
#[derive(Clone, Debug, PartialEq)]
pub struct Confirmation {
    /// The verdict about the answer.
    pub verdict: MarginVerdict,
    /// Margin that was tested.
    pub margin: f64,
    /// Whole probability of a wrong confirmation.
    pub level: f64,
    /// Number of held-out samples.
    pub held_out: u64,
    /// Smallest margin that the last fold proves for the answer, or that so many samples could
    /// prove at best if none was looked at. Infinite if there is none.
    pub proven_margin: f64,
    /// Number of held-out samples that would be needed, if the verdict is undecided and a number
    /// exists.
    pub needed: Option<u64>,
    /// The looks in order.
    pub looks: Vec<Look>,
    /// Why there was no look; empty if there was one.
    pub problem: String,
}

/// Most folds of the held-out samples.
const MOST_FOLDS: u64 = 3;
/// A fold has at least so many times the fewest samples that can prove the margin.
const FOLD_FACTOR: u64 = 4;
/// Shares of the margin at which the search recovers for further rungs.
const STRICTER: [f64; 3] = [0.5, 0.25, 0.0];
/// Most rungs that are a bit wider everywhere.
const MOST_WIDER: usize = 6;
/// Most rungs between two others.
const MOST_BETWEEN: usize = 4;

/// Returns the number of held-out samples below which a margin cannot be confirmed at all.
#[must_use]
pub fn fewest_held_out(margin: f64) -> u64 {
    fewest_samples(margin, Spending::new(LEVEL).next())
}

/// Divides the held-out samples into folds.
fn folds(count: usize, margin: f64) -> Vec<Range<usize>> {
    let wanted = FOLD_FACTOR.saturating_mul(fewest_held_out(margin));
    let folds = (count as u64 / wanted.max(1)).clamp(1, MOST_FOLDS) as usize;
    (0..folds).map(|at| count * at / folds..count * (at + 1) / folds).collect()
}

impl Trials<'_, '_> {
    /// Finds the smallest answer of a ladder whose loss is confirmed to be within the margin.
    /// Returns `found` if there is none.
    pub(super) fn confirm_margin(&mut self, found: TuneAnswer) -> Result<TuneAnswer, Stop> {
        let margin = self.network().error_margin;
        if found.assignment == self.network().base() {
            // FLOAT(32) loses nothing.
            return Ok(found);
        }
        self.begin(Subset::Confirmation)?;
        let base = self.network().base();
        let Some(outcomes) = self.outcomes_of(&base) else {
            let problem = "the evaluator returns no results of single samples";
            self.confirmation = Some(undecided(margin, 0, None, problem));
            return Ok(found);
        };
        let count = outcomes.len();
        if (count as u64) < fewest_held_out(margin) {
            let right = (outcomes.mean().clamp(0.0, 1.0) * count as f64) as u64;
            let base =
                Confirmation { proven_margin: best_margin(right), ..too_few(margin, count as u64) };
            self.confirmation = Some(base);
            return Ok(found);
        }
        let rungs = self.rungs(&found)?;
        self.phase = Phase::Confirmation;
        let mut spending = Spending::new(LEVEL);
        let mut looks: Vec<(Look, PairedSamples)> = Vec::new();
        let mut confirmed = None;
        let mut left = rungs.len();
        for (at, fold) in folds(count, margin).into_iter().enumerate() {
            let level = spending.next();
            while left > 0 {
                let rung = &rungs[left - 1];
                let (look, paired) = self.look(rung, (at + 1, fold.clone()), &outcomes, level)?;
                let is_confirmed = look.is_confirmed;
                looks.push((look, paired));
                if !is_confirmed {
                    break;
                }
                left -= 1;
                confirmed = Some((left, looks.len() - 1));
            }
        }
        Ok(self.conclude(found, &rungs, looks, confirmed, count as u64))
    }

    fn outcomes_of(&self, assignment: &Assignment) -> Option<SampleOutcomes> {
        self.known(Subset::Confirmation, assignment)?.outcomes.clone()
    }

    /// Looks at a fold for one configuration.
    fn look(
        &mut self,
        rung: &TuneAnswer,
        (fold, part): (usize, Range<usize>),
        base: &SampleOutcomes,
        level: f64,
    ) -> Result<(Look, PairedSamples), Stop> {
        let margin = self.network().error_margin;
        let change = format!("{}", rung.assignment);
        let moves = vec![Move { change, assignment: rung.assignment.clone() }];
        let mut candidates = self.candidates(Subset::Confirmation, moves, None)?;
        let tuned = self.outcomes_of(&rung.assignment);
        let tuned =
            tuned.ok_or_else(|| Stop::Failed("a trial has no results of samples".into()))?;
        let paired =
            PairedSamples::new(base, &tuned, part, &self.network().metric).map_err(Stop::Failed)?;
        let is_confirmed = paired.confirms(margin, level);
        let changed = match &paired {
            PairedSamples::Right(PairedCounts { broken, fixed, .. }) => Some([*broken, *fixed]),
            PairedSamples::Scores { .. } => None,
        };
        let look = Look {
            fold,
            level,
            samples: paired.samples(),
            objective: rung.objective,
            assignment: rung.assignment.clone(),
            loss: paired.loss(),
            changed,
            is_confirmed,
        };
        let why = words(&look, margin);
        candidates[0].why.clone_from(&why);
        let question = format!(
            "is the loss at most {} % on samples that the search has not seen (fold {fold}, {} samples)?",
            percent(margin),
            look.samples
        );
        let accepted = is_confirmed.then_some((0, why));
        self.decide(Subset::Confirmation, &question, candidates, accepted);
        Ok((look, paired))
    }

    fn conclude(
        &mut self,
        found: TuneAnswer,
        rungs: &[TuneAnswer],
        looks: Vec<(Look, PairedSamples)>,
        confirmed: Option<(usize, usize)>,
        held_out: u64,
    ) -> TuneAnswer {
        let margin = self.network().error_margin;
        let (verdict, answer, about) = match confirmed {
            Some((rung, look)) => (MarginVerdict::Valid, rungs[rung].clone(), looks.get(look)),
            None => {
                let last = looks.last();
                let is_beyond =
                    last.is_some_and(|(look, paired)| is_beyond(paired, margin, look.level));
                let verdict =
                    if is_beyond { MarginVerdict::Invalid } else { MarginVerdict::Undecided };
                (verdict, found, last)
            }
        };
        let proven_margin =
            about.map_or(f64::INFINITY, |(look, paired)| paired.smallest_margin(look.level));
        let needed = about
            .filter(|_| verdict == MarginVerdict::Undecided)
            .and_then(|(look, paired)| paired.needed(margin, look.level));
        self.confirmed =
            self.known(Subset::Confirmation, &answer.assignment).map(|known| known.accuracy);
        self.confirmation = Some(Confirmation {
            verdict,
            margin,
            level: LEVEL,
            held_out,
            proven_margin,
            needed,
            looks: looks.into_iter().map(|(look, _)| look).collect(),
            problem: String::new(),
        });
        answer
    }

    /// Returns a ladder of answers: the smallest first, each further one wider. Held-out samples
    /// have no part in it.
    fn rungs(&mut self, found: &TuneAnswer) -> Result<Vec<TuneAnswer>, Stop> {
        let mut rungs = vec![found.clone()];
        if found.subset == Subset::Full {
            for share in STRICTER {
                let last = rungs[rungs.len() - 1].clone();
                rungs.extend(self.stricter(&last, share)?);
            }
        }
        let mut last = rungs[rungs.len() - 1].clone();
        for _ in 0..MOST_WIDER {
            let Some(wider) = self.wider_everywhere(&last.assignment) else { break };
            last = self.known_answer(found.subset, wider)?;
            rungs.push(last.clone());
        }
        let mut ladder = Vec::new();
        for (at, rung) in rungs.iter().enumerate() {
            ladder.push(rung.clone());
            if let Some(next) = rungs.get(at + 1) {
                ladder.extend(self.between(rung, next)?);
            }
        }
        let base = self.network().base();
        ladder.retain(|rung| rung.assignment != base);
        ladder.sort_by(|a, b| a.objective.total_cmp(&b.objective));
        ladder.dedup_by(|a, b| a.assignment == b.assignment);
        Ok(ladder)
    }

    /// Recovers an answer under a part of the margin. Returns `None` if that changes nothing.
    fn stricter(&mut self, from: &TuneAnswer, share: f64) -> Result<Option<TuneAnswer>, Stop> {
        let full = Subset::Full;
        let base = self.known_answer(full, self.network().base())?;
        self.phase = Phase::Recovery;
        let whole = self.narrow_margin(full, share);
        let found = self.widen(from, base).and_then(|found| self.fine_tune(full, found));
        self.restore(full, whole);
        let found = found?;
        Ok((found.objective > from.objective).then_some(found))
    }

    /// Returns an assignment with the next wider format of each group.
    fn wider_everywhere(&self, from: &Assignment) -> Option<Assignment> {
        let mut now = from.clone();
        for group in 0..self.space.groups.len() {
            if let Some(wider) = self.space.wider(&now, group) {
                now = wider.assignment;
            }
        }
        (now != *from).then_some(now)
    }

    /// Evaluates an assignment by the samples of the search.
    fn known_answer(&mut self, subset: Subset, assignment: Assignment) -> Result<TuneAnswer, Stop> {
        let evaluation = self.ask(subset, std::slice::from_ref(&assignment), None)?.remove(0);
        let objective = self.objective(&assignment, Some(&evaluation));
        Ok(TuneAnswer { assignment, objective, accuracy: evaluation.accuracy, subset })
    }

    /// Returns answers between two rungs: groups change one after the other, those that cost least
    /// first.
    fn between(&mut self, narrow: &TuneAnswer, wide: &TuneAnswer) -> Result<Vec<TuneAnswer>, Stop> {
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
                let is_between =
                    rung.objective > narrow.objective && rung.objective < wide.objective;
                found.extend(is_between.then_some(rung));
            }
        }
        Ok(found)
    }
}

fn undecided(margin: f64, held_out: u64, needed: Option<u64>, problem: &str) -> Confirmation {
    Confirmation {
        verdict: MarginVerdict::Undecided,
        margin,
        level: LEVEL,
        held_out,
        proven_margin: f64::INFINITY,
        needed,
        looks: Vec::new(),
        problem: problem.into(),
    }
}

/// Returns the smallest margin that so many right answers prove if none changes.
fn best_margin(right: u64) -> f64 {
    let counts = PairedCounts { both: right, ..PairedCounts::default() };
    PairedSamples::Right(counts).smallest_margin(Spending::new(LEVEL).next())
}

/// Returns the confirmation of a job whose samples are too few to hold out a part that could
/// confirm the margin.
#[must_use]
pub fn too_few(margin: f64, held_out: u64) -> Confirmation {
    let fewest = fewest_held_out(margin);
    let needed = (fewest < u64::MAX).then_some(fewest);
    let proven_margin = best_margin(held_out);
    let found = undecided(margin, held_out, needed, "there are too few samples");
    Confirmation { proven_margin, ..found }
}

/// Returns whether a loss beyond the margin is certain: broken samples are more than the margin and
/// the fixed ones explain.
fn is_beyond(paired: &PairedSamples, margin: f64, level: f64) -> bool {
    match paired {
        PairedSamples::Right(PairedCounts { both, broken, fixed, .. }) => {
            let count = both + broken + fixed;
            let share = margin + (1.0 - margin) * (*fixed as f64 / count.max(1) as f64);
            binomial_at_least(*broken, count, share) <= level
        }
        PairedSamples::Scores { .. } => false,
    }
}

fn percent(share: f64) -> String {
    let text = format!("{:.3}", 100.0 * share);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn words(look: &Look, margin: f64) -> String {
    let changed = match look.changed {
        Some([broken, fixed]) => format!(": {broken} answers become wrong and {fixed} right"),
        None => String::new(),
    };
    let verb = if look.is_confirmed { "proves" } else { "does not prove" };
    format!(
        "loses {} %{changed}; that {verb} at most {} % with {} % confidence",
        percent(look.loss),
        percent(margin),
        percent(1.0 - look.level)
    )
}
