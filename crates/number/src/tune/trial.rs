//! A trial: one configuration on one set of samples, as data that can be sent to whoever evaluates it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::assignment::Assignment;
use crate::format::Format;

/// A set of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subset {
    /// A part, for the first pass (SPEC A22).
    Small,
    /// All that formats are chosen by.
    Full,
    /// What the choice never sees: the validation set of closed mode.
    Confirmation,
}

impl Subset {
    /// In the order in which they are used.
    pub const ALL: [Self; 3] = [Self::Small, Self::Full, Self::Confirmation];

    /// For people and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Full => "full",
            Self::Confirmation => "confirmation",
        }
    }
}

impl fmt::Display for Subset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What is to be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Counted from 1, over all sets.
    pub number: u64,
    /// On which samples.
    pub subset: Subset,
    /// With which formats.
    pub assignment: Assignment,
    /// All accuracies below this one lead to the same decision: whoever is sure of one may stop there, and
    /// answer with a bound.
    pub decides: Option<f64>,
}

/// What came of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// More is better; usually a share. With `is_bound`, no more than that.
    pub accuracy: f64,
    /// The evaluation ended early: the accuracy lies at most at `accuracy`, and that below
    /// [`Trial::decides`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_bound: bool,
    /// How many samples there are in the set, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// What was measured of the configuration's latency, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<f64>,
    /// How long it took.
    #[serde(default)]
    pub seconds: f64,
    /// What else is to be said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Evaluation {
    /// Of an accuracy alone.
    #[must_use]
    pub fn of(accuracy: f64) -> Self {
        Self {
            accuracy,
            is_bound: false,
            samples: None,
            latency_ns: None,
            seconds: 0.0,
            note: None,
        }
    }
}

/// Why a tuner ends before it is done.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// Somebody asked for it.
    Interrupted,
    /// The limit of evaluations is reached.
    Limit,
    /// A configuration could not be evaluated: why.
    Failed(String),
}

/// Whoever evaluates trials: one answer for each, in their order. One that stops needs none after it.
pub type Evaluate<'a> = dyn FnMut(&[Trial]) -> Vec<Result<Evaluation, Stop>> + 'a;

impl Trial {
    /// As a document, for whoever evaluates elsewhere. The formats are those of a configuration file.
    #[must_use]
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

    /// Reads what [`Trial::to_json`] wrote.
    ///
    /// # Errors
    /// What is missing or makes no sense.
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

/// Formats by the names of objects.
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
        let assignment = lenet().base().with(vec![i3, Format::F16, i3, Format::BF16]);
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
        let text = serde_json::to_string(&Evaluation::of(0.5)).unwrap();
        assert_eq!(text, r#"{"accuracy":0.5,"seconds":0.0}"#);
        let read: Evaluation = serde_json::from_str(r#"{"accuracy":0.25,"samples":9}"#).unwrap();
        assert_eq!(read, Evaluation { samples: Some(9), ..Evaluation::of(0.25) });
    }
}
