//! How good the answers are: `mlperf_log_accuracy.json` against what is right.
//!
//! A log is read once, entry by entry, and may be larger than memory. A
//! [`Scorer`] takes the answers one by one; what it keeps of them is up to the
//! metric. The metrics themselves are functions of predictions and references
//! that know no log, each in a module of its own.
//!
//! Everything is deterministic: the same log gives the same digits, in the form
//! that the accuracy scripts of the benchmarks print and the checkers read.
//! Start reading at [`score`] and [`Method`].
#![forbid(unsafe_code)]

pub mod arrays;
pub mod classification;
mod data;
pub mod detection;
mod edits;
pub mod embedding;
pub mod generation;
pub mod graph;
pub mod hierarchy;
mod method;
pub mod parallel;
pub mod payload;
pub mod questions;
mod read_ahead;
pub mod recommendation;
mod sample_set;
pub mod segmentation;
pub mod speech;
pub mod squad;
pub mod summarization;
pub mod text;
pub mod translation;
mod unicode;

use std::io::BufRead;
use std::ops::AddAssign;

use dyno_loadgen::log::read::{AccuracyReader, LogReadProblem};
use thiserror::Error;

pub use data::{DataError, DataProblem};
pub use method::{Choice, Inputs, METHODS, Method, Need};

use sample_set::SampleSet;

/// Answers that are no answers are told up to this number.
const LISTED_MALFORMED: usize = 20;

/// Answers that are worth a piece of work.
const BATCH_ANSWERS: usize = 128;

/// A malformed answer among several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Position among the answers, from 0.
    pub position: usize,
    /// Why the answer is rejected.
    pub error: AnswerError,
}

/// Takes the answers of a run and knows in the end how good they are.
pub trait Scorer {
    /// Takes the answer to sample `index` of the data set.
    ///
    /// # Errors
    /// What is given is no answer of the task. The scorer has then counted it as
    /// wrong, if it is of a sample that there is and [`Scorer::knows_wrong`], and
    /// goes on.
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError>;

    /// Takes answers, each with its sample, one after the other, and tells which of them are
    /// none. Metrics of which no answer depends on another judge them on all processors.
    fn take_all(&mut self, answers: &[(u64, &[u8])]) -> Vec<Rejection> {
        let results = answers.iter().map(|(index, answer)| self.take(*index, answer)).enumerate();
        results
            .filter_map(|(position, result)| Some(Rejection { position, error: result.err()? }))
            .collect()
    }

    /// Whether an answer can be wrong as a whole. Where not, figures of a log with
    /// answers that are none leave these out, and count for nothing.
    fn counts_malformed(&self) -> bool {
        true
    }

    /// What counts of several answers to one sample.
    fn repeat_policy(&self) -> RepeatPolicy {
        RepeatPolicy::First
    }

    /// Samples that the references know of; none where answers bring their own.
    fn references(&self) -> Option<u64>;

    /// The figures; called once, after the last answer.
    fn scores(&mut self) -> Scores;
}

/// What counts of several answers to one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepeatPolicy {
    /// The first one, as most accuracy scripts have it.
    First,
    /// Each, as if they were to samples of their own.
    All,
}

/// Why an answer is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AnswerError {
    /// The references have no such sample.
    #[error("the references have {references} samples, and not this one")]
    Sample {
        /// How many they have.
        references: u64,
    },
    /// The bytes have another length than answers of the task have.
    #[error("expected {expected} bytes, found {found}")]
    Length {
        /// Bytes that were expected, such as `8` or `a multiple of 28`.
        expected: String,
        /// Bytes that there are.
        found: usize,
    },
    /// The bytes are of the right length, but mean nothing.
    #[error("expected {expected}, found {found}")]
    Content {
        /// What was expected.
        expected: String,
        /// What there is.
        found: String,
    },
}

/// What the references have of a sample.
fn reference_of<T>(references: &[T], index: u64) -> Result<&T, AnswerError> {
    let found = usize::try_from(index).ok().and_then(|at| references.get(at));
    found.ok_or(AnswerError::Sample { references: references.len() as u64 })
}

/// What `judge` adds up of answers on all processors, and those that are none. For sums of
/// whole numbers, which do not depend on the order.
fn judge_all<S: Default + AddAssign + Send>(
    answers: &[(u64, &[u8])],
    judge: impl Fn(&mut S, u64, &[u8]) -> Result<(), AnswerError> + Sync,
) -> (S, Vec<Rejection>) {
    let batches: Vec<_> = answers.chunks(BATCH_ANSWERS).collect();
    let results = parallel::map(&batches, |batch| {
        let (mut sum, mut rejections) = (S::default(), Vec::new());
        for (position, (index, answer)) in batch.iter().enumerate() {
            let result = judge(&mut sum, *index, answer);
            rejections.extend(result.err().map(|error| Rejection { position, error }));
        }
        (sum, rejections)
    });
    let (mut sum, mut rejections) = (S::default(), Vec::new());
    for (batch, (batch_sum, batch_rejections)) in results.into_iter().enumerate() {
        sum += batch_sum;
        let start = batch * BATCH_ANSWERS;
        rejections.extend(
            batch_rejections.into_iter().map(|Rejection { position, error }| Rejection {
                position: start + position,
                error,
            }),
        );
    }
    (sum, rejections)
}

/// Returns the error of the only answer, if it is rejected.
fn single_result(rejections: Vec<Rejection>) -> Result<(), AnswerError> {
    rejections.into_iter().next().map_or(Ok(()), |rejection| Err(rejection.error))
}

/// One figure of quality.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its name in the rules of the rounds, such as `acc` or `ROUGE1`.
    pub metric: &'static str,
    /// In the unit in which the rules state its target: percent mostly.
    pub value: f64,
}

/// What a scorer found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scores {
    /// What the rules judge.
    pub figures: Vec<Figure>,
    /// The lines that the accuracy script of the benchmark prints, each with its
    /// end: `accuracy.txt` of a submission.
    pub text: String,
    /// What else is to be told, a line each.
    pub notes: Vec<String>,
}

impl Scores {
    /// The figure of that name.
    #[must_use]
    pub fn figure(&self, metric: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.metric == metric).map(|figure| figure.value)
    }
}

/// An answer that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedAnswer {
    /// Line of the log, from 1.
    pub line: usize,
    /// The sample.
    pub index: u64,
    /// What is wrong.
    pub problem: AnswerError,
}

/// A log with what was found in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScoreReport {
    /// What the scorer found.
    pub scores: Scores,
    /// Entries of the log.
    pub entries: u64,
    /// Distinct samples of the references among them.
    pub samples: u64,
    /// Samples that the references know of; none where answers bring their own.
    pub references: Option<u64>,
    /// Whether the figures count answers that are none.
    pub counts_malformed: bool,
    /// Answers that are none.
    pub malformed: u64,
    /// The first of them.
    pub first_malformed: Vec<MalformedAnswer>,
}

/// Why there is no score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScoreError<E> {
    /// There is no scorer.
    Scorer(E),
    /// The log does not read to its end. No figure comes of a part of a log.
    Log(LogReadProblem),
}

/// Gives a scorer what a log holds. The log is read while the scorer is made, whose
/// references are often as long to read.
///
/// # Errors
/// There is no scorer, or the log does not read to its end.
pub fn score<R: BufRead + Send, E>(
    log: AccuracyReader<R>,
    scorer: impl FnOnce() -> Result<Box<dyn Scorer>, E>,
) -> Result<ScoreReport, ScoreError<E>> {
    read_ahead::with_stream(log, |answers| {
        let mut scorer = scorer().map_err(ScoreError::Scorer)?;
        let mut scoring = Scoring::new(scorer.as_mut());
        answers.for_each(|entries| scoring.take_all(entries)).map_err(ScoreError::<E>::Log)?;
        Ok(scoring.end())
    })
}

/// Gives a scorer answers that are in memory: the sample of each, and its bytes.
pub fn score_answers<'a>(
    answers: impl IntoIterator<Item = (u64, &'a [u8])>,
    scorer: &mut dyn Scorer,
) -> ScoreReport {
    let mut scoring = Scoring::new(scorer);
    let entries = (1..).zip(answers).map(|(line, (index, data))| (line, index, data));
    scoring.take_all(&entries.collect::<Vec<_>>());
    scoring.end()
}

struct Scoring<'a> {
    scorer: &'a mut dyn Scorer,
    repeat_policy: RepeatPolicy,
    answered: SampleSet,
    report: ScoreReport,
}

impl<'a> Scoring<'a> {
    fn new(scorer: &'a mut dyn Scorer) -> Self {
        let references = scorer.references();
        let counts_malformed = scorer.counts_malformed();
        let report = ScoreReport { references, counts_malformed, ..ScoreReport::default() };
        Self {
            repeat_policy: scorer.repeat_policy(),
            scorer,
            answered: SampleSet::default(),
            report,
        }
    }

    /// Takes entries, each with its line and its sample.
    fn take_all(&mut self, entries: &[(usize, u64, &[u8])]) {
        let (mut lines, mut answers) = (Vec::new(), Vec::new());
        let report = &mut self.report;
        for (line, index, data) in entries {
            report.entries += 1;
            let is_new = self.answered.insert(*index);
            let is_known = report.references.is_none_or(|references| *index < references);
            report.samples += u64::from(is_new && is_known);
            if is_new || self.repeat_policy == RepeatPolicy::All {
                lines.push(*line);
                answers.push((*index, *data));
            }
        }
        for Rejection { position, error } in self.scorer.take_all(&answers) {
            report.malformed += 1;
            if report.first_malformed.len() < LISTED_MALFORMED {
                let (line, index) = (lines[position], answers[position].0);
                report.first_malformed.push(MalformedAnswer { line, index, problem: error });
            }
        }
    }

    fn end(self) -> ScoreReport {
        ScoreReport { scores: self.scorer.scores(), ..self.report }
    }
}

/// What the checker of a round reads of a text: every figure that it judges, as the
/// scorer has it.
#[cfg(test)]
fn assert_checker_reads(round: &str, benchmark: &str, scores: &Scores) {
    assert_checker_reads_some(round, benchmark, scores, &[]);
}

/// Likewise, but for some that are not judged here.
#[cfg(test)]
fn assert_checker_reads_some(round: &str, benchmark: &str, scores: &Scores, without: &[&str]) {
    use dyno_rules::Round;
    use dyno_rules::accuracy::{Patterns, scan};

    let round = Round::named(round).expect("the round is one of ours");
    let of = round.benchmarks.iter().find(|of| of.name == benchmark);
    let patterns = Patterns::new(round);
    let patterns = patterns.for_benchmark(of);
    assert!(!patterns.is_empty(), "{benchmark} has figures");
    let read = scan(&mut scores.text.as_bytes(), patterns).expect("a text in memory reads");
    let is_judged = |metric: &str| !without.contains(&metric);
    for pattern in patterns.iter().filter(|pattern| is_judged(&pattern.metric)) {
        let metric = &pattern.metric;
        let found = read.metrics.iter().find(|found| found.metric == *metric);
        let found = found.unwrap_or_else(|| panic!("{metric} is not in {:?}", scores.text));
        let figure = scores.figure(metric).unwrap_or_else(|| panic!("there is no {metric}"));
        let decimals = found.value.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let (shown, read) = (
            format!("{figure:.decimals$}"),
            format!("{:.decimals$}", found.number().expect("a figure is a number")),
        );
        assert_eq!(shown, read, "{metric}");
    }
}
