//! Distributions of the metrics of a text server's answers.

use std::ops::Range;

use dyno_loadgen::clock::{Nanos, SECOND};
use dyno_loadgen::metrics::Definitions;
use dyno_loadgen::record::Record;
use dyno_net::client::{Gaps, RetryTimes};
use dyno_results::series::TokenTimes;
use dyno_results::summary::distributions::{MetricDistribution, Percentiles};
use dyno_results::summary::window::{Window, steady_from};
use dyno_results::summary::{Metrics, goodput};

use super::answers::Accounts;
use crate::system::net::WireTimes;

/// Returns the distributions of a test, in the order in which they are shown, without inter-token
/// latency. Metrics without values are left out.
pub fn distributions(
    record: &Record,
    accounts: &Accounts<'_>,
    metrics: &Metrics,
    percentiles: &Percentiles,
) -> Vec<MetricDistribution> {
    let times = times(record, percentiles, &Part::whole(0..Nanos::MAX));
    let (mut input, mut output) = (Vec::new(), Vec::new());
    let mut seconds = Seconds::new(metrics.lasted_ns);
    let (mut answers, mut images) = (0_u64, 0);
    for (sample, entry) in accounts.answered() {
        input.extend(entry.input.map(|tokens| (f64::from(tokens), 1)));
        output.extend(entry.output.map(|tokens| (f64::from(tokens), 1)));
        let done = record.completed_at[sample];
        let first = record.first_token_at.get(sample).copied().unwrap_or(0);
        let output = TokenTimes::new(first, done, entry.output.map_or(0, u64::from));
        seconds.add(done, entry.input, output);
        seconds.add_images(done, entry.images);
        (answers, images) = (answers + 1, images + u64::from(entry.images));
    }
    let tokens = metrics.tokens.as_ref();
    let rate = |metric: &str, per_second: Vec<(f64, u64)>, mean: Option<f64>| {
        let mean = mean.filter(|mean| mean.is_finite())?;
        let found = percentiles.distribution(metric, "1/s", per_second);
        let unknown = || MetricDistribution {
            metric: metric.into(),
            unit: "1/s".into(),
            ..Default::default()
        };
        Some(MetricDistribution { mean, ..found.unwrap_or_else(unknown) })
    };
    let requests = metrics.rates.completed_samples_per_s.or(metrics.rates.samples_per_s);
    let images = requests.filter(|_| images > 0).map(|rate| rate * images as f64 / answers as f64);
    let others = [
        rate("requests_per_s", seconds.requests, requests),
        images.and_then(|mean| rate("images_per_s", seconds.images, Some(mean))),
        rate("input_tokens_per_s", seconds.input, tokens.and_then(|t| t.input_per_s)),
        rate("output_tokens_per_s", seconds.output, tokens.and_then(|t| t.output_per_s)),
        percentiles.distribution("input_tokens", "tokens", input),
        percentiles.distribution("output_tokens", "tokens", output),
    ];
    times.into_iter().chain(others.into_iter().flatten()).collect()
}

/// Part of a run: a span of its time, and of its samples those that are in.
pub struct Part<'a> {
    pub span: Range<Nanos>,
    pub is_in: &'a dyn Fn(usize) -> bool,
}

impl Part<'_> {
    /// Returns the part with all samples of a span.
    pub fn whole(span: Range<Nanos>) -> Self {
        Self { span, is_in: &|_| true }
    }

    /// Returns whether a sample is in the part, by its time `at`.
    fn has(&self, sample: usize, at: Nanos) -> bool {
        self.span.contains(&at) && (self.is_in)(sample)
    }
}

/// Returns the times of the requests that are due in a part.
fn times(record: &Record, percentiles: &Percentiles, part: &Part<'_>) -> Vec<MetricDistribution> {
    let (mut ttft, mut tpot, mut e2el) = (Vec::new(), Vec::new(), Vec::new());
    let answered = goodput::answered(record).filter(|(sample, due, _)| part.has(*sample, *due));
    for (sample, due, at) in answered {
        let first = record.first_token_at.get(sample).copied().unwrap_or(0);
        e2el.push((at.saturating_sub(due) as f64, 1));
        if first > 0 {
            ttft.push((first.saturating_sub(due) as f64, 1));
            let per_token = Definitions::Native.time_per_token_of(record, sample, (first, at));
            tpot.extend(per_token.map(|time| (time as f64, 1)));
        }
    }
    let found = [
        percentiles.distribution("ttft", "ns", ttft),
        percentiles.distribution("tpot", "ns", tpot),
        percentiles.distribution("e2el", "ns", e2el),
    ];
    found.into_iter().flatten().collect()
}

/// Returns the figures of a part of a run.
pub fn window(record: &Record, accounts: &Accounts<'_>, name: &str, part: &Part<'_>) -> Window {
    let span = &part.span;
    let seconds =
        (span.end.saturating_sub(span.start) as f64 / SECOND as f64).max(f64::MIN_POSITIVE);
    let each = record.samples_per_query.max(1);
    let samples = 0..record.query_count() * each;
    let due = |sample: &usize| part.has(*sample, record.scheduled(*sample / each));
    let requests = samples.filter(due).count() as u64;
    let all = || goodput::answered(record);
    let answered = all().filter(|(sample, due, _)| part.has(*sample, *due)).count();
    let completed = all().filter(|(sample, _, at)| part.has(*sample, *at)).count();
    let within = accounts.answered().filter(|(at, _)| part.has(*at, record.completed_at[*at]));
    let tokens: Option<u64> = within.map(|(_, entry)| entry.output.map(u64::from)).sum();
    Window {
        name: name.into(),
        from_ns: span.start,
        to_ns: span.end,
        requests,
        lost: requests.saturating_sub(answered as u64),
        offered_per_s: requests as f64 / seconds,
        completed_per_s: completed as f64 / seconds,
        output_tokens_per_s: tokens.map(|tokens| tokens as f64 / seconds),
        distributions: times(record, &Percentiles::default(), part),
    }
}

/// Share of the requests of a steady part that are at least answered within it.
const KEEPS_UP: f64 = 0.95;

/// Returns the steady part of a run, up to the last due time; `None` if the run has none.
pub fn steady(record: &Record, accounts: &Accounts<'_>) -> Option<Window> {
    let mut answered: Vec<(Nanos, f64)> = goodput::answered(record)
        .map(|(_, due, at)| (due, at.saturating_sub(due) as f64))
        .collect();
    answered.sort_by_key(|(due, _)| *due);
    let latencies: Vec<f64> = answered.iter().map(|(_, latency)| *latency).collect();
    let from = answered[steady_from(&latencies)?].0;
    let to = answered.last()?.0.saturating_add(1);
    let steady = window(record, accounts, "steady", &Part::whole(from..to));
    // A queue that grows is not steady, even if the latencies of a short part vary by chance more than
    // they rise.
    (steady.completed_per_s >= KEEPS_UP * steady.offered_per_s).then_some(steady)
}

/// Returns the distribution of the spans between parts with output. Values are at most 1/64 too high.
pub fn inter_token(gaps: &Gaps, percentiles: &Percentiles) -> Option<MetricDistribution> {
    let spans = gaps.spans().map(|(span, times)| (span as f64, times));
    percentiles.distribution("itl", "ns", spans.collect())
}

/// Rates of completed requests, of their images and input tokens, and of output tokens in each second of a
/// run.
///
/// The part of a second at the end belongs to the second before it. Every completion is in one of them,
/// so the mean of the run lies between the lowest and the highest rate.
struct Seconds {
    /// Length of the last one, in seconds.
    last: f64,
    requests: Vec<(f64, u64)>,
    images: Vec<(f64, u64)>,
    input: Vec<(f64, u64)>,
    output: Vec<(f64, u64)>,
}

/// Maximum number of seconds that are kept: more than 11 days.
const MOST_SECONDS: u64 = 1_000_000;

impl Seconds {
    fn new(lasted: Nanos) -> Self {
        let whole = (lasted / SECOND).clamp(1, MOST_SECONDS);
        let last = (lasted - (whole - 1) * SECOND) as f64 / SECOND as f64;
        let rates = if lasted > 0 { vec![(0.0, 1); whole as usize] } else { Vec::new() };
        let [requests, images, input] = [(); 3].map(|()| rates.clone());
        Self { last, requests, images, input, output: rates }
    }

    /// Adds an answer that was complete at `at`, with its input tokens and the times of its output
    /// tokens.
    fn add(&mut self, at: Nanos, input: Option<u32>, output: TokenTimes) {
        count(&mut self.requests, self.last, at / SECOND, 1);
        count(&mut self.input, self.last, at / SECOND, input.map_or(0, u64::from));
        for (second, tokens) in output.by_slot(SECOND) {
            count(&mut self.output, self.last, second, tokens);
        }
    }

    /// Adds the images of an answer that was complete at `at`.
    fn add_images(&mut self, at: Nanos, images: u16) {
        count(&mut self.images, self.last, at / SECOND, images.into());
    }
}

/// Adds things to the rate of a second; the last one lasts `last` seconds.
fn count(rates: &mut [(f64, u64)], last: f64, second: u64, things: u64) {
    let second = usize::try_from(second).unwrap_or(usize::MAX);
    let end = rates.len().saturating_sub(1);
    if let Some((rate, _)) = rates.get_mut(second.min(end)) {
        *rate += things as f64 / if second < end { 1.0 } else { last };
    }
}

/// Returns the most requests that were on the wire at once: a request that waits in the client, also for
/// its retry, is not in flight. Of a request with more than two attempts, those between the first and the
/// last are left out. Without `wire` times, queries count from when they were issued.
pub fn peak_concurrency(record: &Record, wire: &WireTimes) -> u64 {
    // What never came back is in flight until the end.
    let end = |samples: &[Nanos]| {
        let last = samples.iter().copied().max().unwrap_or(0);
        if samples.contains(&0) { Nanos::MAX } else { last }
    };
    let (mut starts, mut ends): (Vec<Nanos>, Vec<Nanos>) = if wire.sent.iter().any(|at| *at > 0) {
        let requests = wire.sent.iter().zip(&record.completed_at).enumerate();
        let requests = requests.filter(|(_, (at, _))| **at > 0);
        let attempts = requests.flat_map(|(sample, (sent, done))| {
            let retried = wire.retries.get(sample).copied().unwrap_or_default();
            attempts(*sent, end(std::slice::from_ref(done)), retried)
        });
        attempts.unzip()
    } else {
        let queries = record.completed_at.chunks(record.samples_per_query.max(1));
        (record.issued_at.clone(), queries.map(end).collect())
    };
    starts.sort_unstable();
    ends.sort_unstable();
    let (mut ended, mut most) = (0, 0);
    for (started, at) in (1..).zip(&starts) {
        while ends.get(ended).is_some_and(|end| end <= at) {
            ended += 1;
        }
        most = most.max(started - ended);
    }
    most as u64
}

/// Returns from when until when the first and the last attempt of a request were on the wire.
fn attempts(sent: Nanos, done: Nanos, retried: RetryTimes) -> impl Iterator<Item = (Nanos, Nanos)> {
    let RetryTimes { first_failed, last_failed, last_sent } = retried;
    let is_whole = first_failed == 0;
    let first = (sent, if is_whole { done } else { first_failed });
    // A request that waits for its next attempt was last on the wire until it failed.
    let until = if last_sent >= last_failed { done } else { last_failed };
    let last = (!is_whole && last_sent > 0).then_some((last_sent, until));
    std::iter::once(first).chain(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_rate_lies_between_the_lowest_and_the_highest() {
        // Ten answers in the first second, one in the part of a second after the second one.
        let mut seconds = Seconds::new(2_500_000_000);
        let output = TokenTimes::new(0, 0, 0);
        (0..10).for_each(|n| seconds.add(n * 100_000_000, Some(7), output));
        seconds.add(2_400_000_000, Some(7), output);
        assert_eq!(seconds.requests, [(10.0, 1), (1.0 / 1.5, 1)]);
        assert_eq!(seconds.input, [(70.0, 1), (7.0 / 1.5, 1)]);

        seconds.add_images(900_000_000, 4);
        seconds.add_images(2_400_000_000, 3);
        assert_eq!(seconds.images, [(4.0, 1), (2.0, 1)]);

        let mut short = Seconds::new(500_000_000);
        short.add(500_000_000, None, TokenTimes::new(0, 500_000_000, 3));
        assert_eq!((short.requests, short.output), (vec![(2.0, 1)], vec![(6.0, 1)]));
    }

    #[test]
    fn tokens_of_a_stream_have_the_rate_at_which_they_come() {
        // 30 tokens from 0.1 s to 3.0 s, one each 0.1 s.
        let mut seconds = Seconds::new(3_000_000_000);
        seconds.add(3_000_000_000, None, TokenTimes::new(100_000_000, 3_000_000_000, 30));
        // The last one, at the very end, belongs to the third second.
        assert_eq!(seconds.output, [(9.0, 1), (10.0, 1), (11.0, 1)]);
        assert_eq!(seconds.requests, [(0.0, 1), (0.0, 1), (1.0, 1)]);
    }

    #[test]
    fn the_peak_concurrency_is_that_of_overlapping_queries() {
        let record = |issued: &[u64], completed: &[u64]| Record {
            samples_per_query: 1,
            issued_at: issued.to_vec(),
            completed_at: completed.to_vec(),
            ..Record::default()
        };
        let on_wire = |sent: &[u64]| WireTimes { sent: sent.to_vec(), ..WireTimes::default() };
        let none = WireTimes::default();
        assert_eq!(peak_concurrency(&record(&[0, 10, 20], &[10, 20, 30]), &none), 1);
        assert_eq!(peak_concurrency(&record(&[0, 5, 6, 20], &[10, 30, 7, 21]), &none), 3);
        // The first one never came back.
        assert_eq!(peak_concurrency(&record(&[0, 5, 9], &[0, 6, 10]), &none), 2);
        // The second request waited in the client until the first was answered; the third was not sent.
        assert_eq!(peak_concurrency(&record(&[0, 5, 6], &[10, 30, 0]), &on_wire(&[1, 10, 0])), 1);
        assert_eq!(peak_concurrency(&Record::default(), &none), 0);
    }

    #[test]
    fn a_request_that_waits_for_its_retry_is_not_in_flight() {
        let record = Record {
            samples_per_query: 1,
            issued_at: vec![0; 3],
            completed_at: vec![100, 110, 0],
            ..Record::default()
        };
        let retried = |first_failed, last_failed, last_sent| RetryTimes {
            first_failed,
            last_failed,
            last_sent,
        };
        // Each is refused at once. The first two are sent again one after the other, and the third still
        // waits for its third attempt.
        let wire = WireTimes {
            sent: vec![1, 11, 21],
            retries: vec![retried(5, 5, 90), retried(15, 15, 100), retried(25, 75, 70)],
        };
        assert_eq!(peak_concurrency(&record, &wire), 1);
        assert_eq!(peak_concurrency(&record, &WireTimes { retries: Vec::new(), ..wire }), 3);
    }
}
