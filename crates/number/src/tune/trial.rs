//! A trial: one configuration on one set of samples, as data that can be sent to an evaluator.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::assignment::Assignment;
use crate::confirm::SampleOutcomes;
use crate::format::Format;

dyno_loadgen::named_enum! {
    /// A set of samples.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Subset {
        /// A part of the samples, for the first pass (SPEC A22).
        Small = "small",
        /// All samples by which formats are chosen.
        Full = "full",
        /// Samples that do not influence the choice: the validation set of closed mode.
        Confirmation = "confirmation",
    }
}

impl fmt::Display for Subset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A configuration to evaluate on a set of samples.
///
/// ```
/// use dyno_number::tune::{Subset, Trial};
/// use dyno_number::{Assignment, Format};
/// let objects = vec![vec!["conv1.weight".to_owned()]];
/// let assignment = Assignment::new(objects, vec![Format::fixed(3, -2)?]);
/// let trial = Trial { number: 1, subset: Subset::Small, assignment, decides: None };
/// let document = trial.to_json();
/// assert_eq!(document["formats"]["conv1.weight"], "FIXED 3 -2");
/// assert_eq!(Trial::from_json(&document)?, trial);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Number of the trial, counted from 1 over all sets, or [`Trial::AGAIN`].
    pub number: u64,
    /// Set of samples.
    pub subset: Subset,
    /// Formats of all objects.
    pub assignment: Assignment,
    /// All accuracies below this one lead to the same decision. An evaluator that is certain to
    /// stay below it may stop and return a bound.
    pub decides: Option<f64>,
}

/// Result of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Accuracy, usually a share; more is better. With `is_bound`, the accuracy is at most this.
    pub accuracy: f64,
    /// Whether the evaluation ended early: `accuracy` is an upper bound, and it is below
    /// [`Trial::decides`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_bound: bool,
    /// Whether the configuration could not be evaluated and counts as the worst one; `note` has the
    /// reason.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_failed: bool,
    /// Results of the samples in the order of the set, for the confirmation set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcomes: Option<SampleOutcomes>,
    /// Number of samples in the set, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Measured latency of the configuration, in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<f64>,
    /// Duration of the evaluation, in seconds.
    #[serde(default)]
    pub seconds: f64,
    /// Remark of the evaluator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Evaluation {
    /// Returns the evaluation of a configuration that could not be evaluated.
    pub fn failed(why: String) -> Self {
        Self { is_failed: true, note: Some(why), ..Self::from_accuracy(0.0) }
    }

    /// Returns whether the accuracy, as a share or in percent, states the mean of its samples to
    /// less than one sample. Programs may print fewer digits.
    pub(super) fn is_exact(&self) -> bool {
        let Some(outcomes) = &self.outcomes else { return false };
        let (mean, count) = (outcomes.mean(), outcomes.len() as f64);
        let is_near = |scale: f64| (mean * scale - self.accuracy).abs() < 0.5 * scale / count;
        [1.0, 100.0, 0.01].into_iter().any(is_near)
    }

    /// Returns an evaluation with nothing but an accuracy.
    pub fn from_accuracy(accuracy: f64) -> Self {
        Self {
            accuracy,
            is_bound: false,
            is_failed: false,
            outcomes: None,
            samples: None,
            latency_ns: None,
            seconds: 0.0,
            note: None,
        }
    }
}

/// Reason for which a tuner stops early.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// The user interrupted it.
    Interrupted,
    /// The limit of evaluations was reached.
    Limit,
    /// A configuration could not be evaluated; holds the reason.
    Failed(String),
}

/// Evaluates trials and returns one result for each, in their order. Results after the first `Err`
/// may be missing.
pub type EvaluateFn<'a> = dyn FnMut(&[Trial]) -> Vec<Result<Evaluation, Stop>> + 'a;

impl Trial {
    /// Number of a trial whose latency is measured again. Its accuracy is not used.
    pub const AGAIN: u64 = 0;

    /// Returns the trial as a JSON document for an evaluator in another process. Formats are
    /// written as in a configuration file.
    pub fn to_json(&self) -> Value {
        let formats = formats_json(&self.assignment);
        serde_json::json!({
            "schema": "dyno.trial",
            "schema_version": 1,
            "number": self.number,
            "set": self.subset,
            "decides": self.decides,
            "formats": formats,
        })
    }

    /// Reads a document that [`Trial::to_json`] returned.
    ///
    /// # Errors
    /// A field is missing or malformed.
    pub fn from_json(document: &Value) -> Result<Self, String> {
        let wrong = |key: &str| format!("`{key}` is missing in the trial, or makes no sense");
        if document["schema"] != "dyno.trial" || document["schema_version"] != 1 {
            return Err("expected a document with the schema dyno.trial, version 1".into());
        }
        let number = document["number"].as_u64().ok_or_else(|| wrong("number"))?;
        let subset = serde_json::from_value(document["set"].clone()).map_err(|_| wrong("set"))?;
        let decides = match &document["decides"] {
            Value::Null => None,
            value => Some(value.as_f64().ok_or_else(|| wrong("decides"))?),
        };
        let entries = document["formats"].as_object().ok_or_else(|| wrong("formats"))?;
        let mut objects = Vec::new();
        let mut formats = Vec::new();
        for (object, format) in entries {
            let words: Vec<&str> = format.as_str().unwrap_or("").split_whitespace().collect();
            let format =
                Format::from_words(&words).map_err(|error| format!("{object}: {error}"))?;
            objects.push(vec![object.clone()]);
            formats.push(format);
        }
        Ok(Self { number, subset, assignment: Assignment::new(objects, formats), decides })
    }
}

/// Returns formats by the names of objects.
pub(crate) fn formats_json(assignment: &Assignment) -> Map<String, Value> {
    assignment.iter().map(|(object, format)| (object.to_owned(), format.words().into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::tests::lenet;

    #[test]
    fn a_trial_travels_as_a_document() {
        let i3 = Format::fixed(3, -2).unwrap();
        let assignment = lenet().base().with_formats(vec![i3, Format::F16, i3, Format::BF16]);
        let trial = Trial { number: 7, subset: Subset::Full, assignment, decides: Some(0.9136) };
        let document = trial.to_json();
        assert_eq!(document["formats"]["conv1.weight"], "FIXED 3 -2");
        let back = Trial::from_json(&serde_json::from_str(&document.to_string()).unwrap()).unwrap();
        assert!(back.assignment.iter().eq(trial.assignment.iter()), "{back:?}");
        assert_eq!((back.number, back.subset, back.decides), (7, Subset::Full, Some(0.9136)));
        let mut wrong = document.clone();
        wrong["formats"]["conv1.weight"] = "FIXED 40".into();
        let refused = Trial::from_json(&wrong).expect_err("no such format");
        assert_eq!(refused, "conv1.weight: expected 1 to 32 bits of FIXED, found 40");
        wrong["set"] = "tiny".into();
        assert!(Trial::from_json(&wrong).is_err_and(|error| error.starts_with("`set`")));
    }

    #[test]
    fn an_evaluation_has_only_what_is_known() {
        let text = serde_json::to_string(&Evaluation::from_accuracy(0.5)).unwrap();
        assert_eq!(text, r#"{"accuracy":0.5,"seconds":0.0}"#);
        let read: Evaluation = serde_json::from_str(r#"{"accuracy":0.25,"samples":9}"#).unwrap();
        assert_eq!(read, Evaluation { samples: Some(9), ..Evaluation::from_accuracy(0.25) });
    }
}
