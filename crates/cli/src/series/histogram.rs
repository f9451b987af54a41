//! Exact counts in logarithmic buckets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Buckets of an octave; a bucket is about 4 % wide.
const PER_OCTAVE_BITS: u32 = 4;

/// Counts of times in buckets that are about 4 % wide: `[from, to, count]`, from
/// the shortest; `to` is not in the bucket. Empty buckets are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Histogram {
    /// In ascending order.
    pub buckets: Vec<(u64, u64, u64)>,
}

/// Counts on their way.
#[derive(Debug, Clone, Default)]
pub struct Counts(Vec<u64>);

impl Counts {
    /// Counts one more.
    pub fn add(&mut self, time: u64) {
        self.add_many(time, 1);
    }

    /// Counts so many more of about the same time.
    pub fn add_many(&mut self, time: u64, count: u64) {
        let at = bucket(time);
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        self.0[at] += count;
    }

    /// Adds what was counted elsewhere.
    pub fn add_all(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// The middle of the bucket in which `sorted[floor(count * q)]` lies; `None`
    /// if nothing was counted.
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

    /// What was counted.
    pub fn histogram(&self) -> Histogram {
        let filled = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        Histogram { buckets: filled.map(|(at, &n)| (begin(at), begin(at + 1), n)).collect() }
    }
}

/// Below `2^PER_OCTAVE_BITS` each value is a bucket; above, each octave has as many.
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
    (within as u64).checked_shl(octave as u32 - 1).unwrap_or(u64::MAX)
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
            assert!(width as f64 / time as f64 <= 1.0 / 16.0 + 1e-9, "{time}: {width}");
        }
    }
}
