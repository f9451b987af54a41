//! Top-1 accuracy: the share of samples whose class is the label.
//!
//! Source: `accuracy-imagenet.py` of the benchmarks ResNet-50 and MobileNet, which prints three
//! decimals.

use std::path::Path;

use super::data::read_text;
use super::payload::{self, Element};
use super::{AnswerError, DataError, Figure, Method, Need, Scorer, Scores, reference_of};

const LABELS: Need = Need {
    name: "labels",
    help: "val_map.txt: one line per sample, with the name of the image and its class",
    is_required: true,
};

/// Method of `resnet50` and `mobilenet`.
pub(crate) const TOP1: Method = Method {
    name: "top1",
    title: "share of samples whose class is the label, in percent",
    answer: "the class: one element",
    element: Some(Element::F32),
    needs: &[LABELS],
    choices: &[],
    open: |inputs| {
        let labels = read_labels(inputs.file(&LABELS)?)?;
        Ok(Box::new(Top1::new(labels, inputs.element.unwrap_or(Element::F32), percent_scores)))
    },
};

/// Reads the labels of a data set, in the order of its samples.
///
/// The file is `val_map.txt` of ImageNet: each line has the name of an image, spaces, and its
/// class.
///
/// # Errors
/// [`DataError`] if the file cannot be read or a line has no class.
///
/// ```
/// use dyno_metrics::classification::read_labels;
///
/// let file = tempfile::NamedTempFile::new().unwrap();
/// std::fs::write(&file, "a.jpeg 65\nb.jpeg 970\n").unwrap();
/// assert_eq!(read_labels(file.path()).unwrap(), [65, 970]);
/// ```
pub fn read_labels(path: &Path) -> Result<Vec<i64>, DataError> {
    let text = read_text(path)?;
    let label = |(at, line): (usize, &str)| {
        // ASCII lines are split in a third of the time.
        let word = if line.is_ascii() {
            line.split_ascii_whitespace().nth(1)
        } else {
            line.split_whitespace().nth(1)
        };
        let label = word.and_then(|word| word.parse().ok());
        label.ok_or_else(|| {
            DataError::malformed(path, at + 1, "the name of an image and its class", line)
        })
    };
    let is_not_empty = |(_, line): &(usize, &str)| !line.trim().is_empty();
    text.lines().enumerate().filter(is_not_empty).map(label).collect()
}

/// Scores classes against labels.
#[derive(Debug)]
pub struct Top1 {
    labels: Vec<i64>,
    element: Element,
    good: u64,
    total: u64,
    format: fn(good: u64, total: u64) -> Scores,
}

impl Top1 {
    /// Creates the scorer of answers with a single element. `format` creates the scores from the
    /// number of right answers and the number of all answers, which may be 0.
    ///
    /// ```
    /// use dyno_metrics::classification::Top1;
    /// use dyno_metrics::payload::Element;
    /// use dyno_metrics::{Figure, Scorer, Scores};
    ///
    /// let format = |good, total| Scores {
    ///     figures: vec![Figure { metric: "acc", value: good as f64 / total as f64 }],
    ///     ..Scores::default()
    /// };
    /// let mut scorer = Top1::new(vec![3, 5], Element::I32, format);
    /// scorer.take(0, &3_i32.to_le_bytes()).unwrap();
    /// scorer.take(1, &4_i32.to_le_bytes()).unwrap();
    /// assert_eq!(scorer.scores().figure("acc"), Some(0.5));
    /// ```
    pub fn new(
        labels: Vec<i64>,
        element: Element,
        format: fn(good: u64, total: u64) -> Scores,
    ) -> Self {
        Self { labels, element, good: 0, total: 0, format }
    }
}

/// Formats scores as `accuracy-imagenet.py` does.
fn percent_scores(good: u64, total: u64) -> Scores {
    let value = 100.0 * good as f64 / total.max(1) as f64;
    Scores {
        figures: vec![Figure { metric: "acc", value }],
        text: format!("accuracy={value:.3}%, good={good}, total={total}\n"),
        ..Scores::default()
    }
}

impl Scorer for Top1 {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        self.total += 1;
        let label = reference_of(&self.labels, index)?;
        self.good += u64::from(payload::whole(self.element, answer)? == *label);
        Ok(())
    }

    fn references(&self) -> Option<u64> {
        Some(self.labels.len() as u64)
    }

    fn scores(&mut self) -> Scores {
        (self.format)(self.good, self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::super::assert_checker_reads;
    use super::*;

    #[test]
    fn what_is_no_class_and_what_has_no_label_is_wrong() {
        let mut top1 = Top1::new(vec![3, 1, 4], Element::F32, percent_scores);
        assert_eq!(top1.take(0, &3.0_f32.to_le_bytes()), Ok(()));
        assert_eq!(top1.take(1, &2.0_f32.to_le_bytes()), Ok(()));
        assert!(matches!(top1.take(2, &[0; 8]), Err(AnswerError::Length { .. })));
        assert_eq!(top1.take(3, &[0; 4]), Err(AnswerError::Sample { references: 3 }));
        let mut nan = Top1::new(vec![0], Element::F32, percent_scores);
        assert!(matches!(nan.take(0, &f32::NAN.to_le_bytes()), Err(AnswerError::Content { .. })));
        assert_eq!(nan.scores().text, "accuracy=0.000%, good=0, total=1\n");
        let scores = top1.scores();
        assert_eq!(scores.text, "accuracy=25.000%, good=1, total=4\n");
        assert_checker_reads("v0.5", "mobilenet", &scores);
        assert_checker_reads("v6.0", "resnet", &scores);
    }
}
