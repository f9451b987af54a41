//! A histogram of time spans, fine enough for percentiles and of fixed size.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use dyno_loadgen::clock::Nanos;
use serde::{Deserialize, Serialize};

/// Each power of two is divided into this many buckets of equal width, so a bucket is narrower than
/// 1/64 of its values.
const PARTS: usize = 64;
const PART_BITS: u32 = PARTS.trailing_zeros();
/// Spans of 2^40 ns (18 minutes) and more are counted in the last bucket.
const LARGEST_BITS: u32 = 40;
const BUCKETS: usize = PARTS * (LARGEST_BITS - PART_BITS + 1) as usize;

/// Counts that one thread at a time adds to and any thread reads.
#[derive(Debug)]
pub(super) struct GapCounts(Box<[AtomicU64]>);

impl GapCounts {
    pub(super) fn new() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    pub(super) fn add(&self, span: Nanos, times: u64) {
        self.0[bucket(span)].fetch_add(times, Ordering::Relaxed);
    }
}

/// A histogram of the spans between the events with output of answers.
///
/// Its percentiles are at most 1/64 above the exact ones, and never below them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(usize, u64)>", into = "Vec<(usize, u64)>")]
pub struct Gaps {
    counts: Vec<u64>,
    total: u64,
}

/// Prints a summary instead of thousands of counts.
impl fmt::Debug for Gaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (median, worst) = (self.quantile(0.5), self.quantile(1.0));
        write!(f, "Gaps {{ count: {}, median: {median:?}, worst: {worst:?} }}", self.total)
    }
}

impl Default for Gaps {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }
}

/// Returns the non-empty buckets.
impl From<Gaps> for Vec<(usize, u64)> {
    fn from(gaps: Gaps) -> Self {
        gaps.counts.into_iter().enumerate().filter(|(_, count)| *count > 0).collect()
    }
}

/// Counts values of unknown buckets in the last one.
impl From<Vec<(usize, u64)>> for Gaps {
    fn from(buckets: Vec<(usize, u64)>) -> Self {
        let mut gaps = Self::default();
        for (bucket, count) in buckets {
            gaps.counts[bucket.min(BUCKETS - 1)] += count;
            gaps.total += count;
        }
        gaps
    }
}

/// Counts each span.
impl FromIterator<Nanos> for Gaps {
    fn from_iter<I: IntoIterator<Item = Nanos>>(spans: I) -> Self {
        spans.into_iter().map(|span| (bucket(span), 1)).collect::<Vec<_>>().into()
    }
}

impl Gaps {
    pub(super) fn add_all(&mut self, counts: &GapCounts) {
        for (sum, count) in self.counts.iter_mut().zip(&counts.0) {
            let count = count.load(Ordering::Relaxed);
            *sum += count;
            self.total += count;
        }
    }

    /// Returns the sum of both histograms.
    #[must_use]
    pub fn and(&self, others: &Self) -> Self {
        let counts = self.counts.iter().zip(&others.counts).map(|(a, b)| a + b).collect();
        Self { counts, total: self.total + others.total }
    }

    /// Returns the spans since an earlier snapshot of the same client.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.counts.iter().zip(&earlier.counts);
        let counts: Vec<u64> = pairs.map(|(now, then)| now.saturating_sub(*then)).collect();
        Self { total: counts.iter().sum(), counts }
    }

    /// Returns the number of spans.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Returns the upper end in ns of each bucket with its number of spans.
    pub fn spans(&self) -> impl Iterator<Item = (Nanos, u64)> {
        self.counts.iter().enumerate().map(|(at, count)| (upper_end(at), *count))
    }

    /// Returns the span in ns that a share of `quantile` (0 to 1) of the spans does not exceed;
    /// `None` if there are no spans.
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        if self.total == 0 {
            return None;
        }
        let rank = ((self.total as f64 * quantile).ceil() as u64).clamp(1, self.total);
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        at.map(upper_end)
    }
}

/// Returns the bucket of a span. Below 64 each span has its own bucket, so small ones are exact.
#[inline]
fn bucket(span: Nanos) -> usize {
    if span < PARTS as u64 {
        return span as usize;
    }
    let power = span.ilog2();
    if power >= LARGEST_BITS {
        return BUCKETS - 1;
    }
    let part = (span >> (power - PART_BITS)) as usize - PARTS;
    (power - PART_BITS + 1) as usize * PARTS + part
}

/// Returns the largest span of a bucket.
fn upper_end(bucket: usize) -> Nanos {
    if bucket < PARTS {
        return bucket as u64;
    }
    let power = bucket / PARTS - 1;
    let part = (bucket % PARTS + PARTS) as u64;
    ((part + 1) << power) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_hold_what_they_say() {
        for at in 1..BUCKETS - 1 {
            let (first, last) = (upper_end(at - 1) + 1, upper_end(at));
            assert_eq!((bucket(first), bucket(last)), (at, at));
            assert!((last - first) as f64 <= first as f64 / 64.0, "{first} to {last}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_spans_within_a_bucket() {
        let counts = GapCounts::new();
        let spans: Vec<u64> = (1..=1_000_u64).map(|n| n * n * 31).collect();
        spans.iter().for_each(|&span| counts.add(span, 1));
        let mut gaps = Gaps::default();
        gaps.add_all(&counts);
        for quantile in [0.001, 0.5, 0.9, 0.99, 1.0] {
            let exact = spans[(quantile * 1_000.0_f64).ceil() as usize - 1];
            let found = gaps.quantile(quantile).unwrap();
            assert!(found >= exact && found <= exact + exact / 64 + 1, "{quantile}: {found}");
        }
        assert_eq!(Gaps::default().quantile(0.5), None);
        let sent = serde_json::to_string(&gaps).unwrap();
        assert_eq!(serde_json::from_str::<Gaps>(&sent).unwrap(), gaps);
    }
}
