//! MultiStream at a fixed interval, as rounds v0.5 and v0.7 had it, in virtual time.

use std::collections::VecDeque;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::metrics::Metrics;
use dyno_loadgen::record::{Failure, Outcome};
use dyno_loadgen::run::{RunLog, TestLog};
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{Arrivals, EarlyStopping, Scenario, TestMode, TestSettings};
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};
use dyno_loadgen::verdict::{Verdict, Violation, judge};
use proptest::prelude::*;

use crate::null::Echo;
use crate::queueing::simulate;
use crate::scenarios::{echo, play_many, settings};

const MS: Nanos = 1_000_000;

/// Works off one query after the other, each with all its samples at once.
pub struct Batches<F: FnMut(usize) -> Nanos> {
    /// From the number of samples to the time it takes.
    service: F,
    free_at: Nanos,
    queue: VecDeque<(Nanos, ResponseId, usize)>,
    /// Sequence numbers of samples that fail.
    fails: fn(u64) -> bool,
}

impl<F: FnMut(usize) -> Nanos> Batches<F> {
    pub fn new(service: F) -> Self {
        Self::failing(|_| false, service)
    }

    pub fn failing(fails: fn(u64) -> bool, service: F) -> Self {
        Self { service, free_at: 0, queue: VecDeque::new(), fails }
    }
}

impl<F: FnMut(usize) -> Nanos> SimulatedSystem for Batches<F> {
    fn name(&self) -> &str {
        "batches"
    }
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        self.free_at = self.free_at.max(now) + (self.service)(query.indices.len());
        self.queue.push_back((self.free_at, query.first, query.indices.len()));
    }
    fn next_event(&self) -> Option<Nanos> {
        self.queue.front().map(|query| query.0)
    }
    fn advance(&mut self, _now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        let (_, first, samples) = self.queue.pop_front().unwrap();
        completions.extend((0..samples as u64).map(|i| {
            let id = ResponseId(first.0 + i);
            let outcome = match (self.fails)(id.sequence()) {
                true => Outcome::Failed(Failure::Internal),
                false => Outcome::Ok { tokens: 0 },
            };
            SimulatedCompletion { id, first_token_at: None, outcome }
        }));
    }
}

/// A query of `streams` samples every 50 ms.
pub fn every_50_ms(streams: u64, queries: u64) -> TestSettings {
    TestSettings {
        multi_stream_target_qps: 20.0,
        multi_stream_samples_per_query: streams,
        min_query_count: queries,
        ..settings(Scenario::MultiStream)
    }
}

fn last(log: &TestLog) -> &RunLog {
    log.runs().last().unwrap()
}

fn judged(run: &RunLog) -> (Metrics, Verdict) {
    let metrics = Metrics::from_record(&run.record, &run.plan);
    let verdict = judge(&metrics, &run.plan, run.ended).verdict;
    (metrics, verdict)
}

/// The ticks at which queries were due, in intervals.
fn ticks(run: &RunLog) -> Vec<u64> {
    run.record.scheduled_at.iter().map(|due| due / (50 * MS)).collect()
}

#[test]
fn a_query_that_takes_an_interval_skips_none_and_a_nanosecond_more_skips_one() {
    for (service, want) in [
        (1, vec![1, 2, 3, 4, 5, 6]),
        (50 * MS - 1, vec![1, 2, 3, 4, 5, 6]),
        (50 * MS, vec![1, 2, 3, 4, 5, 6]),
        (50 * MS + 1, vec![1, 3, 5, 7, 9, 11]),
        (100 * MS, vec![1, 3, 5, 7, 9, 11]),
        (100 * MS + 1, vec![1, 4, 7, 10, 13, 16]),
    ] {
        let log = simulate(&every_50_ms(3, 6), &mut Batches::new(|_| service));
        let run = last(&log);
        assert_eq!(ticks(run), want, "{service} ns");
        assert!(run.record.scheduled_at.iter().all(|due| due % (50 * MS) == 0));
        assert_eq!(run.record.issued_at, run.record.scheduled_at, "no client that lags");
        let (metrics, verdict) = judged(run);
        let found = metrics.intervals.unwrap();
        let each = want[1] - want[0];
        assert_eq!(found.percentiles, [each; 6], "the last query's by its latency");
        assert_eq!((found.over, found.skipped), (6 * u64::from(each > 1), 6 * (each - 1)));
        assert_eq!(found.by_client, 0);
        assert_eq!(verdict == Verdict::Valid, each == 1, "{service} ns: {verdict:?}");
        assert_eq!(metrics.query_latency.unwrap().max, service.cast_signed());
    }
}

/// A run of which the given number of queries, evenly spread, takes two intervals.
fn with_slow(slow: u64, queries: u64, percentile: f64) -> (Metrics, Verdict) {
    let mut number = 0;
    let system = &mut Batches::new(|_| {
        number += 1;
        let is_slow = number * slow / queries > (number - 1) * slow / queries;
        if is_slow { 75 * MS } else { 20 * MS }
    });
    let wanted = TestSettings {
        multi_stream_target_latency_percentile: percentile,
        ..every_50_ms(4, queries)
    };
    let log = simulate(&wanted, system);
    judged(last(&log))
}

#[test]
fn one_percent_may_skip_for_vision_and_three_otherwise() {
    // The reference looks at index floor(n p) of the sorted counts: below it,
    // one query less than the percentage may be over.
    for (percentile, most) in [(0.99, 9), (0.97, 29)] {
        let (metrics, verdict) = with_slow(most, 1_000, percentile);
        assert_eq!((metrics.intervals.unwrap().over, verdict), (most, Verdict::Valid));
        assert_eq!(metrics.intervals.unwrap().allowed, most);
        let (metrics, verdict) = with_slow(most + 1, 1_000, percentile);
        assert_eq!(metrics.intervals.unwrap().target, 2);
        let Verdict::Invalid(violations) = verdict else { panic!("{percentile}: valid") };
        let [Violation::Intervals { over, queries: 1_000, skipped, .. }] = violations[..] else {
            panic!("{violations:?}")
        };
        assert_eq!((over, skipped), (most + 1, most + 1));
        let told = violations[0].to_string();
        let share = percentile * 100.0;
        assert!(told.contains(&format!("{} of 1000 queries", most + 1)), "{told}");
        assert!(told.contains(&format!("{share}% must skip none")), "{told}");
        assert!(told.contains("lower multi_stream_samples_per_query"), "{told}");
        let advice = violations[0].recommendation().unwrap();
        assert_eq!(advice, "Reduce samples per query to improve latency.");
    }
}

/// The loop of the old releases over known service times: tick numbers, and the
/// counts of intervals.
fn naive(qps: f64, service: &[Nanos]) -> (Vec<Nanos>, Vec<u64>) {
    let tick_time = |tick: u64| (tick as f64 / qps * 1e9) as Nanos;
    let (mut now, mut tick) = (0, 0);
    let (mut due, mut advanced) = (Vec::new(), Vec::new());
    for &takes in service {
        let before = tick;
        loop {
            tick += 1;
            if tick_time(tick) >= now {
                break;
            }
        }
        due.push(tick_time(tick));
        advanced.push(tick - before);
        now = tick_time(tick) + takes;
    }
    let mut counts = advanced.split_off(1);
    counts.push((qps * (*service.last().unwrap() as f64 / 1e9)).ceil() as u64);
    (due, counts)
}

proptest! {
    #[test]
    fn ticks_and_counts_are_those_of_the_old_loop(
        qps in 0.5..5_000.0_f64,
        shares in prop::collection::vec(0.01..4.0_f64, 1..120),
        streams in 1_u64..9,
        percentile in 0.5..0.999_f64,
        seed: u64,
    ) {
        let service: Vec<Nanos> = shares.iter().map(|share| (share * 1e9 / qps) as Nanos).collect();
        let wanted = TestSettings {
            multi_stream_target_qps: qps,
            multi_stream_target_latency_percentile: percentile,
            sample_index_rng_seed: seed,
            ..every_50_ms(streams, service.len() as u64)
        };
        let play = || {
            let mut left = service.iter().copied();
            simulate(&wanted, &mut Batches::new(|_| left.next().expect("no further query")))
        };
        let log = play();
        let run = last(&log);
        let (due, mut counts) = naive(qps, &service);
        prop_assert_eq!(&run.record.scheduled_at, &due);
        prop_assert_eq!(run.ended, EndReason::Naturally);
        prop_assert_eq!(run.record.query_count(), service.len());
        let (metrics, _) = judged(run);
        let found = metrics.intervals.unwrap();
        prop_assert_eq!(found.over, counts.iter().filter(|&&count| count > 1).count() as u64);
        // Each interval from the first query to the last one's end is that of a
        // query or was skipped.
        prop_assert_eq!(found.skipped, counts.iter().map(|&count| count.max(1) - 1).sum::<u64>());
        counts.sort_unstable();
        let at = |q: f64| counts[(counts.len() as f64 * q) as usize];
        prop_assert_eq!(found.percentiles, [0.5, 0.9, 0.95, 0.97, 0.99, 0.999].map(at));
        let met = judge(&metrics, &run.plan, run.ended).performance_met;
        prop_assert_eq!(met, Some(at(percentile) < 2));
        for query in run.record.indices.chunks(streams as usize) {
            prop_assert!(run.loaded.windows(query.len()).any(|window| window == query));
        }
        prop_assert_eq!(&play(), &log, "the same seeds give the same run");
    }
}

#[test]
fn a_run_ends_as_the_others_do() {
    let ended = |wanted: &TestSettings, system: &mut Echo| {
        let run = last(&play_many(std::slice::from_ref(wanted), system)[0]).clone();
        (run.ended, run.record.query_count())
    };
    let base = every_50_ms(2, 10);
    let long = TestSettings { min_duration_ms: 2_000, ..base.clone() };
    assert_eq!(ended(&long, &mut echo(MS)), (EndReason::Naturally, 40), "tick 40 is at 2 s");
    let few = TestSettings { max_query_count: 4, ..long.clone() };
    assert_eq!(ended(&few, &mut echo(MS)), (EndReason::MaxQueryCount { issued: 4 }, 4));
    let short = TestSettings { max_duration_ms: 180, ..long.clone() };
    assert_eq!(ended(&short, &mut echo(MS)), (EndReason::MaxDuration { at: 200 * MS }, 4));
    // A system so slow that it skips three of four intervals still ends in time.
    assert_eq!(ended(&long, &mut echo(160 * MS)), (EndReason::Naturally, 11));
    let deadline = TestSettings { response_deadline_ms: 500, ..base.clone() };
    let mut silent = Echo { silent_from: Some(6), ..echo(MS) };
    assert_eq!(ended(&deadline, &mut silent), (EndReason::Deadline { missing: 2 }, 4));
    let mut silent = Echo { silent_from: Some(6), ..echo(MS) };
    assert_eq!(ended(&base, &mut silent), (EndReason::Deadline { missing: 2 }, 4));
}

#[test]
fn unanswered_and_failed_queries_are_no_streams() {
    let mut system = Batches::new(|_| MS);
    // One sample of each of the first two queries of 4.
    system.fails = |sample| sample == 1 || sample == 6;
    let log = simulate(&every_50_ms(4, 100), &mut system);
    let (metrics, verdict) = judged(last(&log));
    let found = metrics.intervals.unwrap();
    assert_eq!((found.over, found.skipped), (2, 0));
    let Verdict::Invalid(violations) = verdict else { panic!("valid") };
    assert!(matches!(violations[0], Violation::Intervals { over: 2, .. }), "{violations:?}");
    assert!(violations.contains(&Violation::Failed { samples: 2 }), "{violations:?}");
}

#[test]
fn an_accuracy_run_keeps_the_ticks_and_issues_every_sample() {
    let wanted = TestSettings { mode: TestMode::AccuracyOnly, ..every_50_ms(8, 100) };
    let logs = play_many(&[wanted], &mut echo(60 * MS));
    let mut issued: Vec<_> = logs[0].runs().flat_map(|run| run.record.indices.clone()).collect();
    issued.sort_unstable();
    issued.dedup();
    assert_eq!(issued, (0..100).collect::<Vec<_>>());
    let run = logs[0].runs().next().unwrap();
    assert_eq!(ticks(run), [1, 3, 5], "as the releases did that had the interval");
}

#[test]
fn early_stopping_has_no_say_at_a_fixed_interval() {
    // 10 queries are far too few for a percentile.
    let log = simulate(&every_50_ms(1, 10), &mut Batches::new(|_| MS));
    assert_eq!(judged(last(&log)).1, Verdict::Valid);
    // No criterion is judged.
    let single = TestSettings { min_query_count: 10, ..settings(Scenario::SingleStream) };
    let never = TestSettings { early_stopping: EarlyStopping::Never, ..single.clone() };
    let valid = |wanted| judged(last(&simulate(wanted, &mut Batches::new(|_| MS)))).1;
    assert!(matches!(valid(&single), Verdict::Invalid(_)));
    assert_eq!(valid(&never), Verdict::Valid);
}

#[test]
fn tenants_keep_their_own_ticks() {
    let server = TestSettings {
        server_target_qps: 1_000.0,
        server_arrivals: Arrivals::Constant,
        min_query_count: 500,
        ..settings(Scenario::Server)
    };
    let other = TestSettings { multi_stream_target_qps: 30.0, ..every_50_ms(2, 8) };
    let logs = play_many(&[every_50_ms(3, 8), server, other], &mut echo(40 * MS));
    assert_eq!(ticks(last(&logs[0])), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(last(&logs[1]).record.query_count(), 500);
    let due = &last(&logs[2]).record.scheduled_at;
    let want: Vec<Nanos> = (0..8).map(|i| (f64::from(2 * i + 1) / 30.0 * 1e9) as Nanos).collect();
    assert_eq!(*due, want, "40 ms are more than one of its intervals");
}

/// Streams at which a query takes `base + streams * each`, at most an interval.
fn true_peak(base: Nanos, each: Nanos) -> u64 {
    (50 * MS - base) / each
}

#[test]
fn the_search_finds_the_number_of_streams_that_theory_says() {
    // Never an interval to the nanosecond: ticks are cut off to whole ones.
    for (base, each) in [
        (0, MS - 1),
        (10 * MS, MS - 1),
        (MS, 333_332),
        (30 * MS, 7 * MS),
        (0, 50 * MS - 1),
        (0, 26 * MS),
    ] {
        let wanted = TestSettings { mode: TestMode::FindPeakPerformance, ..every_50_ms(1, 60) };
        let log = simulate(&wanted, &mut Batches::new(|n| base + n as u64 * each));
        let run = log.result().unwrap();
        assert_eq!(run.plan.samples_per_query, true_peak(base, each), "{base} + {each} n");
        assert_eq!(judged(run).1, Verdict::Valid);
        assert_eq!(run.plan.min_sample_count, 60 * run.plan.samples_per_query);
        // A set for each number of streams, with its padding.
        let padded = run.plan.performance_sample_count + run.plan.samples_per_query - 1;
        assert_eq!(run.loaded.len() as u64, padded);
    }
    // Not even one stream.
    let wanted = TestSettings { mode: TestMode::FindPeakPerformance, ..every_50_ms(1, 60) };
    let log = simulate(&wanted, &mut Batches::new(|_| 51 * MS));
    assert_eq!(log.runs().count(), 1);
    assert!(matches!(judged(log.result().unwrap()).1, Verdict::Invalid(_)));
}
