//! Confirmation: proves that the answer loses at most the margin, on samples that the search has
//! not seen.
//!
//! An answer of a search is chosen among hundreds of configurations by some samples, and loses more
//! on others. Therefore the search makes a ladder of answers by its own samples (`ladder`), which is
//! complete before a held-out sample is looked at. Then its rungs are tested on all held-out
//! samples, from the widest to the narrowest. Half of the level belongs to the widest rung, and the
//! others share the rest. A rung that passes hands its level on to the next one, and one that fails
//! loses it. This is the fallback procedure of Wiens (2003): it keeps the level whichever rungs
//! lose more than the margin, and a rung that fails by chance does not end the test.

use super::moves::Move;
use super::step::Phase;
use super::trial::{Stop, Subset};
use super::{Trials, TuneAnswer};
use crate::assignment::Assignment;
use crate::confirm::{
    FIRST_SHARE, Fallback, LEVEL, PairedCounts, PairedSamples, SampleOutcomes, fewest_samples,
};
use crate::metric::Direction;

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
    pub fn word(self) -> &'static str {
        match self {
            Self::Valid => "VALID",
            Self::Invalid => "INVALID",
            Self::Undecided => "UNDECIDED",
        }
    }
}

/// A look at the held-out samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// Probability of a wrong confirmation that this look may have.
    pub level: f64,
    /// Number of held-out samples.
    pub samples: u64,
    /// Objective of the configuration.
    pub objective: f64,
    /// Formats of the configuration.
    pub assignment: Assignment,
    /// Share of the metric that the configuration loses on them.
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
    /// Smallest margin that the held-out samples prove for the answer, or that so many samples could
    /// prove at best if they are too few. Infinite if there is none. Below the tested margin, it is a
    /// second statement with this level, besides the verdict.
    pub proven_margin: f64,
    /// Number of held-out samples that would confirm the answer if the shares of changed answers
    /// stay, or at least needed if they are too few. `None` if the verdict is decided, or if the
    /// answer loses more than the margin on these samples.
    pub needed: Option<u64>,
    /// The looks in order, the widest configuration first.
    pub looks: Vec<Look>,
    /// Index of the answer's look; `None` if there was none.
    pub answer: Option<usize>,
    /// Why there was no look, besides the number of samples; empty if there was one.
    pub problem: String,
}

impl Confirmation {
    /// Returns the looks with the verdict UNDECIDED, because a problem of the evaluations leaves no
    /// statement about the margin.
    pub(super) fn without_statement(self, problem: &str) -> Self {
        let Self { margin, held_out, looks, answer, .. } = self;
        Self { looks, answer, ..undecided(margin, held_out, None, problem) }
    }
}

/// Scales of a metric that is the mean of the samples: a share, or in percent.
const MEAN_SCALES: [f64; 3] = [1.0, 100.0, 0.01];
/// How far such a metric may be from the mean, because programs round.
const SAME_MEAN: f64 = 0.005;
/// How far the ratio of another metric to the mean may be from that of FLOAT(32). It is less than a
/// margin.
const SAME_RATIO: f64 = 0.002;

/// Fewest different results from which equal ones on other samples are no chance.
const FEWEST_RESULTS: usize = 3;

/// Returns the number of held-out samples below which a margin cannot be confirmed at all.
pub fn fewest_held_out(margin: f64) -> u64 {
    fewest_samples(margin, FIRST_SHARE * LEVEL)
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
        let count = outcomes.len() as u64;
        if let Some(problem) = self.doubt_held_out() {
            self.confirmation = Some(undecided(margin, count, None, &problem));
            return Ok(found);
        }
        let mut rungs = self.rungs(&found)?;
        rungs.reverse();
        self.phase = Phase::Confirmation;
        let extremes = self.extremes(&rungs, &outcomes)?;
        let mut looks: Vec<(Look, PairedSamples)> = Vec::new();
        let mut levels = Fallback::new(LEVEL, rungs.len());
        for rung in &rungs {
            let is_confirmed = looks.last().is_some_and(|(look, _)| look.is_confirmed);
            let level = levels.next_level(is_confirmed);
            looks.push(self.look(rung, &outcomes, extremes, level)?);
        }
        let answer = self.conclude(found, &rungs, looks, count);
        if count < fewest_held_out(margin) {
            self.state_too_few(&outcomes);
        }
        if let Some(problem) = self.doubt_results(&rungs)
            && let Some(earlier) = self.confirmation.take()
        {
            self.confirmation = Some(earlier.without_statement(&problem));
        }
        Ok(answer)
    }

    /// States how many samples are needed, unless even these few prove that each configuration loses
    /// more than the margin.
    fn state_too_few(&mut self, base: &SampleOutcomes) {
        let undecided =
            self.confirmation.take_if(|found| found.verdict == MarginVerdict::Undecided);
        let Some(Confirmation { margin, looks, .. }) = undecided else { return };
        let count = base.len() as u64;
        let right = (base.mean().clamp(0.0, 1.0) * count as f64) as u64;
        let proven_margin = match self.network().metric.direction {
            Direction::Higher => best_margin(right),
            // The margin is a share of the errors, and a mean does not state their number.
            Direction::Lower => f64::INFINITY,
        };
        self.confirmation = Some(Confirmation { proven_margin, looks, ..too_few(margin, count) });
    }

    /// Returns why the results on the held-out samples prove nothing.
    fn doubt_results(&self, rungs: &[TuneAnswer]) -> Option<String> {
        let found = self.confirmation.as_ref()?;
        if found.verdict == MarginVerdict::Undecided
            && let Some(at) = found.answer.filter(|at| found.looks[*at].loss <= found.margin)
            && let Some(share) = self.share_of_constant(&rungs[at].assignment)
        {
            return Some(of_constant(share));
        }
        if self.has_seen_held_out(rungs) {
            let problem = "each configuration has exactly the result that it has on the samples of \
                           the search; cmd_confirmation seems to read the same samples";
            return Some(problem.into());
        }
        let [base, other] = self.unequal_ratios(rungs)?;
        Some(format!(
            "the results of samples do not add up to the {}: it is {base} times their mean in \
             FLOAT 32, and {other} times in a configuration; `get_sample_regex` has to match every \
             sample once, and `get_result_regex` a number with enough digits",
            self.network().metric.name
        ))
    }

    /// Returns the share of the most frequent class, or of the answers that agree with one answer, if
    /// a configuration is right no more often than it on the held-out samples, although FLOAT(32) is.
    fn share_of_constant(&self, assignment: &Assignment) -> Option<f64> {
        let right = |assignment: &Assignment| {
            let known = self.known(Subset::Confirmation, assignment)?;
            known.outcomes.as_ref().map(SampleOutcomes::mean)
        };
        let share = self.settings.constant_share?;
        // If all samples have one answer, no configuration can be right more often.
        let knows_more = share >= 1.0 || right(&self.network().base())? > share;
        (knows_more && right(assignment)? <= share).then_some(share)
    }

    /// Returns ratios of the metric to the mean of the samples, in FLOAT(32) and in a configuration,
    /// if they differ. A metric may be a sum of errors over a sum of words: its ratio to the mean of
    /// errors is the same for all configurations.
    fn unequal_ratios(&self, rungs: &[TuneAnswer]) -> Option<[f64; 2]> {
        let base = self.ratio_to_mean(&self.network().base())?;
        if MEAN_SCALES.iter().any(|scale| (base / scale - 1.0).abs() <= SAME_MEAN) {
            return None;
        }
        let mut others = rungs.iter().filter_map(|rung| self.ratio_to_mean(&rung.assignment));
        others.find(|other| (other / base - 1.0).abs() > SAME_RATIO).map(|other| [base, other])
    }

    /// Returns the ratio of the metric to the mean of the held-out samples, unless the mean is 0.
    fn ratio_to_mean(&self, assignment: &Assignment) -> Option<f64> {
        let known = self.known(Subset::Confirmation, assignment)?;
        let mean = known.outcomes.as_ref()?.mean();
        (mean != 0.0).then(|| self.network().metric.signed(known.accuracy) / mean)
    }

    /// Returns whether a metric such as a word error rate, which is a constant times the mean of the
    /// samples, has enough digits to show one error more or less in each configuration.
    fn is_exact_rate(&self, all: &[&Assignment]) -> bool {
        let Some(base) = self.ratio_to_mean(&self.network().base()) else { return false };
        let is_near = |assignment: &&Assignment| {
            let outcomes = self.outcomes_of(assignment);
            let sum = outcomes.map(|outcomes| outcomes.mean() * outcomes.len() as f64);
            let ratio = self.ratio_to_mean(assignment);
            ratio.zip(sum).is_some_and(|(ratio, sum)| (ratio / base - 1.0).abs() < 0.5 / sum.abs())
        };
        all.iter().all(is_near)
    }

    /// Returns whether a program gives held-out samples the results of the samples of the search:
    /// the results of all configurations are equal on both, and they are several. Results with few
    /// digits are equal by chance, unless the command is the same: then one result is enough.
    fn has_seen_held_out(&self, rungs: &[TuneAnswer]) -> bool {
        let Some(program) = &self.network().external else { return false };
        let fewest = if program.confirms_by_search() { 1 } else { FEWEST_RESULTS };
        let base = self.network().base();
        let all: Vec<&Assignment> =
            rungs.iter().map(|rung| &rung.assignment).chain([&base]).collect();
        let is_rate = self.is_exact_rate(&all);
        let mut results: Vec<u64> = Vec::new();
        for assignment in all {
            let searched = [Subset::Full, Subset::Small]
                .into_iter()
                .find_map(|subset| self.known(subset, assignment));
            let held_out = self.known(Subset::Confirmation, assignment);
            match (searched, held_out) {
                (Some(a), Some(b))
                    if a.accuracy.to_bits() == b.accuracy.to_bits()
                        && (is_rate || b.is_exact()) =>
                {
                    results.push(a.accuracy.to_bits());
                }
                _ => return false,
            }
        }
        results.sort_unstable();
        results.dedup();
        results.len() >= fewest
    }

    fn outcomes_of(&self, assignment: &Assignment) -> Option<SampleOutcomes> {
        self.known(Subset::Confirmation, assignment)?.outcomes.clone()
    }

    /// Returns the least and the largest result of a held-out sample in any configuration. Scores
    /// have no known limits: a sample that fails in one configuration may fail in each, so that all
    /// are evaluated before the first is judged.
    fn extremes(&mut self, rungs: &[TuneAnswer], base: &SampleOutcomes) -> Result<[f64; 2], Stop> {
        let [mut least, mut most] = base.extremes();
        let all: Vec<Assignment> = rungs.iter().map(|rung| rung.assignment.clone()).collect();
        self.ask(Subset::Confirmation, &all, None)?;
        for outcomes in all.iter().filter_map(|assignment| self.outcomes_of(assignment)) {
            let [low, high] = outcomes.extremes();
            (least, most) = (least.min(low), most.max(high));
        }
        Ok([least, most])
    }

    /// Looks at the held-out samples for one configuration.
    fn look(
        &mut self,
        rung: &TuneAnswer,
        base: &SampleOutcomes,
        extremes: [f64; 2],
        level: f64,
    ) -> Result<(Look, PairedSamples), Stop> {
        let margin = self.network().error_margin;
        let change = format!("{}", rung.assignment);
        let moves = vec![Move { change, assignment: rung.assignment.clone() }];
        let mut candidates = self.candidates(Subset::Confirmation, moves, None)?;
        // With `--keep-going`, a program may fail in a configuration.
        let known = self.known(Subset::Confirmation, &rung.assignment);
        let is_failed = known.is_some_and(|known| known.is_failed);
        let tuned = if is_failed {
            Some(base.worst(self.network().metric.direction))
        } else {
            self.outcomes_of(&rung.assignment)
        };
        let tuned =
            tuned.ok_or_else(|| Stop::Failed("a trial has no results of samples".into()))?;
        let paired = PairedSamples::new(base, &tuned, 0..base.len(), &self.network().metric)
            .map_err(Stop::Failed)?
            .with_extremes(extremes);
        let is_enough = paired.samples() >= fewest_held_out(margin);
        let is_within = !is_failed && is_enough && paired.confirms(margin, level);
        let constant = self.share_of_constant(&rung.assignment).filter(|_| is_within);
        let is_confirmed = is_within && constant.is_none();
        let changed = match &paired {
            PairedSamples::Right(PairedCounts { broken, fixed, .. }) => Some([*broken, *fixed]),
            PairedSamples::Scores { .. } => None,
        };
        let look = Look {
            level,
            samples: paired.samples(),
            objective: rung.objective,
            assignment: rung.assignment.clone(),
            loss: paired.loss(),
            changed,
            is_confirmed,
        };
        let why = constant.map_or_else(|| words(&look, margin), of_constant);
        candidates[0].why.clone_from(&why);
        let question = format!(
            "is the loss at most {} % on samples that the search has not seen ({} samples)?",
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
        held_out: u64,
    ) -> TuneAnswer {
        let margin = self.network().error_margin;
        let is_beyond = |at: usize| looks[at].1.exceeds(margin, FIRST_SHARE * LEVEL);
        let is_failed = |at: usize| {
            let known = self.known(Subset::Confirmation, &rungs[at].assignment);
            known.is_some_and(|known| known.is_failed)
        };
        let confirmed = looks.iter().rposition(|(look, _)| look.is_confirmed);
        // Without a confirmed answer, the smallest one that may still be within the margin, and that
        // has learned more than the most frequent class, if there is one.
        let is_open = |at: &usize| !is_failed(*at) && !is_beyond(*at);
        let has_learned = |at: &usize| self.share_of_constant(&rungs[*at].assignment).is_none();
        let open = || (0..looks.len()).rev().filter(&is_open);
        let open = open().find(has_learned).or_else(|| open().next());
        let (verdict, at) = match (confirmed, open) {
            (Some(at), _) => (MarginVerdict::Valid, Some(at)),
            (None, Some(at)) => (MarginVerdict::Undecided, Some(at)),
            (None, None) => (MarginVerdict::Invalid, looks.len().checked_sub(1)),
        };
        let answer = at.map_or(found, |at| rungs[at].clone());
        // The answer is chosen by these samples, so that a smaller margin counts each look.
        let levels = Fallback::new(LEVEL, looks.len());
        let proven = |at: usize| looks[at].1.smallest_margin(levels.own_level(at));
        let proven_margin = match (verdict, at.map_or(f64::INFINITY, proven)) {
            (MarginVerdict::Valid, proven) => proven.min(margin),
            (_, proven) => proven,
        };
        // The fewest samples that would confirm this answer, if its shares stay.
        let undecided = at.filter(|_| verdict == MarginVerdict::Undecided).map(|at| &looks[at]);
        let needed = undecided.and_then(|(look, paired)| paired.needed(margin, look.level));
        self.confirmed =
            self.known(Subset::Confirmation, &answer.assignment).map(|known| known.accuracy);
        self.confirmation = Some(Confirmation {
            verdict,
            margin,
            level: LEVEL,
            held_out,
            proven_margin,
            needed,
            answer: at,
            looks: looks.into_iter().map(|(look, _)| look).collect(),
            problem: String::new(),
        });
        answer
    }
}

pub(super) fn undecided(
    margin: f64,
    held_out: u64,
    needed: Option<u64>,
    problem: &str,
) -> Confirmation {
    Confirmation {
        verdict: MarginVerdict::Undecided,
        margin,
        level: LEVEL,
        held_out,
        proven_margin: f64::INFINITY,
        needed,
        looks: Vec::new(),
        answer: None,
        problem: problem.into(),
    }
}

/// Returns the smallest margin that so many right answers prove if none changes.
fn best_margin(right: u64) -> f64 {
    let counts = PairedCounts { both: right, ..PairedCounts::default() };
    PairedSamples::Right(counts).smallest_margin(FIRST_SHARE * LEVEL)
}

/// Returns the confirmation of a job whose samples are too few to hold out a part that could
/// confirm the margin.
pub fn too_few(margin: f64, held_out: u64) -> Confirmation {
    let fewest = fewest_held_out(margin);
    let needed = (fewest < u64::MAX).then_some(fewest);
    let proven_margin = best_margin(held_out);
    let problem = if held_out > 0 { "" } else { "there are too few samples" };
    let found = undecided(margin, held_out, needed, problem);
    Confirmation { proven_margin, ..found }
}

fn percent(share: f64) -> String {
    let text = format!("{:.3}", 100.0 * share);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns why a configuration is no answer, although it loses little: it may give each sample the same
/// answer, which is right for this share of them.
fn of_constant(share: f64) -> String {
    format!(
        "the configuration is right no more often than one that gives each sample the same answer or \
         the most frequent class ({} %)",
        percent(share)
    )
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
