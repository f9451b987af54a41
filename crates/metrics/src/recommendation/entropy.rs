//! Normalized entropy, accuracy and grouped AUC of rated candidates.
//!
//! Source: `accuracy.py` of the benchmark DLRMv3 with the definitions of TorchRec (`ne`,
//! `accuracy`, `gauc`; lifetime figures). Sums have 64 bits.

use super::super::payload::{self, Element};
use super::super::{AnswerError, Figure, Method, RepeatPolicy, Scorer, Scores};

/// Method of `dlrm-v3`.
pub(crate) const NORMALIZED_ENTROPY: Method = Method {
    name: "normalized-entropy",
    title: "cross entropy divided by that of the mean label, share of predictions on the correct \
            side of 0.5, and mean AUC of the answers",
    answer: "time and query; then the predictions, labels and weights of all candidates, and their \
             number",
    element: Some(Element::F32),
    needs: &[],
    choices: &[],
    open: |inputs| Ok(Box::new(Ratings::new(inputs.element.unwrap_or(Element::F32)))),
};

/// Minimum distance of predictions and mean labels from 0 and 1.
const ETA: f64 = 1e-12;

/// Number of values in an answer besides those of candidates: time, query, and number of
/// candidates.
const OTHERS: usize = 3;

/// Scores candidates whose answers contain labels and weights.
#[derive(Debug)]
pub struct Ratings {
    element: Element,
    answers: u64,
    /// Weighted cross entropy, in bits.
    entropy: f64,
    weight: f64,
    positive: f64,
    negative: f64,
    right: f64,
    /// Sum of the AUC of all answers that have one, and their number.
    groups: (f64, u64),
}

/// A rated candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Predicted probability of the label 1, in [0, 1].
    pub prediction: f64,
    /// Label: 0 or 1.
    pub label: f64,
    /// Weight, at least 0.
    pub weight: f64,
}

impl Ratings {
    /// Creates a scorer without answers.
    ///
    /// ```
    /// use dyno_metrics::payload::Element;
    /// use dyno_metrics::recommendation::entropy::{Candidate, Ratings};
    ///
    /// let mut ratings = Ratings::new(Element::F32);
    /// let candidate = |prediction, label| Candidate { prediction, label, weight: 1.0 };
    /// // Predicting the mean label has an entropy of 1.
    /// ratings.add(&[candidate(0.5, 1.0), candidate(0.5, 0.0)]);
    /// assert!((ratings.normalized_entropy() - 1.0).abs() < 1e-12);
    /// ```
    pub fn new(element: Element) -> Self {
        let groups = (0.0, 0);
        let (entropy, weight, positive, negative, right) = (0.0, 0.0, 0.0, 0.0, 0.0);
        Self { element, answers: 0, entropy, weight, positive, negative, right, groups }
    }

    /// Adds the candidates of one answer.
    pub fn add(&mut self, candidates: &[Candidate]) {
        for &Candidate { prediction, label, weight } in candidates {
            let share = prediction.clamp(ETA, 1.0 - ETA);
            self.entropy -=
                weight * label * share.log2() + weight * (1.0 - label) * (1.0 - share).log2();
            self.weight += weight;
            self.positive += weight * label;
            self.negative += weight * (1.0 - label);
            let side = f64::from(u8::from(prediction >= 0.5));
            self.right += if side == label { weight } else { 0.0 };
        }
        if let Some(auc) = group_auc(candidates) {
            self.groups.0 += auc;
            self.groups.1 += 1;
        }
    }

    /// Returns the cross entropy divided by that of predicting the mean label; NaN if all labels
    /// with a weight are equal, because the mean label then predicts them without entropy.
    pub fn normalized_entropy(&self) -> f64 {
        // TorchRec divides by the entropy of a mean label just above 0 or below 1 instead.
        if self.positive == 0.0 || self.negative == 0.0 {
            return f64::NAN;
        }
        let mean = (self.positive / self.weight).clamp(ETA, 1.0 - ETA);
        self.entropy / -(self.positive * mean.log2() + self.negative * (1.0 - mean).log2())
    }
}

/// Returns the AUC of one answer; `None` if all labels or all predictions are equal. A prediction
/// of 0 counts as equal to any other. Equal predictions keep their order.
fn group_auc(candidates: &[Candidate]) -> Option<f64> {
    let first = candidates.first()?.prediction;
    let is_alike = |prediction: f64| prediction == first || prediction == 0.0;
    let positive = candidates.iter().filter(|candidate| candidate.label == 1.0).count();
    let negative = candidates.len() - positive;
    if candidates.iter().all(|candidate| is_alike(candidate.prediction))
        || positive == 0
        || negative == 0
    {
        return None;
    }
    let mut ranked: Vec<&Candidate> = candidates.iter().collect();
    ranked.sort_by(|a, b| b.prediction.total_cmp(&a.prediction));
    let (mut below, mut in_order) = (negative as u64, 0_u64);
    for candidate in ranked {
        if candidate.label == 1.0 { in_order += below } else { below -= 1 }
    }
    Some(in_order as f64 / (positive as f64 * negative as f64))
}

/// Parses the candidates of an answer.
fn candidates(values: &[f64]) -> Result<Vec<Candidate>, AnswerError> {
    let content = |expected: &str, found: String| AnswerError::Content {
        expected: expected.to_owned(),
        found,
    };
    let count = values.last().copied().unwrap_or(f64::NAN);
    let expected = "the number of candidates at the end, and three values of each after two others";
    if values.len() < OTHERS || count * 3.0 != (values.len() - OTHERS) as f64 {
        return Err(content(expected, format!("{count} and {} values", values.len())));
    }
    let count = (values.len() - OTHERS) / 3;
    if count == 0 {
        return Err(content("candidates", "none".to_owned()));
    }
    let value = |part: usize, at: usize| values[2 + part * count + at];
    let candidate = |at| {
        let candidate =
            Candidate { prediction: value(0, at), label: value(1, at), weight: value(2, at) };
        let Candidate { prediction, label, weight } = candidate;
        if !(0.0..=1.0).contains(&prediction) {
            return Err(content("a prediction in [0, 1]", prediction.to_string()));
        }
        if label != 0.0 && label != 1.0 {
            return Err(content("a label of 0 or 1", label.to_string()));
        }
        if !(weight >= 0.0 && weight.is_finite()) {
            return Err(content("a weight of at least 0", weight.to_string()));
        }
        Ok(candidate)
    };
    (0..count).map(candidate).collect()
}

impl Scorer for Ratings {
    fn take(&mut self, _index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        self.answers += 1;
        let values: Vec<f64> = payload::reals(self.element, answer)?.collect();
        self.add(&candidates(&values)?);
        Ok(())
    }

    fn repeat_policy(&self) -> RepeatPolicy {
        RepeatPolicy::All
    }

    fn counts_malformed(&self) -> bool {
        false
    }

    fn references(&self) -> Option<u64> {
        None
    }

    fn scores(&mut self) -> Scores {
        let entropy = self.normalized_entropy();
        let accuracy = self.right / self.weight;
        // TorchRec adds these terms, so that the AUC is one half without groups.
        let auc = (self.groups.0 + 1e-9) / (self.groups.1 as f64 + 2e-9);
        let note = "no answer has two labels and two predictions: the AUC is 0.5 by definition";
        let figure = |metric, value| Figure { metric, value };
        Scores {
            figures: vec![
                figure("DLRM_NE", entropy),
                figure("DLRM_ACC", accuracy),
                figure("DLRM_AUC", auc),
            ],
            text: format!(
                "metric/lifetime_ne/rating: {entropy:?}\nmetric/lifetime_accuracy/rating: \
                 {accuracy:?}\nmetric/lifetime_gauc/rating: {auc:?}\n"
            ),
            notes: if self.groups.1 == 0 { vec![note.to_owned()] } else { Vec::new() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::assert_checker_reads;
    use super::*;

    fn rate(pairs: &[(f64, f64)]) -> Vec<Candidate> {
        let candidate = |&(prediction, label)| Candidate { prediction, label, weight: 1.0 };
        pairs.iter().map(candidate).collect()
    }

    #[test]
    fn predicting_the_mean_label_has_an_entropy_of_one() {
        let mut ratings = Ratings::new(Element::F32);
        ratings.add(&rate(&[(0.25, 1.0), (0.25, 0.0), (0.25, 0.0), (0.25, 0.0)]));
        assert!((ratings.normalized_entropy() - 1.0).abs() < 1e-15);
        assert_checker_reads("v6.1", "dlrm-v3", &ratings.scores());
        assert_eq!(ratings.scores().figure("DLRM_ACC"), Some(0.75));
        assert_eq!(ratings.scores().figure("DLRM_AUC"), Some(0.5));
    }

    #[test]
    fn equal_labels_have_no_normalized_entropy() {
        assert!(Ratings::new(Element::F32).normalized_entropy().is_nan());
        for label in [0.0, 1.0] {
            let mut ratings = Ratings::new(Element::F32);
            ratings.add(&rate(&[(0.25, label), (0.75, label)]));
            // The other label has no weight.
            ratings.add(&[Candidate { prediction: 0.5, label: 1.0 - label, weight: 0.0 }]);
            assert!(ratings.normalized_entropy().is_nan(), "{label}");
            assert_eq!(ratings.scores().notes.len(), 1, "no answer has an AUC");
        }
    }

    #[test]
    fn answers_without_two_labels_or_two_predictions_have_no_auc() {
        assert_eq!(group_auc(&rate(&[(0.9, 1.0), (0.2, 0.0), (0.4, 0.0)])), Some(1.0));
        assert_eq!(group_auc(&rate(&[(0.1, 1.0), (0.2, 0.0), (0.4, 1.0)])), Some(0.5));
        assert_eq!(group_auc(&rate(&[(0.9, 1.0), (0.2, 1.0)])), None);
        assert_eq!(group_auc(&rate(&[(0.5, 1.0), (0.0, 0.0)])), None);
        assert_eq!(group_auc(&[]), None);
    }

    #[test]
    fn an_answer_says_how_many_candidates_it_has() {
        assert_eq!(candidates(&[9.0, 8.0, 0.5, 1.0, 2.0, 1.0]).map(|found| found.len()), Ok(1));
        for wrong in [&[9.0, 8.0, 0.5, 1.0, 2.0, 2.0][..], &[], &[f64::NAN; 3], &[9.0, 8.0, 0.0]] {
            assert!(candidates(wrong).is_err(), "{wrong:?}");
        }
        let error = candidates(&[9.0, 8.0, 1.5, 1.0, 2.0, 1.0]).unwrap_err();
        assert_eq!(error.to_string(), "expected a prediction in [0, 1], found 1.5");
    }
}
