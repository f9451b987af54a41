//! Accuracy metrics: scores the answers in `mlperf_log_accuracy.json` against references.
//!
//! A log is read once, entry by entry, and may be larger than memory. A [`Scorer`] takes one answer
//! after another and keeps only what its metric needs. The metrics are functions of predictions and
//! references, each in its own module, and do not depend on the log.
//!
//! Scores are deterministic: one log always gives the same digits. They are printed in the form of
//! the benchmarks' accuracy scripts, which the submission checkers read. Start at [`score`] and
//! [`Method`].
//!
//! ```
//! use dyno_metrics::speech::WordErrors;
//!
//! let mut errors = WordErrors::default();
//! errors.add("the cat sat", "the cat sat down");
//! assert_eq!((errors.errors, errors.words), (1, 4));
//! assert_eq!(errors.rate(), 0.25);
//! ```
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

use std::hash::{DefaultHasher, Hasher};
use std::io::BufRead;
use std::ops::AddAssign;

use dyno_loadgen::log::read::{AccuracyReader, LogReadProblem};
use thiserror::Error;

pub use data::{DataError, DataProblem};
pub use method::{Choice, Inputs, METHODS, Method, Need};

use sample_set::SampleSet;

/// Malformed answers that a [`ScoreReport`] lists.
const LISTED_MALFORMED: usize = 20;

/// Samples whose answers are compared with each other.
const COMPARED_SAMPLES: usize = 1 << 24;

/// Answers that a thread judges at a time.
const BATCH_ANSWERS: usize = 128;

/// A malformed answer among several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Position among the answers, from 0.
    pub position: usize,
    /// Why the answer is rejected.
    pub error: AnswerError,
}

/// Scores the answers of a run.
pub trait Scorer {
    /// Adds the answer to sample `index` of the data set.
    ///
    /// # Errors
    /// [`AnswerError`] if the answer is malformed. The scorer continues after it. If
    /// [`Scorer::counts_malformed`] and the references have the sample, the answer counts as wrong.
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError>;

    /// Adds answers, each with its sample, in their order, and returns those that are malformed.
    /// Metrics that judge each answer on its own use all processors.
    fn take_all(&mut self, answers: &[(u64, &[u8])]) -> Vec<Rejection> {
        let results = answers.iter().map(|(index, answer)| self.take(*index, answer)).enumerate();
        results
            .filter_map(|(position, result)| Some(Rejection { position, error: result.err()? }))
            .collect()
    }

    /// Returns whether malformed answers count as wrong. Otherwise the figures exclude them, and
    /// the score of a log that contains malformed answers is not valid.
    fn counts_malformed(&self) -> bool {
        true
    }

    /// Returns which of several answers to one sample count.
    fn repeat_policy(&self) -> RepeatPolicy {
        RepeatPolicy::First
    }

    /// Returns the number of samples in the references; `None` if answers contain their references.
    fn references(&self) -> Option<u64>;

    /// Returns the number of answers that were taken but not judged, because their references cannot be
    /// compared with any answer.
    fn excluded(&self) -> u64 {
        0
    }

    /// Returns the figures. Call it once, after the last answer.
    fn scores(&mut self) -> Scores;
}

/// Which of several answers to one sample count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepeatPolicy {
    /// The first answer, as in most accuracy scripts.
    First,
    /// All answers, as if each had a sample of its own.
    All,
}

/// Why an answer is malformed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AnswerError {
    /// The references do not have the sample.
    #[error("the references have {references} samples, and not this one")]
    Sample {
        /// Number of samples in the references.
        references: u64,
    },
    /// The answer has a wrong number of bytes.
    #[error("expected {expected} bytes, found {found}")]
    Length {
        /// Expected number of bytes, such as `8` or `a multiple of 28`.
        expected: String,
        /// Number of bytes in the answer.
        found: usize,
    },
    /// The answer has the right length and an invalid value.
    #[error("expected {expected}, found {found}")]
    Content {
        /// Expected value.
        expected: String,
        /// Value in the answer.
        found: String,
    },
}

/// Returns the reference of a sample.
///
/// # Errors
/// [`AnswerError::Sample`] if there is no such sample.
fn reference_of<T>(references: &[T], index: u64) -> Result<&T, AnswerError> {
    let found = usize::try_from(index).ok().and_then(|at| references.get(at));
    found.ok_or(AnswerError::Sample { references: references.len() as u64 })
}

/// Judges answers on all processors. Returns the sum of what `judge` adds and the malformed
/// answers. The sum must not depend on the order of answers, as sums of integers do not.
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
    /// Name of the metric in the rules of the rounds, such as `acc` or `ROUGE1`.
    pub metric: &'static str,
    /// Value in the unit of the target in the rules, mostly percent.
    pub value: f64,
}

/// Figures of a run, and the texts that report them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scores {
    /// Figures that the rules limit.
    pub figures: Vec<Figure>,
    /// Lines that the accuracy script of the benchmark prints, each with its line end: the content
    /// of `accuracy.txt` in a submission.
    pub text: String,
    /// Notes about the figures, one line each.
    pub notes: Vec<String>,
}

impl Scores {
    /// Returns the value of a metric; `None` if the scorer does not compute it.
    pub fn figure(&self, metric: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.metric == metric).map(|figure| figure.value)
    }
}

/// A malformed answer of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedAnswer {
    /// Line of the log, from 1.
    pub line: usize,
    /// Sample of the answer.
    pub index: u64,
    /// Why the answer is malformed.
    pub problem: AnswerError,
}

/// Scores of a log, and counts of its answers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScoreReport {
    /// Figures and texts.
    pub scores: Scores,
    /// Number of entries in the log.
    pub entries: u64,
    /// Number of distinct samples in the log that the references have.
    pub samples: u64,
    /// Number of samples in the references; `None` if answers contain their references.
    pub references: Option<u64>,
    /// Number of answers that differ from the first one to their sample, if only the first counts.
    /// Samples from number 2^24 on are not compared.
    pub contradicting: u64,
    /// Number of answers without a comparable reference, which the figures leave out.
    pub excluded: u64,
    /// The figures count malformed answers as wrong. See [`Scorer::counts_malformed`].
    pub counts_malformed: bool,
    /// Number of malformed answers.
    pub malformed: u64,
    /// The first malformed answers, at most 20.
    pub first_malformed: Vec<MalformedAnswer>,
}

/// Why a log has no score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScoreError<E> {
    /// The scorer could not be created.
    Scorer(E),
    /// The log is damaged or truncated. A part of a log is not scored.
    Log(LogReadProblem),
}

/// Scores a log. A thread reads the log while `scorer` reads the references, which often takes as
/// long.
///
/// # Errors
/// [`ScoreError::Scorer`] if `scorer` fails; [`ScoreError::Log`] if the log cannot be read to its
/// end.
///
/// ```
/// use dyno_loadgen::log::read::AccuracyReader;
/// use dyno_metrics::payload::Element;
/// use dyno_metrics::recommendation::Clicks;
/// use dyno_metrics::score;
///
/// // An answer holds a prediction and a label for each pair, here 0.9 and 1, then 0.1 and 0.
/// let log = r#"[
/// {"seq_id": 0, "qsl_idx": 7, "data": "6666663F0000803F"},
/// {"seq_id": 1, "qsl_idx": 8, "data": "CDCCCC3D00000000"}
/// ]"#;
/// let open = || Ok::<_, ()>(Box::new(Clicks::new(None, Element::F32)) as _);
/// let report = score(AccuracyReader::new(log.as_bytes()), open).unwrap();
/// assert_eq!(report.entries, 2);
/// assert_eq!(report.scores.figure("AUC"), Some(100.0));
/// ```
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

/// Scores answers in memory, each with its sample, and samples whose answers failed. These count as wrong
/// if malformed answers do (see [`Scorer::counts_malformed`]), and are excluded otherwise.
///
/// ```
/// use dyno_metrics::payload::Element;
/// use dyno_metrics::speech::Transcripts;
/// use dyno_metrics::score_answers;
///
/// // Each character is a number: "ab" against "ab c".
/// let mut scorer = Transcripts::new(vec!["ab c".to_owned(), "de".to_owned()], Element::U8);
/// let report = score_answers([(0, &[1, 2][..])], &[], &mut scorer);
/// assert_eq!(report.scores.figure("WER"), Some(50.0));
/// assert_eq!(report.malformed, 0);
/// ```
pub fn score_answers<'a>(
    answers: impl IntoIterator<Item = (u64, &'a [u8])>,
    failed: &[u64],
    scorer: &mut dyn Scorer,
) -> ScoreReport {
    let mut scoring = Scoring::new(scorer);
    let entries = (1..).zip(answers).map(|(line, (index, data))| (line, index, data));
    scoring.take_all(&entries.collect::<Vec<_>>());
    scoring.fail_all(failed);
    scoring.end()
}

struct Scoring<'a> {
    scorer: &'a mut dyn Scorer,
    repeat_policy: RepeatPolicy,
    answered: SampleSet,
    /// Digests of the first answers, by sample.
    digests: Vec<u32>,
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
            digests: Vec::new(),
            report,
        }
    }

    /// Adds entries: line, sample and answer of each.
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
            if self.repeat_policy == RepeatPolicy::First {
                report.contradicting +=
                    u64::from(contradicts(&mut self.digests, is_new, *index, data));
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

    /// Counts samples as wrong: an empty answer is a wrong one, or a malformed one.
    fn fail_all(&mut self, failed: &[u64]) {
        if self.report.counts_malformed && !failed.is_empty() {
            let empty: Vec<(u64, &[u8])> = failed.iter().map(|index| (*index, &[][..])).collect();
            // The report counts malformed answers, which these are not.
            let _ = self.scorer.take_all(&empty);
        }
    }

    fn end(self) -> ScoreReport {
        let excluded = self.scorer.excluded();
        ScoreReport { scores: self.scorer.scores(), excluded, ..self.report }
    }
}

/// Returns whether an answer differs from the first one to its sample. Stores the first one.
fn contradicts(digests: &mut Vec<u32>, is_new: bool, index: u64, answer: &[u8]) -> bool {
    let Ok(index) = usize::try_from(index) else { return false };
    if index >= COMPARED_SAMPLES {
        return false;
    }
    if is_new {
        digests.resize(digests.len().max(index + 1), 0);
        digests[index] = digest(answer);
        return false;
    }
    digests.get(index).is_some_and(|first| *first != digest(answer))
}

/// Returns a digest of an answer: of its length, its beginning and its end.
#[expect(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
fn digest(answer: &[u8]) -> u32 {
    const PART: usize = 4096;
    let mut hasher = DefaultHasher::new();
    hasher.write_usize(answer.len());
    hasher.write(&answer[..answer.len().min(PART)]);
    hasher.write(&answer[answer.len().saturating_sub(PART)..]);
    hasher.finish() as u32
}

/// Asserts that the checker of a round reads each figure from the text as the scorer computed it.
#[cfg(test)]
fn assert_checker_reads(round: &str, benchmark: &str, scores: &Scores) {
    assert_checker_reads_some(round, benchmark, scores, &[]);
}

/// Asserts this for all figures but those of the metrics in `without`.
#[cfg(test)]
fn assert_checker_reads_some(round: &str, benchmark: &str, scores: &Scores, without: &[&str]) {
    use dyno_rules::Round;
    use dyno_rules::accuracy::{Patterns, scan};

    let round = Round::named(round).expect("the round is one of ours");
    let rules = round.benchmarks.iter().find(|rules| rules.name == benchmark);
    let patterns = Patterns::new(round);
    let patterns = patterns.for_benchmark(rules);
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
