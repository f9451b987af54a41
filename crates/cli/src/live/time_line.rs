//! Throughput and latency over time, in slices that widen as the run goes on.

use std::ops::Range;

use dyno_loadgen::clock::{MILLISECOND, Nanos};
use dyno_results::series::Counts;

/// Most slices: more than a terminal has columns.
const MOST_SLICES: usize = 240;
/// Initial width of slices: about the interval of glances.
const NARROWEST: Nanos = 250 * MILLISECOND;

/// Throughput and latency over time.
#[derive(Debug, Clone)]
pub struct TimeLine {
    /// Width of a slice, ns.
    width: Nanos,
    slices: Vec<Slice>,
}

impl Default for TimeLine {
    fn default() -> Self {
        Self { width: NARROWEST, slices: Vec::new() }
    }
}

#[derive(Debug, Clone, Default)]
struct Slice {
    /// Samples completed in the slice.
    completed: f64,
    /// Latency of the queries that were due in the slice.
    latency: Counts,
}

impl TimeLine {
    /// Adds samples that were completed in this interval.
    pub fn add_completed(&mut self, Range { start: begin, end }: Range<Nanos>, samples: u64) {
        // A system that hangs also advances the time line.
        self.reach(end);
        if samples == 0 || end <= begin {
            return;
        }
        let (width, span) = (self.width, (end - begin) as f64);
        for at in begin / width..=(end - 1) / width {
            let (from, to) = ((at * width).max(begin), ((at + 1) * width).min(end));
            self.slices[at as usize].completed += samples as f64 * (to - from) as f64 / span;
        }
    }

    /// Adds queries that were due at this time, with their approximate latency.
    pub fn add_answered(&mut self, due: Nanos, latency: Nanos, queries: u64) {
        self.reach(due + 1);
        self.slices[(due / self.width) as usize].latency.add_many(latency, queries);
    }

    /// Appends slices up to this time.
    fn reach(&mut self, end: Nanos) {
        while end.div_ceil(self.width) > MOST_SLICES as u64 {
            self.width *= 2;
            let pairs = self.slices.chunks(2).map(|pair| {
                let mut joined = pair[0].clone();
                if let Some(second) = pair.get(1) {
                    joined.completed += second.completed;
                    joined.latency.add_all(&second.latency);
                }
                joined
            });
            self.slices = pairs.collect();
        }
        let slices = end.div_ceil(self.width) as usize;
        self.slices.resize_with(self.slices.len().max(slices), Slice::default);
    }

    /// Returns the time that the slices cover, ns.
    pub fn length(&self) -> Nanos {
        self.width * self.slices.len() as u64
    }

    /// Returns samples/s in `parts` parts of equal length; in fewer parts if there are fewer slices.
    /// `now` is the end of the last slice, which may still be filling.
    pub fn rates(&self, parts: usize, now: Nanos) -> Vec<f64> {
        self.parts(parts, |slices, begin, end| {
            let length = now.min(end).saturating_sub(begin).max(1) as f64 / 1e9;
            slices.iter().map(|slice| slice.completed).sum::<f64>() / length
        })
    }

    /// Returns a percentile of latency in the same parts, ns; 0 for a part without observations.
    pub fn latencies(&self, parts: usize, q: f64) -> Vec<f64> {
        self.parts(parts, |slices, _, _| {
            let mut counts = Counts::default();
            slices.iter().for_each(|slice| counts.add_all(&slice.latency));
            counts.quantile(q).unwrap_or(0) as f64
        })
    }

    fn parts(&self, parts: usize, value: impl Fn(&[Slice], Nanos, Nanos) -> f64) -> Vec<f64> {
        let per_part = self.slices.len().div_ceil(parts.max(1)).max(1);
        let joined = self.slices.chunks(per_part).enumerate().map(|(at, slices)| {
            let begin = (at * per_part) as u64 * self.width;
            value(slices, begin, begin + slices.len() as u64 * self.width)
        });
        joined.collect()
    }
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::clock::SECOND;

    use super::*;

    #[test]
    fn time_without_a_completion_is_time() {
        let mut line = TimeLine::default();
        line.add_completed(0..SECOND, 500);
        line.add_completed(SECOND..4 * SECOND, 0);
        assert_eq!(line.length(), 4 * SECOND);
        assert_eq!(line.rates(4, 4 * SECOND), [500.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn slices_grow_wider_and_keep_what_they_hold() {
        let mut line = TimeLine::default();
        let hour = 3_600;
        for second in 0..hour {
            line.add_completed(second * SECOND..(second + 1) * SECOND, 1_000);
            line.add_answered(second * SECOND, 5_000_000, 1_000);
        }
        assert!(line.slices.len() <= MOST_SLICES);
        assert!((hour..hour + 60).contains(&(line.length() / SECOND)), "{}", line.length());
        let total: f64 = line.slices.iter().map(|slice| slice.completed).sum();
        assert!((total - 3_600_000.0).abs() < 1.0, "{total}");
        for parts in [1, 7, 60, 500] {
            let rates = line.rates(parts, hour * SECOND);
            assert!(rates.len() <= parts && !rates.is_empty());
            assert!(rates.iter().all(|rate| (rate - 1_000.0).abs() < 1e-6), "{rates:?}");
            let latencies = line.latencies(parts, 0.99);
            assert!(latencies.iter().all(|ns| (ns / 5e6 - 1.0).abs() < 0.04), "{latencies:?}");
        }
    }
}
