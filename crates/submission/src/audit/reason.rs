//! Why an audit fails.

use std::fmt;
use std::path::PathBuf;

use crate::finding::counted;

/// Which of two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Of the submission; of the pair of TEST04, the unique samples.
    Reference,
    /// Of the audit.
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

/// One thing that speaks against a system, or against the evidence.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// A log that the audit needs was not given.
    NotGiven {
        /// What.
        what: &'static str,
    },
    /// A log does not read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A run is INVALID by its own log, or the log does not say.
    NotValid {
        /// Which run.
        side: Side,
    },
    /// A log tells of errors.
    Errors {
        /// Which run.
        side: Side,
        /// How many.
        count: u64,
    },
    /// A log has no score.
    NoScore {
        /// Which run.
        side: Side,
    },
    /// The runs are of different scenarios.
    Scenarios {
        /// Of the submission.
        reference: String,
        /// Of the audit.
        audit: String,
    },
    /// A setting that both runs must share differs, or the audit's is missing.
    Setting {
        /// Which run.
        side: Side,
        /// Key of the detail log.
        key: &'static str,
        /// What it must be.
        expected: String,
        /// What it is; `None` if the log does not say.
        found: Option<String>,
    },
    /// Two lines of a log give a key different values.
    Contradiction {
        /// Which run.
        side: Side,
        /// Key of the detail log.
        key: String,
    },
    /// The score lies too far from the reference.
    Score {
        /// Of the submission.
        reference: f64,
        /// Of the audit.
        audit: f64,
        /// Of both: `ns`, `streams` or `/s`.
        unit: &'static str,
        /// Share of the reference that it may lie away.
        tolerance: f64,
        /// Whether the audited run was the faster one.
        is_faster: bool,
    },
    /// Answers differ.
    Answers {
        /// How many.
        different: u64,
        /// Of so many that were compared.
        of: u64,
        /// The first sample with another answer.
        first: u64,
    },
    /// Answers to samples that the accuracy run has no answer to.
    Unmatched {
        /// How many.
        count: u64,
        /// Of so many that were logged.
        of: u64,
    },
    /// The accuracy run has answers to fewer samples than it was to have.
    FewSamples {
        /// Distinct samples that it has an answer to.
        found: u64,
        /// How many there must be.
        expected: u64,
    },
    /// No answer could be compared.
    NothingLogged,
    /// Fewer answers than the audit is about.
    TooFew {
        /// Distinct samples that were logged.
        found: u64,
        /// How many there must be.
        expected: u64,
    },
    /// The official script ends with a traceback.
    ScriptStops {
        /// Why.
        why: &'static str,
    },
    /// The qualities of both runs are too far apart.
    QualityDelta {
        /// Of what.
        metric: String,
        /// Of the accuracy run, over the same samples.
        baseline: f64,
        /// Of the audited run.
        audit: f64,
        /// How far apart, in percent.
        percent: f64,
        /// How far they may be.
        most: f64,
    },
    /// A quality is missing or 0.
    NoQuality {
        /// Of what.
        metric: String,
    },
    /// The quality is too low.
    Quality {
        /// What it is.
        found: f64,
        /// What it must be at least.
        least: f64,
    },
    /// A bound that the round does not give for this benchmark.
    NoBound {
        /// Which.
        what: &'static str,
    },
    /// First tokens are not what the answer begins with.
    FirstToken {
        /// How many answers.
        count: u64,
        /// The first such sample.
        first: u64,
    },
    /// Tokens after the end of the text.
    EndOfText {
        /// How many answers.
        count: u64,
        /// The first such sample.
        first: u64,
    },
    /// The count of tokens is not that of the answer.
    TokenCount {
        /// How many answers.
        count: u64,
        /// The first such sample.
        first: u64,
    },
    /// Answers that are no list of such elements.
    Malformed {
        /// How many answers.
        count: u64,
        /// The first such sample.
        first: u64,
    },
    /// Answers are shorter or longer in the mean than they may be.
    MeanTokens {
        /// The mean.
        found: f64,
        /// The bounds.
        bounds: [f64; 2],
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotGiven { what } => write!(f, "there is no {what} to compare with"),
            Self::Unreadable { path, problem } => write!(f, "{}: {problem}", path.display()),
            Self::NotValid { side } => write!(f, "the {side} run is not VALID"),
            Self::Errors { side, count } => {
                let errors = counted(*count, "error", "errors");
                write!(f, "the log of the {side} run tells of {errors}")
            }
            Self::NoScore { side } => write!(f, "the log of the {side} run has no score"),
            Self::Scenarios { reference, audit } => {
                write!(f, "the reference is {reference} and the audited run {audit}")
            }
            Self::Setting { side, key, expected, found } => {
                let found = found.as_deref().unwrap_or("not in its log");
                write!(f, "{key} of the {side} run is {found}, expected {expected}")
            }
            Self::Contradiction { side, key } => write!(
                f,
                "{key} stands in the log of the {side} run with different values; it must be the \
                 log of one run as that wrote it"
            ),
            Self::Score { reference, audit, unit, tolerance, is_faster } => {
                score(f, [*reference, *audit], unit, *tolerance, *is_faster)
            }
            Self::Answers { different, of, first } => write!(
                f,
                "{different} of {of} answers differ from the accuracy run; the first is that of \
                 sample {first}"
            ),
            Self::Unmatched { count, of } => {
                write!(f, "the accuracy run has no answer to {count} of {of} logged samples")
            }
            Self::FewSamples { found, expected } => write!(
                f,
                "the accuracy run has answers to {found} different samples, expected {expected}"
            ),
            Self::NothingLogged => {
                f.write_str("no answer of the audited run could be compared; was anything logged?")
            }
            Self::TooFew { found, expected } => {
                write!(f, "{found} different samples are logged, expected {expected}")
            }
            Self::ScriptStops { why } => write!(f, "the official script stops: {why}"),
            Self::QualityDelta { metric, baseline, audit, percent, most } => {
                let [audit, baseline] = [*audit, *baseline].map(six_digits);
                write!(
                    f,
                    "{metric} is {audit} in the audited run and {baseline} in the accuracy "
                )?;
                write!(
                    f,
                    "run over the same samples: {percent:.3} % apart, at most {most} % may be"
                )
            }
            Self::NoQuality { metric } => write!(f, "{metric} is missing or 0 in one of the texts"),
            Self::Quality { found, least } => {
                write!(f, "the quality is {found}, expected {least} or more")
            }
            Self::NoBound { what } => {
                write!(f, "the round gives no {what} for this benchmark; name another, or give it")
            }
            of_tokens => of_tokens.tell_of_tokens(f),
        }
    }
}

impl Reason {
    /// What is wrong with the tokens of answers.
    fn tell_of_tokens(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FirstToken { count, first } => {
                many(f, *count, *first, "do not begin with the tokens that were reported first")
            }
            Self::EndOfText { count, first } => {
                many(f, *count, *first, "go on after the end of the text")
            }
            Self::TokenCount { count, first } => {
                many(f, *count, *first, "have other numbers of tokens than were reported")
            }
            Self::Malformed { count, first } => {
                many(f, *count, *first, "are no whole number of elements")
            }
            Self::MeanTokens { found, bounds: [least, most] } => {
                write!(f, "answers have {found:.2} tokens in the mean, expected {least} to {most}")
            }
            _ => Ok(()),
        }
    }
}

/// The score is too far away.
fn score(
    f: &mut fmt::Formatter<'_>,
    [reference, audit]: [f64; 2],
    unit: &str,
    tolerance: f64,
    is_faster: bool,
) -> fmt::Result {
    let (away, most) = (100.0 * (audit / reference - 1.0), 100.0 * tolerance);
    let found = if is_faster { "faster" } else { "slower" };
    let [audit, reference] = [audit, reference].map(|score| shown(score, unit));
    let space = if unit.starts_with('/') { "" } else { " " };
    write!(f, "the score is {audit}{space}{unit} against {reference}{space}{unit}, ")?;
    write!(f, "{away:+.1} %: the audited ")?;
    write!(f, "run is {found} by more than {most:.0} %")
}

/// A score as it is told: ns and streams are whole.
pub(crate) fn shown(score: f64, unit: &str) -> f64 {
    if unit.starts_with('/') { six_digits(score) } else { score.round() }
}

/// A score with the digits that load generators print.
fn six_digits(score: f64) -> f64 {
    if score == 0.0 || !score.is_finite() {
        return score;
    }
    let scale = 10_f64.powf(5.0 - score.abs().log10().floor());
    (score * scale).round() / scale
}

/// So many answers have a fault.
fn many(f: &mut fmt::Formatter<'_>, count: u64, first: u64, fault: &str) -> fmt::Result {
    write!(f, "answers that {fault}: {count}; the first is that of sample {first}")
}
