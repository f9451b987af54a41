//! What the tuner did and why: a step is a question, its candidates, and what was decided.

use std::fmt;

use super::trial::Subset;
use crate::assignment::Assignment;

/// A part of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// One width for all, halved, then bisected.
    Coarse,
    /// Biases one up.
    Bias,
    /// Widths one down.
    Width,
    /// FIXED for EXP and back.
    Type,
    /// Widths up and biases down, until the full set has its accuracy again.
    Recovery,
    /// One of the other searches.
    Search,
    /// The answer on samples that it was not chosen by.
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

/// A question, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Which part of the search.
    pub phase: Phase,
    /// On which samples.
    pub subset: Subset,
    /// What was asked.
    pub question: String,
    /// What could be chosen.
    pub candidates: Vec<Candidate>,
    /// What was decided.
    pub decision: String,
}

/// One of the choices of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// What it changes.
    pub change: String,
    /// What it would be.
    pub assignment: Assignment,
    /// Of the objective function.
    pub objective: f64,
    /// As it was evaluated.
    pub accuracy: f64,
    /// The accuracy is at most that.
    pub is_bound: bool,
    /// Whether it was taken.
    pub is_accepted: bool,
    /// Why it was, or was not.
    pub why: String,
    /// What the evaluator said of it beside its accuracy.
    pub note: Option<String>,
}

/// An accuracy with as many digits as sets of samples have.
pub(crate) fn shown(accuracy: f64) -> String {
    format!("{accuracy:.5}").trim_end_matches('0').trim_end_matches('.').to_owned()
}
