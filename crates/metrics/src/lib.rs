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

mod ahead;
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
pub mod recommendation;
mod seen;
pub mod segmentation;
pub mod speech;
pub mod squad;
pub mod summarization;
pub mod text;
pub mod translation;
mod unicode;

use std::fmt;
use std::io::BufRead;
use std::ops::AddAssign;

use dyno_loadgen::log::read::{AccuracyReader, LogReadProblem};

pub use data::{DataError, DataProblem};
pub use method::{Choice, Inputs, METHODS, Method, Need};

use seen::Seen;

/// Answers that are no answers are told up to this number.
const MALFORMED_TOLD: usize = 20;

/// Answers that are worth a piece of work.
const AT_ONCE: usize = 128;

/// The place of an answer among others, and why it is none.
pub type Wrong = (usize, AnswerError);

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
    fn take_all(&mut self, answers: &[(u64, &[u8])]) -> Vec<Wrong> {
        let taken = answers.iter().map(|(index, answer)| self.take(*index, answer));
        taken.enumerate().filter_map(|(at, taken)| Some((at, taken.err()?))).collect()
    }

    /// Whether an answer can be wrong as a whole. Where not, figures of a log with
    /// answers that are none leave these out, and count for nothing.
    fn knows_wrong(&self) -> bool {
        true
    }

    /// What counts of several answers to one sample.
    fn repeats(&self) -> Repeats {
        Repeats::First
    }

    /// Samples that the references know of; none where answers bring their own.
    fn references(&self) -> Option<u64>;

    /// The figures; called once, after the last answer.
    fn scores(&mut self) -> Scores;
}

/// What counts of several answers to one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// The first one, as most accuracy scripts have it.
    First,
    /// Each, as if they were to samples of their own.
    All,
}

/// Why an answer is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerError {
    /// The references have no such sample.
    Sample {
        /// How many they have.
        references: u64,
    },
    /// The bytes have another length than answers of the task have.
    Length {
        /// Bytes that were expected, such as `8` or `a multiple of 28`.
        expected: String,
        /// Bytes that there are.
        found: usize,
    },
    /// The bytes are of the right length, but mean nothing.
    Content {
        /// What was expected.
        expected: String,
        /// What there is.
        found: String,
    },
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sample { references } => {
                write!(f, "the references have {references} samples, and not this one")
            }
            Self::Length { expected, found } => {
                write!(f, "expected {expected} bytes, found {found}")
            }
            Self::Content { expected, found } => write!(f, "expected {expected}, found {found}"),
        }
    }
}

impl std::error::Error for AnswerError {}

/// What the references have of a sample.
fn of_sample<T>(references: &[T], index: u64) -> Result<&T, AnswerError> {
    let found = usize::try_from(index).ok().and_then(|at| references.get(at));
    found.ok_or(AnswerError::Sample { references: references.len() as u64 })
}

/// What `judge` adds up of answers on all processors, and those that are none. For sums of
/// whole numbers, which do not depend on the order.
fn judged<S: Default + AddAssign + Send>(
    answers: &[(u64, &[u8])],
    judge: impl Fn(&mut S, u64, &[u8]) -> Result<(), AnswerError> + Sync,
) -> (S, Vec<Wrong>) {
    let pieces: Vec<_> = answers.chunks(AT_ONCE).collect();
    let found = parallel::map(&pieces, |piece| {
        let (mut sum, mut wrong) = (S::default(), Vec::new());
        for (at, (index, answer)) in piece.iter().enumerate() {
            wrong.extend(judge(&mut sum, *index, answer).err().map(|problem| (at, problem)));
        }
        (sum, wrong)
    });
    let (mut sum, mut wrong) = (S::default(), Vec::new());
    for (piece, (of_piece, of_wrong)) in found.into_iter().enumerate() {
        sum += of_piece;
        wrong.extend(of_wrong.into_iter().map(|(at, problem)| (piece * AT_ONCE + at, problem)));
    }
    (sum, wrong)
}

/// What became of an answer that was taken alone.
fn only(wrong: Vec<Wrong>) -> Result<(), AnswerError> {
    wrong.into_iter().next().map_or(Ok(()), |(_, problem)| Err(problem))
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
pub struct Malformed {
    /// Line of the log, from 1.
    pub line: usize,
    /// The sample.
    pub index: u64,
    /// What is wrong.
    pub problem: AnswerError,
}

/// A log with what was found in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scored {
    /// What the scorer found.
    pub scores: Scores,
    /// Entries of the log.
    pub entries: u64,
    /// Distinct samples of the references among them.
    pub samples: u64,
    /// Samples that the references know of; none where answers bring their own.
    pub references: Option<u64>,
    /// Whether the figures count answers that are none.
    pub knows_wrong: bool,
    /// Answers that are none.
    pub malformed: u64,
    /// The first of them.
    pub malformed_told: Vec<Malformed>,
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
) -> Result<Scored, ScoreError<E>> {
    ahead::with(log, |answers| {
        let mut scorer = scorer().map_err(ScoreError::Scorer)?;
        let mut scoring = Scoring::new(scorer.as_mut());
        answers.each(|entries| scoring.take_all(entries)).map_err(ScoreError::<E>::Log)?;
        Ok(scoring.end())
    })
}

/// Gives a scorer answers that are in memory: the sample of each, and its bytes.
pub fn score_answers<'a>(
    answers: impl IntoIterator<Item = (u64, &'a [u8])>,
    scorer: &mut dyn Scorer,
) -> Scored {
    let mut scoring = Scoring::new(scorer);
    let entries = (1..).zip(answers).map(|(line, (index, data))| (line, index, data));
    scoring.take_all(&entries.collect::<Vec<_>>());
    scoring.end()
}

struct Scoring<'a> {
    scorer: &'a mut dyn Scorer,
    repeats: Repeats,
    seen: Seen,
    scored: Scored,
}

impl<'a> Scoring<'a> {
    fn new(scorer: &'a mut dyn Scorer) -> Self {
        let references = scorer.references();
        let knows_wrong = scorer.knows_wrong();
        let scored = Scored { references, knows_wrong, ..Scored::default() };
        Self { repeats: scorer.repeats(), scorer, seen: Seen::default(), scored }
    }

    /// Takes entries, each with its line and its sample.
    fn take_all(&mut self, entries: &[(usize, u64, &[u8])]) {
        let (mut lines, mut answers) = (Vec::new(), Vec::new());
        let scored = &mut self.scored;
        for (line, index, data) in entries {
            scored.entries += 1;
            let is_new = self.seen.insert(*index);
            let is_known = scored.references.is_none_or(|references| *index < references);
            scored.samples += u64::from(is_new && is_known);
            if is_new || self.repeats == Repeats::All {
                lines.push(*line);
                answers.push((*index, *data));
            }
        }
        for (at, problem) in self.scorer.take_all(&answers) {
            scored.malformed += 1;
            if scored.malformed_told.len() < MALFORMED_TOLD {
                let (line, index) = (lines[at], answers[at].0);
                scored.malformed_told.push(Malformed { line, index, problem });
            }
        }
    }

    fn end(self) -> Scored {
        Scored { scores: self.scorer.scores(), ..self.scored }
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
