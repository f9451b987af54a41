//! Which lengths are near enough to share a batch.

/// Classes of lengths: within a class the longest is at most so many times the shortest.
///
/// ```
/// use dyno_sut::batch::Near;
/// let near = Near::new(1.5).expect("a ratio that is large enough");
/// assert_eq!(near.class(100), near.class(101));
/// assert_ne!(near.class(50), near.class(100));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Near {
    /// At least [`LEAST`], and finite.
    ratio: f64,
}

/// Lengths beyond this one are of one class.
const LONGEST: usize = 1 << 30;
/// The least ratio: some four hundred classes, each of which has a queue.
const LEAST: f64 = 1.05;

impl Near {
    /// Lengths of a class differ by this ratio at most. `None` if it is less than 1.05 or no
    /// number.
    #[must_use]
    pub fn new(ratio: f64) -> Option<Self> {
        (ratio.is_finite() && ratio >= LEAST).then_some(Self { ratio })
    }

    /// The class of a length, from 0 on; longer ones have no lower class.
    #[must_use]
    pub fn class(self, length: usize) -> usize {
        let (mut class, mut first) = (0, 1);
        loop {
            // The next class begins behind the longest of this one.
            let behind = (first as f64 * self.ratio) as usize + 1;
            if length < behind || behind > LONGEST {
                return class;
            }
            (class, first) = (class + 1, behind);
        }
    }
}

impl Default for Near {
    /// A quarter.
    fn default() -> Self {
        Self { ratio: 1.25 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_ascend_and_span_no_more_than_the_ratio() {
        for ratio in [1.05, 1.1, 1.25, 2.0] {
            let near = Near::new(ratio).unwrap();
            let mut shortest = 1_usize;
            for length in 2..5_000_usize {
                let (before, class) = (near.class(length - 1), near.class(length));
                assert!(class == before || class == before + 1, "{length} at {ratio}");
                if class > before {
                    shortest = length;
                }
                assert!(length as f64 <= shortest as f64 * ratio, "{shortest} and {length}");
            }
        }
        assert_eq!([1.0, f64::NAN, f64::INFINITY].map(Near::new), [None; 3]);
    }
}
