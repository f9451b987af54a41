//! Whether predictions are better than chance: labels that do not belong to the samples are found
//! before a search wastes evaluations on them. Held-out samples with other labels are found by the
//! accuracy of FLOAT(32).

use std::collections::BTreeMap;

use dyno_loadgen::compare::single_run::{DEVIATIONS, wilson};

/// Predictions of labels beside those that chance would make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chance {
    /// Share of right predictions.
    pub accuracy: f64,
    /// Share that is right if predictions and labels are independent, as in Cohen's kappa.
    pub expected: f64,
    /// Number of samples.
    pub samples: usize,
}

/// Standard deviations above chance that an accuracy must have: 95 % confidence.
const LEAST_DEVIATIONS: f64 = 1.645;

impl Chance {
    /// Compares predictions with labels. `None` if there are none.
    ///
    /// ```
    /// use dyno_number::tune::Chance;
    /// let found = Chance::new(&[0, 1, 0, 1], &[0, 1, 1, 0]).unwrap();
    /// assert_eq!((found.accuracy, found.expected), (0.5, 0.5));
    /// assert!(!found.is_exceeded());
    /// ```
    pub fn new(predictions: &[usize], labels: &[usize]) -> Option<Self> {
        let samples = predictions.len().min(labels.len());
        if samples == 0 {
            return None;
        }
        let count = samples as f64;
        let mut classes: BTreeMap<usize, [f64; 2]> = BTreeMap::new();
        for (prediction, label) in predictions.iter().zip(labels) {
            classes.entry(*prediction).or_default()[0] += 1.0;
            classes.entry(*label).or_default()[1] += 1.0;
        }
        let right = predictions.iter().zip(labels).filter(|(a, b)| a == b).count();
        let expected = classes.values().map(|[a, b]| a * b).sum::<f64>() / (count * count);
        Some(Self { accuracy: right as f64 / count, expected, samples })
    }

    /// Returns whether the accuracy is above chance, with 95 % confidence. A perfect accuracy is, of
    /// however few samples, unless all labels are the same.
    pub fn is_exceeded(self) -> bool {
        let Self { accuracy, expected, samples } = self;
        let deviation = (expected * (1.0 - expected) / samples as f64).sqrt();
        let is_above = accuracy > expected + LEAST_DEVIATIONS * deviation;
        expected < 1.0 && (accuracy >= 1.0 || is_above)
    }
}

/// Accuracy of FLOAT(32) on a set of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetAccuracy {
    /// Share of right answers.
    pub share: f64,
    /// Number of samples.
    pub samples: u64,
}

/// Part of the accuracy on the samples of the search that held-out samples must have. Samples by
/// which a network was trained may well have a higher accuracy than others, but rarely so.
const LEAST_KEPT: f64 = 2.0 / 3.0;

impl SetAccuracy {
    /// Returns whether this accuracy is certainly below another one: the intervals of Wilson with
    /// 95 % confidence do not overlap. False if either is no share.
    ///
    /// ```
    /// use dyno_number::tune::SetAccuracy;
    /// let searched = SetAccuracy { share: 0.93, samples: 1_000 };
    /// assert!(SetAccuracy { share: 0.87, samples: 1_000 }.is_below(searched));
    /// assert!(!SetAccuracy { share: 0.91, samples: 1_000 }.is_below(searched));
    /// ```
    pub fn is_below(self, searched: Self) -> bool {
        self.is_below_part(searched, 1.0)
    }

    /// Returns whether this accuracy is certainly below two thirds of another one.
    pub fn is_far_below(self, searched: Self) -> bool {
        self.is_below_part(searched, LEAST_KEPT)
    }

    fn is_below_part(self, searched: Self, part: f64) -> bool {
        let (Some([_, high]), Some([low, _])) = (self.interval(), searched.interval()) else {
            return false;
        };
        high < part * low
    }

    fn interval(self) -> Option<[f64; 2]> {
        let is_share = (0.0..=1.0).contains(&self.share) && self.samples > 0;
        let (low, high) = wilson(self.share, self.samples.max(1) as f64, DEVIATIONS);
        is_share.then_some([low, high])
    }
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::rng::split_mix;

    use super::*;

    #[test]
    fn shuffled_labels_are_at_chance_and_true_ones_are_not() {
        let mut state = 5;
        let mut rejected = 0;
        for _ in 0..200 {
            let mut draw = |classes: u64| (split_mix(&mut state) % classes) as usize;
            let labels: Vec<usize> = (0..400).map(|_| draw(10)).collect();
            let shuffled: Vec<usize> = (0..400).map(|_| draw(10)).collect();
            rejected += u32::from(!Chance::new(&shuffled, &labels).unwrap().is_exceeded());
            // A quarter is right beyond chance.
            let weak: Vec<usize> =
                labels.iter().map(|label| if draw(4) == 0 { *label } else { draw(10) }).collect();
            assert!(Chance::new(&weak, &labels).unwrap().is_exceeded());
        }
        assert!(rejected > 180, "{rejected}");
    }

    /// A network that always gives the most frequent class has learned nothing, whatever its
    /// accuracy.
    #[test]
    fn the_most_frequent_class_alone_is_chance() {
        let labels: Vec<usize> = (0..100).map(|at| usize::from(at % 20 == 0)).collect();
        assert!(!Chance::new(&[0; 100], &labels).unwrap().is_exceeded());
        let some: Vec<usize> = (0..100).map(|at| usize::from(at % 40 == 0)).collect();
        assert!(Chance::new(&some, &labels).unwrap().is_exceeded());
        assert!(Chance::new(&[3, 1], &[3, 1]).unwrap().is_exceeded());
        assert!(!Chance::new(&[3, 3], &[3, 3]).unwrap().is_exceeded(), "one class");
        assert!(Chance::new(&[], &[]).is_none());
    }

    #[test]
    fn held_out_accuracies_are_compared_with_their_intervals() {
        let of = |share, samples| SetAccuracy { share, samples };
        assert!(of(0.259, 1_000).is_far_below(of(0.93, 1_000)));
        assert!(!of(0.7, 1_000).is_far_below(of(0.93, 1_000)), "an overfitted network");
        assert!(of(0.7, 1_000).is_below(of(0.93, 1_000)));
        assert!(!of(0.25, 4).is_far_below(of(1.0, 1_000)), "four samples prove little");
        assert!(!of(25.9, 1_000).is_below(of(93.0, 1_000)), "no shares");
        assert!(!of(0.0, 0).is_below(of(1.0, 1_000)));
    }
}
