//! Computes series from records.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::metrics::Definitions;
use dyno_loadgen::record::Record;

use super::histogram::Counts;
use super::{Distribution, Slice, Test, TokenTimes};
use crate::selection::Selection;

/// Shares at which spectra are taken.
const SPECTRUM: [f64; 25] = [
    0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99,
    0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999, 0.99998, 0.99999,
];

/// Number of parts of a run.
const SLICES: usize = 100;

/// Minimum length of a part, in ns.
const SHORTEST_SLICE: Nanos = 1_000_000;

/// Maximum number of times that are sorted; enough to resolve p99.999.
const ORDERED_MOST: usize = 1 << 20;

impl Test {
    /// Computes the series of a run.
    pub fn from_record(record: &Record, folder: &str) -> Self {
        let rows = Rows::new(record);
        let ordered = Selection::new(rows.count, ORDERED_MOST);
        let mut builder = SliceBuilder::new(record, &rows);
        let mut latency = TimeCollector::default();
        for row in 0..rows.count {
            let Some((at, time)) = rows.latency(row) else { continue };
            let is_ordered = ordered.contains(row);
            latency.add(time, is_ordered);
            builder.answered(at, time, is_ordered);
        }
        let mut client_lag = TimeCollector::default();
        let ordered = Selection::new(record.client_lag.len(), ORDERED_MOST);
        for (query, &lag) in record.client_lag.iter().enumerate() {
            let is_ordered = ordered.contains(query);
            client_lag.add(lag.into(), is_ordered);
            if is_ordered {
                builder.part(record.scheduled(query)).lags.push(lag.into());
            }
        }
        let (mut first_token, mut per_token) = (TimeCollector::default(), TimeCollector::default());
        let ordered = Selection::new(record.first_token_at.len(), ORDERED_MOST);
        for (sample, &first) in record.first_token_at.iter().enumerate() {
            let due = record.scheduled(rows.query_of_sample(sample));
            let done = record.completed_at[sample];
            if first == 0 || done == 0 || rows.is_failed(sample) {
                continue;
            }
            let is_ordered = ordered.contains(sample);
            first_token.add(first.saturating_sub(due), is_ordered);
            let time = Definitions::Native.time_per_token_of(record, sample, (first, done));
            if let Some(Ok(time)) = time.map(u64::try_from) {
                per_token.add(time, is_ordered);
            }
        }
        Self {
            folder: folder.to_string(),
            latency: latency.distribution(),
            client_lag: client_lag.distribution(),
            first_token: first_token.distribution(),
            time_per_output_token: per_token.distribution(),
            slices: builder.slices(),
            batch_sizes: Vec::new(),
        }
    }
}

/// Rows of a record: queries, or the samples of the single query of Offline.
struct Rows<'a> {
    record: &'a Record,
    is_one: bool,
    /// Samples in a row.
    samples: usize,
    count: usize,
    /// By sample; empty if none failed.
    failed: Vec<bool>,
}

impl<'a> Rows<'a> {
    fn new(record: &'a Record) -> Self {
        let is_one = record.query_count() == 1;
        let samples = if is_one { 1 } else { record.samples_per_query.max(1) };
        let all = record.completed_at.len();
        let mut failed = vec![false; if record.failed.is_empty() { 0 } else { all }];
        for &(sequence, _) in &record.failed {
            if let Some(flag) = usize::try_from(sequence).ok().and_then(|at| failed.get_mut(at)) {
                *flag = true;
            }
        }
        let count = if is_one { all } else { record.query_count() };
        Self { record, is_one, samples, count, failed }
    }

    fn is_failed(&self, sample: usize) -> bool {
        self.failed.get(sample).is_some_and(|&failed| failed)
    }

    fn query_of_sample(&self, sample: usize) -> usize {
        if self.is_one { 0 } else { sample / self.samples }
    }

    /// Returns the scheduled time and the latency of a row whose samples were all answered. In
    /// Offline, where all samples are due at once, the first value is the completion time.
    fn latency(&self, row: usize) -> Option<(Nanos, u64)> {
        let samples = row * self.samples..(row + 1) * self.samples;
        let stamps = self.record.completed_at.get(samples.clone())?;
        if stamps.contains(&0) || (!self.failed.is_empty() && self.failed[samples].contains(&true))
        {
            return None;
        }
        let due = self.record.scheduled(if self.is_one { 0 } else { row });
        let done = stamps.iter().copied().max()?;
        Some((if self.is_one { done } else { due }, done.saturating_sub(due)))
    }
}

/// Collects times for a distribution.
#[derive(Default)]
struct TimeCollector {
    counts: Counts,
    ordered: Vec<u64>,
    smallest: Option<u64>,
    largest: u64,
}

impl TimeCollector {
    fn add(&mut self, time: u64, is_ordered: bool) {
        self.counts.add(time);
        self.smallest = Some(self.smallest.map_or(time, |smallest| smallest.min(time)));
        self.largest = self.largest.max(time);
        if is_ordered {
            self.ordered.push(time);
        }
    }

    fn distribution(mut self) -> Distribution {
        self.ordered.sort_unstable();
        let mut spectrum = spectrum(&self.ordered);
        // The ends are exact, although only a part of the times is sorted.
        if let (Some(first), Some(smallest)) = (spectrum.first_mut(), self.smallest) {
            first.1 = smallest;
        }
        if let Some(last) = spectrum.last_mut() {
            last.1 = self.largest;
        }
        Distribution { histogram: self.counts.histogram(), spectrum }
    }
}

/// Returns `sorted[floor(count * q)]` at the shares of [`SPECTRUM`] that the count resolves, and the
/// largest time.
fn spectrum(sorted: &[u64]) -> Vec<(f64, u64)> {
    let Some(&largest) = sorted.last() else { return Vec::new() };
    let resolution = 1.0 - 1.0 / sorted.len() as f64;
    let points = SPECTRUM.iter().filter(|&&q| q <= resolution).map(|&q| (q, at(sorted, q)));
    points.chain([(1.0, largest)]).collect()
}

fn at(sorted: &[u64], q: f64) -> u64 {
    sorted[((sorted.len() as f64 * q) as usize).min(sorted.len() - 1)]
}

/// Builds the slices of a run.
struct SliceBuilder {
    width: Nanos,
    parts: Vec<Part>,
}

#[derive(Default)]
struct Part {
    slice: Slice,
    issued: u64,
    done: u64,
    ordered: Vec<u64>,
    largest: u64,
    lags: Vec<u64>,
}

impl SliceBuilder {
    fn new(record: &Record, rows: &Rows<'_>) -> Self {
        let done = record.completed_at.iter().copied().max().unwrap_or(0);
        let issued = record.issued_at.iter().copied().max().unwrap_or(0);
        let end = done.max(issued);
        let width = (end / SLICES as u64 + 1).max(SHORTEST_SLICE);
        let mut builder = Self { width, parts: Vec::new() };
        builder.parts.resize_with((end / width + 1) as usize, Part::default);
        for (query, &at) in record.issued_at.iter().enumerate() {
            let samples = if rows.is_one { rows.count } else { rows.samples };
            builder.part(at).issued += samples as u64;
            if !rows.is_one {
                builder.part(record.scheduled(query)).slice.due += 1;
            }
        }
        for (sample, &at) in record.completed_at.iter().enumerate().filter(|(_, at)| **at != 0) {
            let part = builder.part(at);
            part.done += 1;
            part.slice.due += u64::from(rows.is_one);
            if rows.is_failed(sample) {
                part.slice.failed_samples += 1;
                continue;
            }
            part.slice.completed_samples += 1;
            let tokens = record.tokens.get(sample).copied().unwrap_or(0);
            let first = record.first_token_at.get(sample).copied().unwrap_or(0);
            let times = TokenTimes::new(first, at, u64::try_from(tokens).unwrap_or(0));
            for (slot, tokens) in times.by_slot(width) {
                let part = builder.part(slot.saturating_mul(width));
                part.slice.tokens = part.slice.tokens.saturating_add_unsigned(tokens);
            }
        }
        builder
    }

    fn part(&mut self, at: Nanos) -> &mut Part {
        // Queries may be due after the last completion of a run that was stopped early.
        let last = self.parts.len() - 1;
        &mut self.parts[((at / self.width) as usize).min(last)]
    }

    fn answered(&mut self, at: Nanos, time: u64, is_ordered: bool) {
        let part = self.part(at);
        part.largest = part.largest.max(time);
        if is_ordered {
            part.ordered.push(time);
        }
    }

    fn slices(self) -> Vec<Slice> {
        let mut in_flight = 0_u64;
        let parts = self.parts.into_iter().enumerate();
        parts
            .map(|(number, mut part)| {
                in_flight = (in_flight + part.issued).saturating_sub(part.done);
                part.ordered.sort_unstable();
                part.lags.sort_unstable();
                let ordered = &part.ordered[..];
                let percentiles =
                    |of: &[u64]| [at(of, 0.5), at(of, 0.9), at(of, 0.99), part.largest];
                Slice {
                    begin_ns: number as u64 * self.width,
                    width_ns: self.width,
                    in_flight,
                    latency_ns: (!ordered.is_empty()).then(|| percentiles(ordered)),
                    client_lag_p99_ns: (!part.lags.is_empty()).then(|| at(&part.lags, 0.99)),
                    ..part.slice
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::clock::MILLISECOND;
    use dyno_loadgen::record::Failure;

    use super::*;

    #[test]
    fn series_leave_out_what_was_not_answered() {
        // Four queries of two samples; one sample of the third failed, one of
        // the fourth is missing.
        let ms = |n: u64| n * MILLISECOND;
        let record = Record {
            samples_per_query: 2,
            issued_at: [0, 10, 20, 30].map(ms).to_vec(),
            completed_at: [1, 3, 15, 11, 21, 22, 31, 0].map(ms).to_vec(),
            failed: vec![(4, Failure::Internal)],
            ..Record::default()
        };
        let found = Test::from_record(&record, "f");
        assert_eq!(found.latency.spectrum.first(), Some(&(0.0, ms(3))));
        assert_eq!(found.latency.spectrum.last(), Some(&(1.0, ms(5))));
        let counted: u64 = found.latency.histogram.buckets.iter().map(|b| b.2).sum();
        assert_eq!(counted, 2);
        let answered: Vec<_> =
            found.slices.iter().filter_map(|s| Some((s.begin_ns, s.due, s.latency_ns?))).collect();
        assert_eq!(answered, [(0, 1, [ms(3); 4]), (ms(10), 1, [ms(5); 4])]);
        let sum = |of: fn(&Slice) -> u64| found.slices.iter().map(of).sum::<u64>();
        assert_eq!(sum(|s| s.completed_samples), 6);
        assert_eq!(sum(|s| s.failed_samples), 1);
        assert_eq!(found.slices.last().map(|s| s.in_flight), Some(1), "the missing one");
        assert_eq!(Test::from_record(&Record::default(), "").latency, Distribution::default());
    }

    #[test]
    fn the_ends_of_a_spectrum_are_exact_where_the_rest_is_thinned() {
        let mut times = TimeCollector::default();
        (0..100).for_each(|n| times.add(1_000 - n, n % 2 == 0));
        let found = times.distribution();
        assert_eq!(found.spectrum.first(), Some(&(0.0, 901)), "which was not ordered");
        assert_eq!(found.spectrum.last(), Some(&(1.0, 1_000)));
    }

    #[test]
    fn offline_is_shown_by_when_its_samples_were_done() {
        let record = Record {
            samples_per_query: 3,
            issued_at: vec![0],
            completed_at: [5, 5, 9].map(|n| n * MILLISECOND).to_vec(),
            ..Record::default()
        };
        let found = Test::from_record(&record, "f");
        let due: Vec<u64> = found.slices.iter().map(|s| s.due).collect();
        assert_eq!(due, [0, 0, 0, 0, 0, 2, 0, 0, 0, 1]);
        assert_eq!(found.slices[5].in_flight, 1);
    }
}
