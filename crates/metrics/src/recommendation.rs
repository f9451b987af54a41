//! Area under the ROC curve (AUC): how often clicked items rank above others.
//!
//! Source: `accuracy-dlrm.py` of the benchmarks DLRM and DLRMv2 (scikit-learn's `roc_auc_score`),
//! and the rules' FAQ on aggregated samples.

pub mod entropy;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use dyno_tensors::files;

use super::data::read_text;
use super::payload::{self, Element};
use super::{AnswerError, DataError, Figure, Method, Need, Scorer, Scores};

const DAY: Need = Need {
    name: "day_23",
    help: "the last day of Criteo: one line per pair of user and item, with its label before the \
           first tab; without this file, each answer contains predictions and labels in turn",
    is_required: false,
};
const TRACE: Need = Need {
    name: "trace",
    help: "dlrm_trace_of_aggregated_samples.txt: one line per sample, whose third number is the \
           number of pairs",
    is_required: false,
};

/// Method of `dlrm` and `dlrm-v2`.
pub(crate) const ROC_AUC: Method = Method {
    name: "roc-auc",
    title: "area under the ROC curve of clicks, in percent",
    answer: "predictions in [0, 1], or each with its label, one element each",
    element: Some(Element::F32),
    needs: &[DAY, TRACE],
    choices: &[],
    open: |inputs| {
        let is_given = |need: &Need| inputs.files.contains_key(need.name);
        let labels = if is_given(&DAY) || is_given(&TRACE) {
            let (day, trace) = (inputs.file(&DAY)?, inputs.file(&TRACE)?);
            Some(Labels::read(day, &read_trace(trace)?)?)
        } else {
            None
        };
        Ok(Box::new(Clicks::new(labels, inputs.element.unwrap_or(Element::F32))))
    },
};

/// Maximum length of a line of the day, in bytes.
const LONGEST_LINE: u64 = 1 << 16;

/// Predictions of items with and without a click.
///
/// ```
/// use dyno_metrics::recommendation::Ranking;
///
/// let mut ranking = Ranking::default();
/// ranking.add(0.9, true);
/// ranking.add(0.4, true);
/// ranking.add(0.4, false);
/// assert_eq!(ranking.auc(), 0.75);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ranking {
    clicked: Vec<f32>,
    passed_over: Vec<f32>,
}

impl Ranking {
    /// Adds a prediction. Must not be NaN.
    pub fn add(&mut self, prediction: f32, is_clicked: bool) {
        // Adding 0 removes the sign of -0, so that the order of bits is that of values.
        let prediction = prediction + 0.0;
        if is_clicked { &mut self.clicked } else { &mut self.passed_over }.push(prediction);
    }

    /// Returns the probability that a clicked item has a higher prediction than another item. Ties
    /// count half. Returns NaN if there are no clicked or no other items.
    ///
    /// The result is exact up to the last division. O(n log n).
    #[must_use]
    pub fn auc(&mut self) -> f64 {
        self.clicked.sort_unstable_by(f32::total_cmp);
        self.passed_over.sort_unstable_by(f32::total_cmp);
        let others = &self.passed_over;
        let (mut below, mut not_above) = (0, 0);
        let mut halves: u128 = 0;
        for &clicked in &self.clicked {
            below += others[below..].iter().take_while(|other| **other < clicked).count();
            not_above = not_above.max(below);
            not_above += others[not_above..].iter().take_while(|other| **other <= clicked).count();
            halves += (below + not_above) as u128;
        }
        let pairs = 2 * self.clicked.len() as u128 * others.len() as u128;
        halves as f64 / pairs as f64
    }
}

/// Labels of aggregated samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels {
    /// Index of the first pair of each sample, followed by the number of pairs.
    starts: Vec<usize>,
    /// Label of each pair.
    is_clicked: Vec<bool>,
}

/// Reads the number of pairs in each sample.
fn read_trace(path: &Path) -> Result<Vec<usize>, DataError> {
    let text = read_text(path)?;
    let size = |(at, line): (usize, &str)| {
        let size = line.split(',').nth(2).and_then(|field| field.trim().parse().ok());
        size.ok_or_else(|| {
            DataError::malformed(
                path,
                at + 1,
                "three numbers, the last the pairs of a sample",
                line,
            )
        })
    };
    text.lines().enumerate().map(size).collect()
}

impl Labels {
    /// Reads the lines of the day that the samples need. The remaining file may have many
    /// gigabytes.
    ///
    /// # Errors
    /// [`DataError`] if the file cannot be read, is too short, or a line does not begin with a
    /// label.
    ///
    /// ```
    /// use dyno_metrics::Scorer;
    /// use dyno_metrics::payload::Element;
    /// use dyno_metrics::recommendation::{Clicks, Labels};
    ///
    /// let day = tempfile::NamedTempFile::new().unwrap();
    /// std::fs::write(&day, "1\t5\n0\t6\n0\t7\n").unwrap();
    ///
    /// // Two samples, of two pairs and of one pair.
    /// let labels = Labels::read(day.path(), &[2, 1]).unwrap();
    /// let mut scorer = Clicks::new(Some(labels), Element::F32);
    /// scorer.take(0, &[0.9_f32, 0.1].map(f32::to_le_bytes).concat()).unwrap();
    /// scorer.take(1, &0.2_f32.to_le_bytes()).unwrap();
    /// assert_eq!(scorer.scores().figure("AUC"), Some(100.0));
    /// ```
    pub fn read(path: &Path, sizes: &[usize]) -> Result<Self, DataError> {
        let mut starts = vec![0_usize];
        for size in sizes {
            let start = starts[starts.len() - 1].checked_add(*size);
            starts.push(start.ok_or_else(|| {
                DataError::malformed(path, None, "a trace that a machine can hold", "an overflow")
            })?);
        }
        let pairs = starts[starts.len() - 1];
        let unreadable = |error| DataError::unreadable(path, &error);
        let mut day = BufReader::with_capacity(1 << 20, files::open(path).map_err(unreadable)?);
        let (mut is_clicked, mut line) = (Vec::new(), Vec::new());
        while is_clicked.len() < pairs {
            line.clear();
            let mut bounded = day.by_ref().take(LONGEST_LINE);
            if bounded.read_until(b'\n', &mut line).map_err(unreadable)? == 0 {
                let (expected, found) = (format!("{pairs} lines"), is_clicked.len().to_string());
                return Err(DataError::malformed(path, None, expected, found));
            }
            is_clicked.push(match line.as_slice() {
                [b'0', b'\t' | b'\n' | b'\r', ..] | [b'0'] => false,
                [b'1', b'\t' | b'\n' | b'\r', ..] | [b'1'] => true,
                other => {
                    let found = String::from_utf8_lossy(other).trim_end().to_owned();
                    let at = is_clicked.len() + 1;
                    return Err(DataError::malformed(path, at, "0 or 1 and a tab", found));
                }
            });
        }
        Ok(Self { starts, is_clicked })
    }

    fn sample(&self, index: u64) -> Option<&[bool]> {
        let at = usize::try_from(index).ok()?;
        let end = *self.starts.get(at.checked_add(1)?)?;
        self.is_clicked.get(self.starts[at]..end)
    }
}

/// Scores predictions of clicks.
#[derive(Debug)]
pub struct Clicks {
    labels: Option<Labels>,
    element: Element,
    ranking: Ranking,
    good: u64,
    samples: u64,
}

impl Clicks {
    /// Creates the scorer. Without labels, answers contain them.
    pub fn new(labels: Option<Labels>, element: Element) -> Self {
        Self { labels, element, ranking: Ranking::default(), good: 0, samples: 0 }
    }

    fn add(&mut self, prediction: f32, label: f32) {
        self.good += u64::from(prediction.round_ties_even() == label);
        self.ranking.add(prediction, label == 1.0);
    }
}

/// Converts a prediction, unless it is NaN or infinite.
fn parse_prediction(prediction: f64) -> Result<f32, AnswerError> {
    let converted = prediction as f32;
    converted.is_finite().then_some(converted).ok_or_else(|| AnswerError::Content {
        expected: "a prediction".to_owned(),
        found: prediction.to_string(),
    })
}

fn parse_label(value: f64) -> Result<f32, AnswerError> {
    let is_label = value == 0.0 || value == 1.0;
    is_label.then_some(value as f32).ok_or_else(|| AnswerError::Content {
        expected: "a label of 0 or 1".to_owned(),
        found: value.to_string(),
    })
}

impl Scorer for Clicks {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        self.samples += 1;
        let values = payload::reals(self.element, answer)?;
        // A malformed answer is rejected as a whole.
        let pairs: Vec<(f32, f32)> = match &self.labels {
            Some(labels) => {
                let references = labels.starts.len() as u64 - 1;
                let labels = labels.sample(index).ok_or(AnswerError::Sample { references })?;
                if labels.len() != values.len() {
                    let expected = (labels.len() * self.element.size()).to_string();
                    return Err(AnswerError::Length { expected, found: answer.len() });
                }
                let label = |is_clicked: &bool| f32::from(u8::from(*is_clicked));
                let pair = |(value, is_clicked)| Ok((parse_prediction(value)?, label(is_clicked)));
                values.zip(labels).map(pair).collect::<Result<_, _>>()?
            }
            // The log does not tell which pairs are missing.
            None if answer.is_empty() => {
                let expected = "predictions with their labels".to_owned();
                return Err(AnswerError::Content { expected, found: "none".to_owned() });
            }
            None if !values.len().is_multiple_of(2) => {
                let expected = format!("a multiple of {}", 2 * self.element.size());
                return Err(AnswerError::Length { expected, found: answer.len() });
            }
            None => {
                let labels = values.clone().skip(1).step_by(2);
                let pair = |(value, label)| Ok((parse_prediction(value)?, parse_label(label)?));
                values.step_by(2).zip(labels).map(pair).collect::<Result<_, _>>()?
            }
        };
        pairs.into_iter().for_each(|(prediction, label)| self.add(prediction, label));
        Ok(())
    }

    fn counts_malformed(&self) -> bool {
        false
    }

    fn references(&self) -> Option<u64> {
        self.labels.as_ref().map(|labels| labels.starts.len() as u64 - 1)
    }

    fn scores(&mut self) -> Scores {
        let total = self.ranking.clicked.len() + self.ranking.passed_over.len();
        let auc = 100.0 * self.ranking.auc();
        let accuracy = 100.0 * self.good as f64 / total.max(1) as f64;
        Scores {
            figures: vec![Figure { metric: "AUC", value: auc }],
            text: format!(
                "AUC={auc:.3}%, accuracy={accuracy:.3}%, good={}, total={total}, queries={}\n",
                self.good, self.samples
            ),
            ..Scores::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::assert_checker_reads;
    use super::*;

    fn auc(pairs: &[(f32, bool)]) -> f64 {
        let mut ranking = Ranking::default();
        pairs.iter().for_each(|&(prediction, is_clicked)| ranking.add(prediction, is_clicked));
        ranking.auc()
    }

    #[test]
    fn the_area_is_the_share_of_pairs_in_order() {
        assert_eq!(auc(&[(0.1, false), (0.4, false), (0.35, true), (0.8, true)]), 0.75);
        assert_eq!(auc(&[(0.5, false), (0.5, true)]), 0.5);
        assert_eq!(auc(&[(-0.0, false), (0.0, true)]), 0.5);
        assert_eq!(auc(&[(0.9, false), (0.2, true), (0.2, false), (0.9, true)]), 0.5);
        assert!(auc(&[(0.5, true)]).is_nan());
    }

    #[test]
    fn an_answer_counts_whole_or_not_at_all() {
        let mut clicks = Clicks::new(None, Element::F32);
        let answer =
            |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>();
        assert_eq!(clicks.take(0, &answer(&[0.9, 1.0, 0.5, 0.0])), Ok(()));
        let error = clicks.take(1, &answer(&[0.9, 1.0, 0.5, 2.0])).unwrap_err();
        assert_eq!(error.to_string(), "expected a label of 0 or 1, found 2");
        for (wrong, found) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
            let error = clicks.take(2, &answer(&[wrong, 1.0])).unwrap_err();
            assert_eq!(error.to_string(), format!("expected a prediction, found {found}"));
        }
        assert!(clicks.take(3, &answer(&[0.9])).is_err());
        let error = clicks.take(4, &[]).unwrap_err();
        assert_eq!(error.to_string(), "expected predictions with their labels, found none");
        let scores = clicks.scores();
        assert_checker_reads("v5.0", "dlrm-v2-99.9", &scores);
        let text = scores.text;
        assert_eq!(text, "AUC=100.000%, accuracy=100.000%, good=2, total=2, queries=6\n");
    }
}
