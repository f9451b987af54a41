//! Top-1 accuracy of a classifier: the share of samples whose answer is the label.
//!
//! ```
//! use dyno_sut::top1::{Score, argmax, encode, score};
//!
//! let labels = [3, 1];
//! let answers = [encode(3), encode(argmax(&[0.7, 0.2]))];
//! let log = answers.iter().enumerate().map(|(index, answer)| (index as u32, &answer[..]));
//! assert_eq!(score(log, &labels), Score { correct: 1, total: 2, malformed: 0 });
//! ```

use std::fmt;

use dyno_loadgen::qsl::SampleIndex;

/// Encodes a class as an answer: eight bytes, a little-endian `i64`. The accuracy scripts of the
/// MLPerf image classification tasks read it with `dtype=int64`.
#[must_use]
pub fn encode(class: usize) -> [u8; 8] {
    (class as i64).to_le_bytes()
}

/// Decodes the class of an answer; `None` if it does not have eight bytes.
#[must_use]
pub fn decode(data: &[u8]) -> Option<i64> {
    data.try_into().ok().map(i64::from_le_bytes)
}

/// Returns the position of the greatest element, the first of equal ones. NaN is never the
/// greatest. The result for an empty slice is 0.
#[must_use]
pub fn argmax(scores: &[f32]) -> usize {
    let mut best = (0, f32::NEG_INFINITY);
    for (class, &score) in scores.iter().enumerate() {
        if score > best.1 {
            best = (class, score);
        }
    }
    best.0
}

/// Number of correct answers among the answered samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Score {
    /// Distinct samples whose first answer is their label.
    pub correct: usize,
    /// Distinct samples in the log.
    pub total: usize,
    /// Distinct samples whose answer is not a class (not eight bytes), or that the data set does
    /// not have. They count as wrong.
    pub malformed: usize,
}

impl Score {
    /// Returns the share of correct answers in [0, 1]; 0 for an empty log.
    #[must_use]
    pub fn accuracy(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.correct as f64 / self.total as f64 }
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.accuracy();
        write!(f, "{percent:.2} % ({} of {})", self.correct, self.total)
    }
}

/// Scores the entries of an accuracy log against the labels of the data set.
///
/// Only the first entry of a sample counts.
pub fn score<'a>(
    entries: impl IntoIterator<Item = (SampleIndex, &'a [u8])>,
    labels: &[i64],
) -> Score {
    let mut seen = std::collections::HashSet::new();
    let mut score = Score::default();
    for (index, data) in entries {
        if !seen.insert(index) {
            continue;
        }
        score.total += 1;
        match (decode(data), labels.get(index as usize)) {
            (Some(class), Some(&label)) => score.correct += usize::from(class == label),
            _ => score.malformed += 1,
        }
    }
    score
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_samples_count_once_and_malformed_answers_are_wrong() {
        let labels = [3, 1, 4];
        let (right, wrong, short) = (encode(3), encode(9), [3_u8; 4]);
        let entries: [(SampleIndex, &[u8]); 5] =
            [(0, &right), (0, &wrong), (1, &wrong), (2, &short), (7, &right)];
        let score = score(entries, &labels);
        assert_eq!(score, Score { correct: 1, total: 4, malformed: 2 });
        assert_eq!(score.to_string(), "25.00 % (1 of 4)");
    }

    #[test]
    fn argmax_takes_the_first_of_equals_and_passes_over_nan() {
        assert_eq!(argmax(&[f32::NAN, 1.0, 2.0, 2.0]), 2);
        assert_eq!(argmax(&[f32::NAN]), 0);
    }
}
