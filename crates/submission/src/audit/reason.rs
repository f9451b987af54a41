//! Reasons for which an audit fails.

use std::fmt;
use std::path::PathBuf;

use crate::finding::counted;

/// One of the two compared runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The run of the submission; for the TEST04 pair, the run with unique samples.
    Reference,
    /// The run of the audit.
    Audit,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reference => "reference",
            Self::Audit => "audited",
        })
    }
}

/// A reason against the system or against the evidence.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// A log that the audit needs was not provided.
    NotGiven {
        /// Name of the log.
        what: &'static str,
    },
    /// A log cannot be read.
    Unreadable {
        /// Path of the log.
        path: PathBuf,
        /// Description of the problem.
        problem: String,
    },
    /// A run is INVALID by its own log, or the log has no verdict.
    NotValid {
        /// Run.
        side: Side,
    },
    /// A log contains errors.
    Errors {
        /// Run.
        side: Side,
        /// Number of errors.
        count: u64,
    },
    /// A log has no score, such as one without an estimate of early stopping.
    NoScore {
        /// Run.
        side: Side,
    },
    /// The runs have different scenarios.
    Scenarios {
        /// Scenario of the submission.
        reference: String,
        /// Scenario of the audit.
        audit: String,
    },
    /// A setting that both runs must share differs, or a setting of the audit is missing.
    Setting {
        /// Run.
        side: Side,
        /// Key in the detail log.
        key: &'static str,
        /// Expected value.
        expected: String,
        /// Logged value; `None` if the log does not contain the key.
        found: Option<String>,
    },
    /// Two lines of a log give one key different values.
    Contradiction {
        /// Run.
        side: Side,
        /// Key in the detail log.
        key: String,
    },
    /// The score deviates too far from the reference.
    Score {
        /// Score of the submission.
        reference: f64,
        /// Score of the audit.
        audit: f64,
        /// Unit of both: `ns`, `streams` or `/s`.
        unit: &'static str,
        /// Permitted deviation, as a share of the reference.
        tolerance: f64,
        /// Whether the audited run was faster.
        is_faster: bool,
    },
    /// Answers differ.
    Answers {
        /// Number of different answers.
        different: u64,
        /// Number of compared answers.
        total: u64,
        /// First sample with a different answer.
        first: u64,
    },
    /// The accuracy run has no answer to some logged samples.
    Unmatched {
        /// Number of such samples.
        count: u64,
        /// Number of logged answers.
        total: u64,
    },
    /// The accuracy run has answers to fewer samples than required.
    FewSamples {
        /// Number of distinct samples with an answer.
        found: u64,
        /// Required number.
        expected: u64,
    },
    /// No answer could be compared.
    NothingLogged,
    /// The audit logged fewer samples than required.
    TooFew {
        /// Number of distinct logged samples.
        found: u64,
        /// Required number.
        expected: u64,
    },
    /// Answers are missing that the load generator logs by the settings of the run.
    MissingAnswers {
        /// Number of missing answers.
        missing: u64,
        /// Number of answers that must be logged.
        expected: u64,
        /// Sequence number of the first missing one.
        first: u64,
    },
    /// Several entries of the log have one sequence number.
    RepeatedAnswers {
        /// Number of entries whose sequence number occurred before.
        count: u64,
    },
    /// A sample has more answers than a random choice of samples permits.
    FrequentSample {
        /// Sample.
        sample: u64,
        /// Number of its answers.
        count: u64,
        /// Permitted number.
        most: u64,
    },
    /// All logged answers are empty.
    EmptyAnswers {
        /// Number of logged answers.
        count: u64,
    },
    /// The official script ends with a traceback.
    ScriptStops {
        /// Cause.
        why: &'static str,
    },
    /// The qualities of both runs differ too much.
    QualityDelta {
        /// Metric.
        metric: String,
        /// Quality of the accuracy run over the same samples.
        baseline: f64,
        /// Quality of the audited run.
        audit: f64,
        /// Difference in percent.
        percent: f64,
        /// Permitted difference in percent.
        most: f64,
    },
    /// A quality is missing or 0.
    NoQuality {
        /// Metric.
        metric: String,
    },
    /// The quality is too low.
    Quality {
        /// Quality found.
        found: f64,
        /// Required minimum.
        least: f64,
    },
    /// The round specifies no bound for this benchmark.
    NoBound {
        /// Name of the bound.
        what: &'static str,
    },
    /// Answers do not start with the reported first tokens.
    FirstToken {
        /// Number of answers.
        count: u64,
        /// First such sample.
        first: u64,
    },
    /// Answers contain tokens after the end of the text.
    EndOfText {
        /// Number of answers.
        count: u64,
        /// First such sample.
        first: u64,
    },
    /// Reported token counts differ from the answers.
    TokenCount {
        /// Number of answers.
        count: u64,
        /// First such sample.
        first: u64,
    },
    /// Answers are not a whole number of elements.
    Malformed {
        /// Number of answers.
        count: u64,
        /// First such sample.
        first: u64,
    },
    /// The mean length of answers is out of bounds.
    MeanTokens {
        /// Mean number of tokens.
        found: f64,
        /// Minimum and maximum.
        bounds: [f64; 2],
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotGiven { what } => write!(f, "{what} is missing, so nothing can be compared"),
            Self::Unreadable { path, problem } => write!(f, "{}: {problem}", path.display()),
            Self::NotValid { side } => write!(f, "the {side} run is not VALID"),
            Self::Errors { side, count } => {
                let errors = counted(*count, "error", "errors");
                write!(f, "the log of the {side} run has {errors}")
            }
            Self::NoScore { side } => write!(
                f,
                "the log of the {side} run has no score; from v2.0 on, the score of SingleStream and \
                 MultiStream is an estimate of early stopping, which needs the setting early_stopping \
                 and at least 64 and 662 queries"
            ),
            Self::Scenarios { reference, audit } => {
                write!(f, "the reference is {reference}, but the audited run {audit}")
            }
            Self::Setting { side, key, expected, found } => {
                let found = found.as_deref().unwrap_or("not in its log");
                write!(f, "{key} of the {side} run is {found}, expected {expected}")
            }
            Self::Contradiction { side, key } => write!(
                f,
                "{key} occurs in the log of the {side} run with different values; use the \
                 unchanged log of one run"
            ),
            Self::Score { reference, audit, unit, tolerance, is_faster } => {
                score(f, [*reference, *audit], unit, *tolerance, *is_faster)
            }
            Self::Answers { different, total, first } => write!(
                f,
                "{different} of {total} answers differ from the accuracy run; the first is that of \
                 sample {first}"
            ),
            Self::Unmatched { count, total } => {
                write!(f, "the accuracy run has no answers to {count} of {total} logged samples")
            }
            Self::FewSamples { found, expected } => write!(
                f,
                "the accuracy run has answers to {found} different samples, expected {expected}"
            ),
            Self::NothingLogged => f.write_str(
                "no answer of the audited run could be compared; check that it logged \
                     answers",
            ),
            Self::TooFew { found, expected } => {
                write!(f, "{found} different samples are logged, expected {expected}")
            }
            Self::ScriptStops { why } => write!(f, "the official script stops: {why}"),
            Self::QualityDelta { metric, baseline, audit, percent, most } => {
                let [audit, baseline] = [*audit, *baseline].map(six_digits);
                write!(
                    f,
                    "{metric} is {audit} in the audited run, but {baseline} in the accuracy run over \
                     the same samples: {percent:.3} % apart, at most {most} % allowed"
                )
            }
            Self::NoQuality { metric } => write!(f, "{metric} is missing or 0 in one of the texts"),
            Self::Quality { found, least } => {
                write!(f, "the quality is {found}, expected {least} or more")
            }
            Self::NoBound { what } => write!(
                f,
                "the round defines no {what} for this benchmark; pass another benchmark, or pass \
                 the value"
            ),
            answer_reason => answer_reason.fmt_answer_reason(f),
        }
    }
}

impl Reason {
    /// Formats the reasons that concern entries of the log and their tokens.
    fn fmt_answer_reason(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingAnswers { missing, expected, first } => write!(
                f,
                "{missing} of {expected} answers are missing that the run logs by its settings; \
                 the first is that with seq_id {first}"
            ),
            Self::RepeatedAnswers { count } => {
                let entries = counted(*count, "entry", "entries");
                write!(f, "{entries} of the audited run repeat the seq_id of another entry")
            }
            Self::FrequentSample { sample, count, most } => write!(
                f,
                "{count} logged answers are to sample {sample}, expected at most {most}; samples \
                 are chosen at random"
            ),
            Self::EmptyAnswers { count } => {
                let answers = counted(*count, "logged answer", "logged answers");
                write!(f, "the audited run has {answers}, all empty, which prove nothing")
            }
            Self::FirstToken { count, first } => {
                many(f, *count, *first, "do not begin with the first tokens reported")
            }
            Self::EndOfText { count, first } => {
                many(f, *count, *first, "continue after the end of sequence")
            }
            Self::TokenCount { count, first } => {
                many(f, *count, *first, "have different numbers of tokens than reported")
            }
            Self::Malformed { count, first } => {
                many(f, *count, *first, "are not a whole number of elements")
            }
            Self::MeanTokens { found, bounds: [least, most] } => {
                write!(f, "answers have {found:.2} tokens on average, expected {least} to {most}")
            }
            _ => Ok(()),
        }
    }
}

/// Formats a score that deviates too far.
fn score(
    f: &mut fmt::Formatter<'_>,
    [reference, audit]: [f64; 2],
    unit: &str,
    tolerance: f64,
    is_faster: bool,
) -> fmt::Result {
    let (away, most) = (100.0 * (audit / reference - 1.0), 100.0 * tolerance);
    // TEST04 compares speeds: a latency that is 9.4 % shorter is 10.4 % faster.
    let is_speed = unit == "ns" && is_faster && away.abs() <= most;
    let away = if is_speed { 100.0 * (reference / audit - 1.0) } else { away };
    let of_what = if is_speed { "speed " } else { "" };
    let found = if is_faster { "faster" } else { "slower" };
    let [audit, reference] = [audit, reference].map(|score| shown(score, unit));
    let space = if unit.starts_with('/') { "" } else { " " };
    write!(f, "the score is {audit}{space}{unit} against {reference}{space}{unit}, ")?;
    write!(f, "{of_what}{away:+.1} %: the audited ")?;
    write!(f, "run is {found} by more than {most:.0} %")
}

/// Rounds a score for display: ns and streams to integers, rates to six digits.
pub(crate) fn shown(score: f64, unit: &str) -> f64 {
    if unit.starts_with('/') { six_digits(score) } else { score.round() }
}

/// Rounds to the six significant digits that load generators print.
fn six_digits(score: f64) -> f64 {
    if score == 0.0 || !score.is_finite() {
        return score;
    }
    let scale = 10_f64.powf(5.0 - score.abs().log10().floor());
    (score * scale).round() / scale
}

/// Formats the number of answers with a fault.
fn many(f: &mut fmt::Formatter<'_>, count: u64, first: u64, fault: &str) -> fmt::Result {
    write!(f, "answers that {fault}: {count}; the first is that of sample {first}")
}
