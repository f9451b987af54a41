//! Classes of sequence lengths that may share a batch.

/// Classes of lengths. Within a class, the longest length is at most `ratio` times the shortest.
///
/// ```
/// use dyno_sut::batch::LengthClasses;
///
/// let classes = LengthClasses::new(1.5).expect("a ratio that is large enough");
/// assert_eq!(classes.class(100), classes.class(101));
/// assert_ne!(classes.class(50), classes.class(100));
/// assert_eq!(LengthClasses::new(1.0), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LengthClasses {
    /// Finite, and at least [`LEAST`].
    ratio: f64,
}

/// All lengths above this one are in one class.
const LONGEST: usize = 1 << 30;
/// Minimum ratio. It gives about four hundred classes, each of which has a queue.
const LEAST: f64 = 1.05;

impl LengthClasses {
    /// Returns classes whose lengths differ by at most this ratio; `None` if the ratio is below
    /// 1.05 or not finite.
    pub fn new(ratio: f64) -> Option<Self> {
        (ratio.is_finite() && ratio >= LEAST).then_some(Self { ratio })
    }

    /// Returns the class of a length, from 0. Classes never decrease with the length.
    pub fn class(self, length: usize) -> usize {
        let (mut class, mut first) = (0, 1);
        loop {
            // The next class begins after the longest length of this one.
            let end = (first as f64 * self.ratio) as usize + 1;
            if length < end || end > LONGEST {
                return class;
            }
            (class, first) = (class + 1, end);
        }
    }
}

impl Default for LengthClasses {
    /// Returns classes whose lengths differ by at most a quarter.
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
            let near = LengthClasses::new(ratio).unwrap();
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
        assert_eq!([1.0, f64::NAN, f64::INFINITY].map(LengthClasses::new), [None; 3]);
    }
}
