//! Histograms with exact counts in logarithmic buckets.

use serde::{Deserialize, Serialize};

/// Binary logarithm of the number of buckets per octave. Buckets of an octave have equal widths: 6.25 %
/// at its beginning and 3.2 % at its end.
const PER_OCTAVE_BITS: u32 = 4;

/// Counts of times in buckets that are 3.2 to 6.25 % wide, or 1 ns below 32 ns:
/// `[from, to, count]`, from the shortest; `to` is not in the bucket. Empty buckets
/// are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Histogram {
    /// In ascending order.
    pub buckets: Vec<(u64, u64, u64)>,
}

impl Histogram {
    /// Joins neighboring buckets until there are at most `most` between the first and the last.
    /// Returns the joined buckets and the number of buckets in each, a power of two up to an octave.
    pub fn joined(&self, most: usize) -> (Vec<(u64, u64, u64)>, usize) {
        let (Some(first), Some(last)) = (self.buckets.first(), self.buckets.last()) else {
            return (Vec::new(), 1);
        };
        // A damaged file may hold buckets in any order.
        let groups = |n: usize| (bucket(last.0) / n).abs_diff(bucket(first.0) / n);
        let n = (0..PER_OCTAVE_BITS).map(|bits| 1 << bits).find(|n| groups(*n) < most);
        let n: usize = n.unwrap_or(1 << PER_OCTAVE_BITS);
        let mut joined: Vec<(u64, u64, u64)> = Vec::new();
        for &(time, _, count) in &self.buckets {
            let group = bucket(time) / n;
            let (from, to) = (begin(group * n), begin((group + 1) * n));
            match joined.last_mut().filter(|last| last.0 == from) {
                Some(last) => last.2 = last.2.saturating_add(count),
                None => joined.push((from, to, count)),
            }
        }
        (joined, n)
    }
}

/// Counts of times in logarithmic buckets.
///
/// ```
/// use dyno_results::series::Counts;
///
/// let mut counts = Counts::default();
/// (0..100).for_each(|time| counts.add(time));
/// assert_eq!(counts.quantile(0.1), Some(10));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Counts(Vec<u64>);

impl Counts {
    /// Counts a time.
    pub fn add(&mut self, time: u64) {
        self.add_many(time, 1);
    }

    /// Counts `count` times of about `time`.
    pub fn add_many(&mut self, time: u64, count: u64) {
        let at = bucket(time);
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        self.0[at] += count;
    }

    /// Adds the counts of `other`.
    pub fn add_all(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// Returns the middle of the bucket that contains `sorted[floor(count * q)]`; `None` without
    /// counts.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let count: u64 = self.0.iter().sum();
        let rank = ((count as f64 * q) as u64).min(count.checked_sub(1)?);
        let mut before = 0;
        let at = self.0.iter().position(|n| {
            before += n;
            before > rank
        })?;
        Some(begin(at).midpoint(begin(at + 1)))
    }

    /// Returns the histogram of the counts.
    pub fn histogram(&self) -> Histogram {
        let filled = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        Histogram { buckets: filled.map(|(at, &n)| (begin(at), begin(at + 1), n)).collect() }
    }
}

/// Returns the bucket of a time. Below `2^PER_OCTAVE_BITS` each value is a bucket; above, each octave
/// has `2^PER_OCTAVE_BITS` buckets.
fn bucket(time: u64) -> usize {
    let octave = time.checked_ilog2().unwrap_or(0);
    let Some(shift) = octave.checked_sub(PER_OCTAVE_BITS) else { return time as usize };
    let within = (time >> shift) as usize;
    ((shift as usize) << PER_OCTAVE_BITS) + within
}

fn begin(bucket: usize) -> u64 {
    let octave = bucket >> PER_OCTAVE_BITS;
    if octave <= 1 {
        return bucket as u64;
    }
    let within = (bucket & ((1 << PER_OCTAVE_BITS) - 1)) | (1 << PER_OCTAVE_BITS);
    // The last bucket ends at the largest integer.
    u64::try_from((within as u128) << (octave - 1)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_falls_into_its_bucket() {
        for time in (0..5_000).chain([1 << 20, (1 << 20) - 1, 123_456_789, u64::MAX >> 1]) {
            let at = bucket(time);
            assert!((begin(at)..begin(at + 1)).contains(&time), "{time} in bucket {at}");
        }
        let mut counts = Counts::default();
        [3, 1_000, 1_001, 3].into_iter().for_each(|time| counts.add(time));
        assert_eq!(counts.histogram().buckets, [(3, 4, 2), (992, 1_024, 2)]);
    }

    #[test]
    fn joined_buckets_hold_what_lies_between_their_edges() {
        let times: Vec<u64> = (0..40_u32).map(|n| 5 + 3_u64.pow(n)).collect();
        let mut counts = Counts::default();
        times.iter().chain(&[0, u64::MAX]).for_each(|&time| counts.add(time));
        for (most, n) in [(976, 1), (500, 2), (250, 4), (125, 8), (64, 16), (1, 16)] {
            let (joined, found) = counts.histogram().joined(most);
            assert_eq!(found, n, "at most {most}");
            assert!(joined.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{joined:?}");
            for &(from, to, count) in &joined[..joined.len() - 1] {
                let inside = times.iter().chain(&[0]).filter(|time| (from..to).contains(time));
                assert_eq!(inside.count() as u64, count, "{from} to {to}");
            }
            assert_eq!(joined.last().map(|last| (last.1, last.2)), Some((u64::MAX, 1)));
        }
        assert_eq!(Histogram::default().joined(9).0, []);
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_times_but_for_the_width_of_a_bucket() {
        let mut counts = Counts::default();
        assert_eq!(counts.quantile(0.5), None);
        let mut tail = Counts::default();
        (1..=900).for_each(|time| counts.add(time * 1_000));
        (901..=1_000).for_each(|time| tail.add_many(time * 1_000, 1));
        counts.add_all(&tail);
        for (q, expected) in [(0.0, 1_000.0), (0.5, 501_000.0), (0.99, 991_000.0), (1.0, 1e6)] {
            let found = counts.quantile(q).unwrap() as f64;
            assert!((found / expected - 1.0).abs() < 0.04, "{q}: {found}");
        }
    }

    #[test]
    fn buckets_are_narrow() {
        for time in [100_u64, 10_000, 1_000_000] {
            let at = bucket(time);
            let width = begin(at + 1) - begin(at);
            let share = width as f64 / begin(at) as f64;
            assert!((1.0 / 31.0..=1.0 / 16.0).contains(&share), "{time}: {width}");
        }
    }
}
