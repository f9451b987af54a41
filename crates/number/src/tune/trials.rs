//! State of a tuning job: evaluates, counts, and keeps results and the best answer.

use std::collections::HashMap;

use super::chance::SetAccuracy;
use super::confirm::{self, Confirmation};
use super::journal::Journal;
use super::moves::Space;
use super::step::{Candidate, Phase, Step, accepted, format_accuracy};
use super::trial::{EvaluateFn, Evaluation, Stop, Subset, Trial};
use super::{Baseline, Move, Point, Progress, Settings, TuneAnswer, TuneEnd, TuneOutcome, pareto};
use crate::assignment::Assignment;
use crate::confirm::SampleOutcomes;
use crate::format::Format;
use crate::metric::{Direction, Metric};
use crate::network::Network;
use crate::objective::Objective;

/// State of a tuning job.
pub(crate) struct Trials<'a, 'e> {
    pub space: Space<'a>,
    pub settings: &'a Settings,
    pub steps: Vec<Step>,
    /// Current phase of the search.
    pub phase: Phase,
    /// Estimate of the remaining evaluations of this set.
    pub remaining: u64,
    evaluate: &'e mut EvaluateFn<'e>,
    watch: &'e mut (dyn FnMut(&Progress<'_>) + 'e),
    journal: Journal,
    known: HashMap<(Subset, Vec<Format>), Evaluation>,
    numbered: u64,
    pub(super) evaluations: [u64; 3],
    seconds: [f64; 3],
    recalled: u64,
    points: Vec<Point>,
    baselines: [Option<Baseline>; 3],
    best: [Option<TuneAnswer>; 3],
    noise: Option<[f64; 2]>,
    pub(super) confirmed: Option<f64>,
    pub(super) confirmation: Option<Confirmation>,
    pub(super) restarts: Vec<f64>,
    // Samples per evaluation of each set.
    samples: [Option<u64>; 3],
}

impl<'a, 'e> Trials<'a, 'e> {
    pub fn new(
        network: &'a Network,
        settings: &'a Settings,
        journal: Journal,
        evaluate: &'e mut EvaluateFn<'e>,
        watch: &'e mut (dyn FnMut(&Progress<'_>) + 'e),
    ) -> Self {
        let of_program = network.external.as_ref().map_or([None; 2], |program| program.samples);
        Self {
            space: Space::new(network, settings.least_fixed_bits),
            settings,
            steps: Vec::new(),
            phase: Phase::Coarse,
            remaining: 0,
            evaluate,
            watch,
            journal,
            known: HashMap::new(),
            numbered: 0,
            evaluations: [0; 3],
            seconds: [0.0; 3],
            recalled: 0,
            points: Vec::new(),
            baselines: [None; 3],
            best: [const { None }; 3],
            noise: None,
            confirmed: None,
            confirmation: None,
            restarts: Vec::new(),
            samples: [of_program[0], of_program[1], None],
        }
    }

    pub fn network(&self) -> &'a Network {
        self.space.network
    }

    pub fn objective(&self, assignment: &Assignment, evaluation: Option<&Evaluation>) -> f64 {
        let latency = evaluation.and_then(|evaluation| evaluation.latency_ns);
        self.network().objective.value(self.network(), assignment, latency)
    }

    /// Starts to use a set: evaluates FLOAT(32), which determines the accuracy to keep.
    pub fn begin(&mut self, subset: Subset) -> Result<TuneAnswer, Stop> {
        let base = self.network().base();
        let found = self.ask(subset, std::slice::from_ref(&base), None)?;
        let accuracy = found[0].accuracy;
        let network = self.network();
        let raw = network.metric.signed(accuracy);
        let is_error = network.metric.direction == Direction::Lower;
        if raw < 0.0 || raw == 0.0 && !is_error {
            let (what, least) =
                (&network.metric.name, if is_error { "0 or more" } else { "above 0" });
            return Err(Stop::Failed(format!(
                "the {what} in FLOAT 32 is {raw} on the {subset} set: nothing can be kept of it, because the \
                 margin is a share of it; expected a number {least}"
            )));
        }
        let threshold = network.metric.signed(network.metric.limit(raw, network.error_margin));
        self.baselines[subset as usize] = Some(Baseline { accuracy, threshold });
        let objective = self.objective(&base, Some(&found[0]));
        if objective.is_infinite() {
            return Err(Stop::Failed("the objective is a latency, and none was measured".into()));
        }
        let answer = TuneAnswer { assignment: base, objective, accuracy, subset };
        self.consider(&answer);
        Ok(answer)
    }

    /// Returns the evaluation of an assignment, if there is one.
    pub(super) fn known(&self, subset: Subset, assignment: &Assignment) -> Option<&Evaluation> {
        self.known.get(&(subset, assignment.formats().to_vec()))
    }

    /// Leaves only a share of the margin of a set. Returns the whole, for [`Trials::restore`].
    pub(super) fn narrow_margin(&mut self, subset: Subset, share: f64) -> Option<Baseline> {
        let whole = self.baselines[subset as usize];
        if let Some(Baseline { accuracy, threshold }) = whole {
            let threshold = accuracy - share * (accuracy - threshold);
            self.baselines[subset as usize] = Some(Baseline { accuracy, threshold });
        }
        whole
    }

    pub(super) fn restore(&mut self, subset: Subset, whole: Option<Baseline>) {
        self.baselines[subset as usize] = whole;
    }

    pub fn threshold(&self, subset: Subset) -> f64 {
        self.baselines[subset as usize].expect("the set was begun").threshold
    }

    /// Evaluates FLOAT(32) a second time to see whether equal configurations have equal accuracies. If
    /// they do not, further evaluations show by how much they vary.
    pub fn measure_noise(&mut self, subset: Subset) -> Result<(), Stop> {
        let base = self.network().base();
        let first = self.known[&(subset, base.formats().to_vec())].accuracy;
        let again = self.repeat(subset, &base)?;
        let mut noise = [first.min(again), first.max(again)];
        self.noise = Some(noise);
        if first == again {
            return Ok(());
        }
        for _ in 2..NOISE_EVALUATIONS {
            let again = self.repeat(subset, &base)?;
            noise = [noise[0].min(again), noise[1].max(again)];
            self.noise = Some(noise);
        }
        Ok(())
    }

    /// Evaluates a known configuration again, and returns its accuracy.
    fn repeat(&mut self, subset: Subset, assignment: &Assignment) -> Result<f64, Stop> {
        self.numbered += 1;
        let assignment = assignment.clone();
        let trial = Trial { number: self.numbered, subset, assignment, decides: None };
        let again = match self.journal.recall(subset, &trial.assignment) {
            Some(evaluation) => evaluation,
            None => {
                let again = self.answers(std::slice::from_ref(&trial)).remove(0)?;
                self.journal.add(&trial, &again);
                again
            }
        };
        Ok(self.signed(again).accuracy)
    }

    /// Returns an evaluation such that more of its accuracy is better.
    fn signed(&self, evaluation: Evaluation) -> Evaluation {
        let metric = &self.network().metric;
        let accuracy = match metric.direction {
            Direction::Lower if evaluation.is_failed => -WORST_ERROR,
            _ => metric.signed(evaluation.accuracy),
        };
        Evaluation { accuracy, ..evaluation }
    }

    fn answers(&mut self, trials: &[Trial]) -> Vec<Result<Evaluation, Stop>> {
        let mut answers = (self.evaluate)(trials);
        let wrong = "the evaluator gave no answer";
        answers.resize(trials.len(), Err(Stop::Failed(wrong.into())));
        for (answer, trial) in answers.iter_mut().zip(trials) {
            let Ok(found) = answer else { continue };
            let is_below = trial.decides.is_some_and(|decides| found.accuracy < decides);
            if !found.accuracy.is_finite() || found.is_bound && !is_below {
                let accuracy = found.accuracy;
                let number = trial.number;
                *answer =
                    Err(Stop::Failed(format!("trial {number} has no accuracy but {accuracy}")));
            }
        }
        answers
    }

    /// Returns the evaluations of these assignments, from memory, the journal or the evaluator.
    pub fn ask(
        &mut self,
        subset: Subset,
        assignments: &[Assignment],
        decides: Option<f64>,
    ) -> Result<Vec<Evaluation>, Stop> {
        let key = |assignment: &Assignment| (subset, assignment.formats().to_vec());
        let mut asked: Vec<Trial> = Vec::new();
        for assignment in assignments {
            let is_known = self.known.get(&key(assignment)).is_some_and(|known| {
                !known.is_bound || decides.is_some_and(|decides| known.accuracy < decides)
            });
            if is_known || asked.iter().any(|trial| trial.assignment == *assignment) {
                continue;
            }
            if let Some(limit) = self.settings.max_evaluations
                && self.evaluations.iter().sum::<u64>() + asked.len() as u64 >= limit
            {
                self.evaluate_all(&asked)?;
                return Err(Stop::Limit);
            }
            self.numbered += 1;
            let number = self.numbered;
            let assignment = assignment.clone();
            // Only engines of this process end early, and they count right answers.
            let decides = decides.filter(|_| self.network().metric.direction == Direction::Higher);
            asked.push(Trial { number, subset, assignment, decides });
            if asked.len() >= self.settings.batch.max(1) {
                self.evaluate_all(&asked)?;
                asked.clear();
            }
        }
        self.evaluate_all(&asked)?;
        Ok(assignments.iter().map(|assignment| self.known[&key(assignment)].clone()).collect())
    }

    fn evaluate_all(&mut self, trials: &[Trial]) -> Result<(), Stop> {
        let mut unknown = Vec::new();
        for trial in trials {
            match self.journal.recall(trial.subset, &trial.assignment) {
                Some(evaluation) => {
                    self.recalled += 1;
                    self.take(trial, evaluation)?;
                }
                None => unknown.push(trial.clone()),
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let answers = self.answers(&unknown);
        for (trial, answer) in unknown.iter().zip(answers) {
            let evaluation = answer?;
            self.journal.add(trial, &evaluation);
            self.take(trial, evaluation)?;
        }
        Ok(())
    }

    fn take(&mut self, trial: &Trial, evaluation: Evaluation) -> Result<(), Stop> {
        let evaluation = self.signed(evaluation);
        self.check_direction(trial, &evaluation)?;
        let set = trial.subset as usize;
        let accuracy = evaluation.accuracy;
        self.seconds[set] += evaluation.seconds;
        self.samples[set] = evaluation.samples.or(self.samples[set]);
        self.remaining = self.remaining.saturating_sub(1);
        let objective = self.objective(&trial.assignment, Some(&evaluation));
        if !evaluation.is_bound {
            let network = self.network();
            let assignment = trial.assignment.clone();
            let has_products = network.without_products().is_none();
            let value = |objective: Objective| objective.value(network, &assignment, None);
            self.points.push(Point {
                subset: trial.subset,
                bits: value(Objective::Bits),
                cycles: has_products.then(|| value(Objective::BitSerial)),
                assignment: assignment.clone(),
                accuracy,
                objective,
                is_on_front: false,
                note: evaluation.note.clone(),
            });
            let subset = trial.subset;
            self.consider(&TuneAnswer { assignment, objective, accuracy, subset });
        }
        let key = (trial.subset, trial.assignment.formats().to_vec());
        if self.known.insert(key, evaluation).is_none() {
            self.evaluations[set] += 1;
        }
        let metric = &self.space.network.metric;
        let best = best_of(&self.best).map(|best| in_metric(metric, best.clone()));
        let progress = Progress {
            phase: self.phase,
            subset: trial.subset,
            evaluations: self.evaluations,
            seconds: self.seconds,
            remaining: self.remaining,
            accuracy: metric.signed(accuracy),
            best: best.as_ref(),
            journal_problem: self.journal.problem(),
        };
        (self.watch)(&progress);
        Ok(())
    }

    /// Rejects an accuracy that is much higher than that of FLOAT(32), which an error rate would be,
    /// and an error that is much lower, which an accuracy would be.
    fn check_direction(&self, trial: &Trial, evaluation: &Evaluation) -> Result<(), Stop> {
        let network = self.network();
        let Some(base) = self.baselines[trial.subset as usize] else { return Ok(()) };
        let [found, base] =
            [evaluation.accuracy, base.accuracy].map(|value| network.metric.signed(value));
        let is_error = network.metric.direction == Direction::Lower;
        let is_suspicious =
            if is_error { found * MOST_FALL < base } else { found > base * MOST_GAIN };
        if network.metric.is_stated || network.external.is_none() || !is_suspicious {
            return Ok(());
        }
        let what = if is_error {
            format!("error {found} is far below the {base} of FLOAT 32, as an accuracy would be")
        } else {
            format!(
                "accuracy {found} is far above the {base} of FLOAT 32, as an error rate would be"
            )
        };
        Err(Stop::Failed(format!(
            "trial {}: {what}; write `direction = \"lower\"` into the descriptor for an error rate, or \
             `direction = \"higher\"` for an accuracy",
            trial.number
        )))
    }

    /// Keeps an answer that is smaller than the best of its set, or as small and more accurate.
    fn consider(&mut self, answer: &TuneAnswer) {
        let Some(baseline) = self.baselines[answer.subset as usize] else { return };
        if answer.accuracy < baseline.threshold {
            return;
        }
        let best = &mut self.best[answer.subset as usize];
        let is_better = best.as_ref().is_none_or(|best| {
            let by_size = answer.objective.total_cmp(&best.objective);
            by_size.then(best.accuracy.total_cmp(&answer.accuracy)).is_lt()
        });
        if is_better {
            *best = Some(answer.clone());
        }
    }

    /// Returns the smallest loss that ratios distinguish from none: half a sample (SPEC A17).
    pub fn loss_floor(&self, subset: Subset) -> f64 {
        // If the number of samples is unknown, 10,000 is assumed.
        0.5 / self.samples[subset as usize].unwrap_or(10_000).max(1) as f64
    }

    /// Evaluates moves as candidates of a step. [`Trials::decide`] adds the decision.
    pub fn candidates(
        &mut self,
        subset: Subset,
        moves: Vec<Move>,
        decides: Option<f64>,
    ) -> Result<Vec<Candidate>, Stop> {
        let assignments: Vec<Assignment> =
            moves.iter().map(|found| found.assignment.clone()).collect();
        let evaluations = self.ask(subset, &assignments, decides)?;
        let candidates = moves.into_iter().zip(evaluations);
        Ok(candidates
            .map(|(Move { change, assignment }, evaluation)| Candidate {
                objective: self.objective(&assignment, Some(&evaluation)),
                change,
                assignment,
                accuracy: evaluation.accuracy,
                is_bound: evaluation.is_bound,
                is_accepted: false,
                why: String::new(),
                note: evaluation.note,
            })
            .collect())
    }

    /// Evaluates one move, and accepts it if it passes.
    pub fn attempt(
        &mut self,
        subset: Subset,
        question: &str,
        what: Move,
    ) -> Result<Option<TuneAnswer>, Stop> {
        let threshold = self.threshold(subset);
        let candidates = self.candidates(subset, vec![what], Some(threshold))?;
        let accepted = accepted(candidates[0].accuracy, threshold);
        Ok(self.decide(subset, question, candidates, accepted))
    }

    /// Records a step, and accepts the candidate `accepted` for the given reason, if there is one.
    pub fn decide(
        &mut self,
        subset: Subset,
        question: &str,
        mut candidates: Vec<Candidate>,
        accepted: Option<(usize, String)>,
    ) -> Option<TuneAnswer> {
        let threshold = self.threshold(subset);
        for (at, candidate) in candidates.iter_mut().enumerate() {
            candidate.is_accepted = accepted.as_ref().is_some_and(|(accepted, _)| *accepted == at);
            if candidate.accuracy < threshold && !candidate.is_accepted {
                let most = if candidate.is_bound { "at most " } else { "" };
                let (accuracy, threshold) =
                    (format_accuracy(candidate.accuracy), format_accuracy(threshold));
                candidate.why = format!("accuracy {most}{accuracy} is below {threshold}");
            }
        }
        let decision = match &accepted {
            Some((at, why)) => {
                candidates[*at].why.clone_from(why);
                format!("accepted: {}, {why}", candidates[*at].change)
            }
            None => "nothing is accepted".to_owned(),
        };
        let answer = accepted.map(|(at, _)| {
            let Candidate { assignment, objective, accuracy, .. } = candidates[at].clone();
            TuneAnswer { assignment, objective, accuracy, subset }
        });
        let phase = self.phase;
        let question = question.to_owned();
        self.steps.push(Step { phase, subset, question, candidates, decision });
        answer
    }

    /// Returns all configurations that were evaluated to the end.
    pub(super) fn points(&self) -> &[Point] {
        &self.points
    }

    /// Returns the best answer of a set.
    pub fn best(&self, subset: Subset) -> Option<&TuneAnswer> {
        self.best[subset as usize].as_ref()
    }

    /// Returns `found`, or the best answer of its set if that is smaller.
    pub fn smallest_seen(&self, found: TuneAnswer) -> TuneAnswer {
        match self.best(found.subset) {
            Some(best) if best.objective < found.objective => best.clone(),
            _ => found,
        }
    }

    /// Returns why the confirmation set proves nothing, if FLOAT(32) is far less accurate on it
    /// than on the samples of the search. An error rate is compared if each sample is right or wrong.
    pub(super) fn doubt_held_out(&self) -> Option<String> {
        let Metric { name, direction, .. } = &self.network().metric;
        let is_error = *direction == Direction::Lower;
        let of = |subset: Subset| Some(self.baselines[subset as usize]?.accuracy.abs());
        let searched = of(Subset::Full).or_else(|| of(Subset::Small))?;
        let held_out = of(Subset::Confirmation)?;
        let samples = self.samples[Subset::Confirmation as usize]?;
        // A program need not state the number of samples of the search.
        let counts = [Subset::Full, Subset::Small].map(|subset| self.samples[subset as usize]);
        let count = counts.into_iter().flatten().next().unwrap_or(samples);
        let known = self.known(Subset::Confirmation, &self.network().base())?;
        if is_error && !matches!(known.outcomes, Some(SampleOutcomes::Right(_))) {
            return None;
        }
        let whole = if searched.max(held_out) > 1.0 { 100.0 } else { 1.0 };
        let right = |value: f64| if is_error { 1.0 - value / whole } else { value / whole };
        let is_doubtful = SetAccuracy { share: right(held_out), samples }
            .is_far_below(SetAccuracy { share: right(searched), samples: count });
        is_doubtful.then(|| {
            let beyond = if is_error { "above" } else { "below" };
            let reads = match self.network().external {
                Some(_) => ", and what `get_sample_regex` and `get_result_regex` read",
                None => "",
            };
            format!(
                "FLOAT 32 has {name} {held_out:.4} on {samples} held-out samples, far {beyond} the \
                 {searched:.4} on the samples of the search; compare the order of held-out samples \
                 and labels{reads}"
            )
        })
    }

    /// Evaluates the answer on the confirmation set. Nothing is chosen by the result.
    pub fn confirm(&mut self, answer: &TuneAnswer) -> Result<(), Stop> {
        self.begin(Subset::Confirmation)?;
        if let Some(problem) = self.doubt_held_out() {
            let held_out = self.samples[Subset::Confirmation as usize].unwrap_or(0);
            let margin = self.network().error_margin;
            self.confirmation = Some(confirm::undecided(margin, held_out, None, &problem));
        }
        self.phase = Phase::Confirmation;
        let change = format!("the answer, {}", answer.assignment);
        let moves = vec![Move { change, assignment: answer.assignment.clone() }];
        let candidates = self.candidates(Subset::Confirmation, moves, None)?;
        let accuracy = candidates[0].accuracy;
        self.confirmed = Some(accuracy);
        let threshold = self.threshold(Subset::Confirmation);
        let accepted = accepted(accuracy, threshold);
        let question = "does the answer keep its accuracy on samples that it was not chosen by?";
        self.decide(Subset::Confirmation, question, candidates, accepted);
        Ok(())
    }

    /// Returns the outcome of the search, also if it stopped early.
    pub fn finish(mut self, found: Result<Option<TuneAnswer>, Stop>) -> TuneOutcome {
        pareto::mark(&mut self.points);
        let metric = self.network().metric.clone();
        for point in &mut self.points {
            point.accuracy = metric.signed(point.accuracy);
        }
        for step in &mut self.steps {
            step.question = metric.words(&step.question);
            step.decision = metric.words(&step.decision);
            for candidate in &mut step.candidates {
                candidate.accuracy = metric.signed(candidate.accuracy);
                candidate.why = metric.words(&candidate.why);
            }
        }
        let signed = |baseline: Baseline| Baseline {
            accuracy: metric.signed(baseline.accuracy),
            threshold: metric.signed(baseline.threshold),
        };
        let so_far = best_of(&self.best[..2]).cloned();
        let (end, answer) = match found {
            Ok(answer) => (TuneEnd::Complete, answer),
            Err(stop) => (TuneEnd::Stopped(stop), so_far),
        };
        let base = self.network().base();
        let base_set = if self.settings.passes == super::Passes::FullOnly {
            Subset::Full
        } else {
            Subset::Small
        };
        // Latencies of a program may depend on the set.
        let of_base = answer.as_ref().and_then(|answer| self.known(answer.subset, &base));
        let of_base = of_base.or_else(|| self.known(base_set, &base));
        let base_objective = self.objective(&base, of_base);
        let problem = self.journal.problem().map(str::to_owned);
        TuneOutcome {
            end,
            answer: answer.map(|answer| in_metric(&metric, answer)),
            baselines: self.baselines.map(|baseline| baseline.map(signed)),
            evaluations: self.evaluations,
            recalled: self.recalled,
            samples: self.samples,
            noise: self.noise.map(|noise| noise.map(|one| metric.signed(one))),
            confirmed: self.confirmed.map(|one| metric.signed(one)),
            confirmation: self.confirmation,
            restarts: self.restarts,
            steps: self.steps,
            points: self.points,
            speedup: None,
            base_objective: if base_objective.is_finite() { base_objective } else { 0.0 },
            skipped: self.journal.skipped,
            journal_problem: problem.map(|why| (why, self.journal.unwritten().to_owned())),
        }
    }
}

/// Number of evaluations of FLOAT(32) that show how much accuracies vary, if they do.
const NOISE_EVALUATIONS: usize = 6;

/// Error of a configuration that could not be evaluated; larger than any error of a program.
const WORST_ERROR: f64 = 1e12;

/// An accuracy whose direction is not stated may be so much higher than that of FLOAT(32).
const MOST_GAIN: f64 = 1.25;

/// An error whose direction is not stated may be so many times lower than that of FLOAT(32). Few
/// errors vary by chance.
const MOST_FALL: f64 = 4.0;

/// Returns an answer with its accuracy as the metric has it.
fn in_metric(metric: &Metric, answer: TuneAnswer) -> TuneAnswer {
    TuneAnswer { accuracy: metric.signed(answer.accuracy), ..answer }
}

/// Returns the best answer of the full set if it is more than FLOAT(32); otherwise that of the
/// small set.
fn best_of(best: &[Option<TuneAnswer>]) -> Option<&TuneAnswer> {
    let is_base = |answer: &&TuneAnswer| {
        answer.assignment.formats().iter().all(|format| *format == Format::F32)
    };
    let full = best[Subset::Full as usize].as_ref();
    let small = best[Subset::Small as usize].as_ref();
    full.filter(|answer| !is_base(answer)).or(small).or(full)
}
