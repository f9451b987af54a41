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

use std::collections::HashMap;
use std::fmt;

use dyno_loadgen::qsl::SampleIndex;

/// Encodes a class as an answer: eight bytes, a little-endian `i64`. The accuracy scripts of the
/// MLPerf image classification tasks read it with `dtype=int64`.
pub fn encode(class: usize) -> [u8; 8] {
    (class as i64).to_le_bytes()
}

/// Decodes the class of an answer; `None` if it does not have eight bytes.
pub fn decode(data: &[u8]) -> Option<i64> {
    data.try_into().ok().map(i64::from_le_bytes)
}

/// Returns the position of the greatest element, the first of equal ones. NaN is never the
/// greatest. The result for an empty slice is 0.
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

/// Number of correct answers if the same answers belonged to the samples in a random order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chance {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
}

impl Chance {
    /// Returns the number for the classes of the answers and the labels of the samples. Samples without a class
    /// are wrong in any order.
    pub fn new(classes: &[i64], labels: &[i64]) -> Self {
        let mut counts = HashMap::<i64, [f64; 2]>::new();
        classes.iter().for_each(|class| counts.entry(*class).or_default()[0] += 1.0);
        labels.iter().for_each(|label| counts.entry(*label).or_default()[1] += 1.0);
        let all = labels.len().max(1) as f64;
        let (mut pairs, mut weighted) = (0.0, 0.0);
        for [answers, samples] in counts.into_values() {
            pairs += answers * samples;
            weighted += answers * samples * (answers + samples);
        }
        let sum = all * (all * pairs - weighted) + pairs * pairs;
        let variance = sum / (all * all * (all - 1.0).max(1.0));
        Self { mean: pairs / all, deviation: variance.max(0.0).sqrt() }
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
    fn chance_is_that_of_all_orders() {
        let labels = [3, 3, 1, 4];
        let orders = (0..4).flat_map(|a| (0..4).flat_map(move |b| (0..4).map(move |c| [a, b, c])));
        let is_order = |[a, b, c]: &[usize; 3]| a != b && a != c && b != c;
        // One answer of four is no class.
        let classes = [3, 1, 3];
        let correct = |order: [usize; 3]| {
            let pairs = order.into_iter().zip(classes);
            pairs.filter(|(at, class)| labels[*at] == *class).count() as f64
        };
        let all: Vec<f64> = orders.filter(is_order).map(correct).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / all.len() as f64;
        let chance = Chance::new(&classes, &labels);
        assert!((chance.mean - mean).abs() < 1e-12, "{chance:?} against {mean}");
        assert!(
            (chance.deviation - variance.sqrt()).abs() < 1e-12,
            "{chance:?} against {variance}"
        );
        // One class for every sample is right as often in any order.
        assert_eq!(Chance::new(&[3; 4], &labels), Chance { mean: 2.0, deviation: 0.0 });
        assert_eq!(Chance::new(&[], &[]), Chance { mean: 0.0, deviation: 0.0 });
    }

    #[test]
    fn argmax_takes_the_first_of_equals_and_passes_over_nan() {
        assert_eq!(argmax(&[f32::NAN, 1.0, 2.0, 2.0]), 2);
        assert_eq!(argmax(&[f32::NAN]), 0);
    }
}
