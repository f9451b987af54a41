//! Steps of a tuner: a question, its candidates and the decision.

use std::fmt;

use super::trial::Subset;
use crate::assignment::Assignment;

/// A phase of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// One width for all objects, halved, then bisected.
    Coarse,
    /// Biases are raised by one.
    Bias,
    /// Widths are reduced by one.
    Width,
    /// FIXED is exchanged for EXP, or EXP for FIXED.
    Type,
    /// Widths are raised and biases lowered until the accuracy suffices on the full set.
    Recovery,
    /// A search other than the thesis'.
    Search,
    /// The answer is evaluated on samples that did not influence its choice.
    Confirmation,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Coarse => "coarse",
            Self::Bias => "bias",
            Self::Width => "width",
            Self::Type => "type",
            Self::Recovery => "recovery",
            Self::Search => "search",
            Self::Confirmation => "confirmation",
        })
    }
}

/// A question with its candidates and the decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Phase of the search.
    pub phase: Phase,
    /// Set of samples.
    pub subset: Subset,
    /// Question that the step decides.
    pub question: String,
    /// Candidates in the order in which they were evaluated.
    pub candidates: Vec<Candidate>,
    /// The decision and its reason.
    pub decision: String,
}

/// A candidate of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// What it changes, for display.
    pub change: String,
    /// Its formats.
    pub assignment: Assignment,
    /// Its value of the objective function.
    pub objective: f64,
    /// Its accuracy on the set of the step.
    pub accuracy: f64,
    /// Whether `accuracy` is only an upper bound.
    pub is_bound: bool,
    /// Whether it was accepted.
    pub is_accepted: bool,
    /// Why it was accepted or rejected.
    pub why: String,
    /// Remark of the evaluator.
    pub note: Option<String>,
}

/// Formats an accuracy with at most five decimals.
pub(crate) fn format_accuracy(accuracy: f64) -> String {
    format!("{accuracy:.5}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Accepts the only candidate, with the reason, if its accuracy is sufficient.
pub(super) fn accepted(accuracy: f64, threshold: f64) -> Option<(usize, String)> {
    let [reached, least] = [accuracy, threshold].map(format_accuracy);
    (accuracy >= threshold).then(|| (0, format!("accuracy {reached} is at least {least}")))
}
