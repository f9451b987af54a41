//! Runs that are repeated before their result counts, in virtual time: v0.5's
//! minimum of five, v0.7's confirmation by five.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::metrics::{Metrics, Rates};
use dyno_loadgen::peak::{End, Failure};
use dyno_loadgen::rng::Mt19937;
use dyno_loadgen::run::{Event, RunLog, TestLog};
use dyno_loadgen::settings::{
    Arrivals, EarlyStopping, Repetition, Scenario, TestMode, TestSettings,
};
use dyno_loadgen::verdict::{Verdict, Violation, is_of_load, judge};

use crate::interval::{Batches, every_50_ms};
use crate::queueing::{OneServer, simulate};
use crate::scenarios::{echo, play_many, settings};

const MS: Nanos = 1_000_000;

fn is_valid(run: &RunLog) -> bool {
    let metrics = Metrics::from_record(&run.record, &run.plan);
    judge(&metrics, &run.plan, run.ended).verdict == Verdict::Valid
}

fn completed(run: &RunLog) -> f64 {
    match Metrics::from_record(&run.record, &run.plan).rates {
        Rates::Server { completed, .. } => completed,
        other => panic!("{other:?}"),
    }
}

fn loads(log: &TestLog) -> Vec<u64> {
    log.runs().map(|run| run.plan.samples_per_query).collect()
}

fn texts(log: &TestLog) -> Vec<&str> {
    let mut texts = Vec::new();
    for event in &log.events {
        if let Event::Message(message) = event {
            texts.push(&message.text[..]);
        }
    }
    texts
}

fn end(log: &TestLog) -> Option<End> {
    log.search.as_ref()?.end
}

fn confirm(runs: u32, decrement: Option<f64>) -> Repetition {
    Repetition::Confirm { runs, decrement }
}

/// 100 queries a second for one server, with a bound of 100 ms.
fn five_of_server() -> TestSettings {
    TestSettings {
        server_target_qps: 100.0,
        server_arrivals: Arrivals::Constant,
        min_query_count: 200,
        early_stopping: EarlyStopping::Never,
        repetition: Repetition::Minimum(5),
        ..settings(Scenario::Server)
    }
}

#[test]
fn the_server_result_is_the_minimum_of_five_runs() {
    // The last query of each run decides its completed rate.
    let last = [2, 4, 9, 1, 3].map(|ms| ms * MS);
    let mut number = 0;
    let log = simulate(
        &five_of_server(),
        &mut OneServer::new(move || {
            number += 1;
            if number % 200 == 0 { last[number / 200 - 1] } else { MS }
        }),
    );
    let runs: Vec<&RunLog> = log.runs().collect();
    assert_eq!(runs.len(), 5);
    assert!(runs.iter().all(|run| is_valid(run)));
    let result = completed(log.result().unwrap());
    let lowest = runs.iter().map(|run| completed(run)).fold(f64::INFINITY, f64::min);
    assert_eq!(result, lowest);
    assert_eq!(result, completed(runs[2]), "the one whose last query took 9 ms");
    assert!(texts(&log).iter().any(|text| text.starts_with("Repetition: 5 VALID runs at 100")));
    // Each is a test of its own: loaded, issued alike, unloaded.
    for run in &runs[1..] {
        assert_eq!(run.record.indices, runs[0].record.indices);
        assert_eq!(run.loaded, runs[0].loaded);
    }
}

#[test]
fn each_run_is_a_test_of_its_own_for_those_who_keep_them_apart() {
    let wanted = TestSettings { repetition: confirm(5, Some(1.0)), ..every_50_ms(12, 40) };
    let log = simulate(&wanted, &mut Batches::new(|n| n as u64 * 5 * MS + 1_000));
    let alone: Vec<TestLog> = log.repeated().collect();
    assert_eq!(alone.len(), 5, "those that confirm");
    for (one, run) in alone.iter().zip(log.runs().skip(3)) {
        assert_eq!((one.runs().count(), one.result()), (1, Some(run)));
        assert_eq!(one.plan.samples_per_query, 9, "what is in effect is the lowered load");
        assert_eq!(one.plan.repetition, Repetition::Once);
        assert!(one.complete);
    }
    assert!(texts(&alone[2]).contains(&"Repetition: run 3 of 5 at 9"), "{:?}", texts(&alone[2]));
    assert!(!texts(&alone[2]).iter().any(|text| text.contains("run 2 of 5")));
    let once = TestSettings { repetition: Repetition::Once, ..wanted };
    let log = simulate(&once, &mut Batches::new(|_| MS));
    assert_eq!(log.repeated().count(), 0);
}

#[test]
fn one_invalid_run_of_five_is_the_result() {
    let mut number = 0;
    let log = simulate(
        &five_of_server(),
        &mut OneServer::new(move || {
            number += 1;
            // The third run has a stall.
            if number == 500 { 500 * MS } else { MS }
        }),
    );
    assert_eq!(log.runs().count(), 3, "no further run can help");
    assert!(!is_valid(log.result().unwrap()));
    let told = texts(&log).into_iter().find(|text| text.contains("the last run is INVALID"));
    assert!(told.unwrap().contains("exceed the bound"));
}

#[test]
fn any_scenario_can_be_repeated() {
    for scenario in Scenario::ALL {
        let wanted = TestSettings {
            repetition: Repetition::Minimum(3),
            early_stopping: EarlyStopping::Never,
            mode: TestMode::SubmissionRun,
            ..settings(*scenario)
        };
        let log = &play_many(&[wanted], &mut echo(MS))[0];
        let performance = log.runs().filter(|run| !run.accuracy).count();
        assert_eq!((performance, log.complete), (3, true), "{scenario}");
        assert!(is_valid(log.result().unwrap()), "{scenario}");
    }
}

#[test]
fn every_tenant_must_be_valid() {
    let slow = TestSettings {
        server_target_latency_ns: MS / 2,
        repetition: Repetition::Once,
        ..five_of_server()
    };
    let logs = play_many(&[five_of_server(), slow], &mut echo(MS));
    assert_eq!(logs[0].runs().count(), 1);
    let told = |log: &TestLog| texts(log).iter().any(|text| text.contains("INVALID"));
    assert!(logs.iter().all(told));
}

#[test]
fn a_failure_lowers_the_streams_by_one_until_five_runs_pass() {
    let wanted = TestSettings { repetition: confirm(5, Some(1.0)), ..every_50_ms(12, 40) };
    let log = simulate(&wanted, &mut Batches::new(|n| n as u64 * 5 * MS + 1_000));
    assert_eq!(loads(&log), [12, 11, 10, 9, 9, 9, 9, 9]);
    assert_eq!(log.result().unwrap().plan.samples_per_query, 9);
    assert!(is_valid(log.result().unwrap()));
    assert!(texts(&log).contains(&"Repetition: run 5 of 5 at 9"));
}

#[test]
fn a_load_that_never_passes_is_lowered_ten_times() {
    let from = |streams| TestSettings { repetition: confirm(5, None), ..every_50_ms(streams, 40) };
    for (first, last, times) in [(12, 2, 10), (3, 1, 2)] {
        let log = simulate(&from(first), &mut Batches::new(|_| 60 * MS));
        assert_eq!(loads(&log), (last..=first).rev().collect::<Vec<_>>());
        assert!(!is_valid(log.result().unwrap()));
        let because = Failure::TooHigh { first: first as f64, times };
        assert_eq!(end(&log), Some(End::Failed { load: last as f64, because }));
        let advice =
            format!("{first} was lowered {times} times: begin lower, or find the peak first");
        assert!(texts(&log).last().unwrap().ends_with(&advice), "{:?}", texts(&log).last());
    }
    // 1 % of 700 queries/s each time.
    let wanted = TestSettings {
        server_target_qps: 700.0,
        server_target_latency_ns: 20 * MS,
        repetition: confirm(5, None),
        ..five_of_server()
    };
    let log = simulate(&wanted, &mut OneServer::new(|| 10 * MS));
    let last = log.runs().last().unwrap().plan.target_qps;
    assert_eq!((log.runs().count(), last.round()), (11, 630.0));
}

#[test]
fn a_load_is_not_lowered_for_what_that_does_not_mend() {
    // Too few queries, whatever the number of streams.
    let streams = TestSettings { repetition: confirm(5, None), ..every_50_ms(12, 40) };
    let few = TestSettings { max_query_count: 30, ..streams.clone() };
    let logs = [
        simulate(&few, &mut Batches::new(|_| MS)),
        // As few, and a bound that is missed as well.
        simulate(&few, &mut Batches::new(|_| 60 * MS)),
        // Errors.
        simulate(&streams, &mut Batches::failing(|sequence| sequence % 7 == 0, |_| MS)),
    ];
    for log in &logs {
        assert_eq!(loads(log), [12]);
        let because = Failure::NotOfLoad;
        assert_eq!(end(log), Some(End::Failed { load: 12.0, because }));
        let told = texts(log).last().copied().unwrap();
        assert!(told.ends_with("; a lower load would not help"), "{told}");
    }
    // The queries that a run was ended after, because they piled up, are no such
    // reason.
    let piled_up = TestSettings {
        server_target_qps: 105.0,
        server_max_async_queries: 3,
        min_query_count: 2_000,
        server_target_latency_ns: 100 * MS,
        repetition: confirm(2, Some(2.0)),
        ..five_of_server()
    };
    let log = simulate(&piled_up, &mut OneServer::new(|| 10 * MS));
    let rates: Vec<f64> = log.runs().map(|run| run.plan.target_qps).collect();
    assert_eq!(rates, [105.0, 103.0, 101.0, 99.0, 99.0]);
    assert_eq!(end(&log), Some(End::Found { load: 99.0 }));
}

#[test]
fn intervals_that_the_client_skipped_are_not_of_the_load() {
    let log = simulate(&every_50_ms(4, 200), &mut Batches::new(|_| 75 * MS));
    let run = log.result().unwrap();
    let metrics = Metrics::from_record(&run.record, &run.plan);
    let Verdict::Invalid(mut violations) = judge(&metrics, &run.plan, run.ended).verdict else {
        panic!("VALID")
    };
    let allowed = metrics.intervals.unwrap().allowed;
    // The client noticed all but this many of them late.
    for (by_system, expected) in [(200, true), (allowed + 1, true), (allowed, false), (0, false)] {
        let [Violation::Intervals { over: 200, by_client, .. }] = &mut violations[..] else {
            panic!("{violations:?}")
        };
        *by_client = 200 - by_system;
        let found = is_of_load(&violations, &metrics, &run.plan, run.ended);
        assert_eq!(found, expected, "{by_system} by the system");
    }
}

#[test]
fn early_stopping_lowers_the_load_only_where_it_can() {
    // One query in 110 is late, which the bound allows and early stopping does not.
    // Of 400 queries it allows none to be, and is not met all the same.
    for (queries, runs) in [(2_000, 11), (400, 1)] {
        let wanted = TestSettings {
            server_target_latency_percentile: 0.99,
            min_query_count: queries,
            early_stopping: EarlyStopping::AfterRun,
            repetition: confirm(5, None),
            ..five_of_server()
        };
        let mut number = 0;
        let log = simulate(
            &wanted,
            &mut OneServer::new(|| {
                number += 1;
                if number % 110 == 0 { 100 * MS + 1 } else { MS }
            }),
        );
        assert_eq!(log.runs().count(), runs, "{queries} queries");
        let run = log.result().unwrap();
        let metrics = Metrics::from_record(&run.record, &run.plan);
        let violations = judge(&metrics, &run.plan, run.ended).verdict;
        let Verdict::Invalid(violations) = violations else { panic!("{queries}: VALID") };
        assert!(matches!(violations[..], [Violation::EarlyStopping { .. }]), "{violations:?}");
    }
}

#[test]
fn a_failure_lowers_the_rate_until_five_runs_pass() {
    // Constant arrivals at a server of 10 ms: 101 queries/s pile up over the
    // bound of 20 ms within a run, 99 never wait.
    let wanted = TestSettings {
        server_target_qps: 104.0,
        server_target_latency_ns: 20 * MS,
        min_query_count: 2_000,
        repetition: confirm(5, Some(2.5)),
        ..five_of_server()
    };
    let log = simulate(&wanted, &mut OneServer::new(|| 10 * MS));
    let rates: Vec<f64> = log.runs().map(|run| run.plan.target_qps).collect();
    assert_eq!(rates, [104.0, 101.5, 99.0, 99.0, 99.0, 99.0, 99.0]);
    assert!(is_valid(log.result().unwrap()));
}

#[test]
fn a_search_is_confirmed_by_valid_runs() {
    // Above 20 streams a run is lucky every other time or so.
    let mut rng = Mt19937::new(7);
    let lucky = TestSettings {
        mode: TestMode::FindPeakPerformance,
        multi_stream_target_latency_percentile: 0.9,
        repetition: confirm(5, Some(1.0)),
        ..every_50_ms(1, 40)
    };
    let log = simulate(
        &lucky,
        &mut Batches::new(|n| if n > 20 && rng.canonical() < 0.08 { 75 * MS } else { MS }),
    );
    let loads = loads(&log);
    let found = log.result().unwrap();
    assert!(is_valid(found));
    let confirmed = loads[loads.len() - 5..].to_vec();
    assert_eq!(confirmed, [found.plan.samples_per_query; 5], "{loads:?}");
    let told = format!(
        "FindPeakPerformance: Found peak performance field: {}",
        found.plan.samples_per_query
    );
    assert!(texts(&log).contains(&&told[..]));
}

#[test]
fn the_runs_that_confirm_a_search_are_kept_apart_too() {
    let search = TestSettings {
        mode: TestMode::FindPeakPerformance,
        repetition: confirm(5, Some(1.0)),
        ..every_50_ms(1, 40)
    };
    let log = simulate(&search, &mut Batches::new(|n| n as u64 * 5 * MS + 1_000));
    let alone: Vec<TestLog> = log.repeated().collect();
    assert_eq!(alone.iter().map(|one| one.plan.samples_per_query).collect::<Vec<_>>(), [9; 5]);
    assert!(alone.iter().all(|one| is_valid(one.result().unwrap())));
    assert!(alone.iter().all(|one| one.plan.mode == TestMode::PerformanceOnly));
    // The last run of this one is INVALID.
    let log = simulate(&search, &mut Batches::new(|_| 60 * MS));
    assert_eq!(log.repeated().count(), 0);
}

#[test]
fn a_repetition_without_an_end_keeps_the_runs_of_one_load() {
    let wanted = TestSettings { repetition: confirm(5, Some(1.0)), ..every_50_ms(12, 40) };
    let log = simulate(&wanted, &mut Batches::new(|_| 60 * MS));
    let alone: Vec<u64> = log.repeated().map(|one| one.plan.samples_per_query).collect();
    assert_eq!(alone, [2]);
}

#[test]
fn an_end_of_the_test_ends_the_repetition() {
    let wanted = TestSettings { response_deadline_ms: 200, ..five_of_server() };
    let mut system = crate::null::Echo { silent_from: Some(250), ..echo(MS) };
    let logs = play_many(&[wanted], &mut system);
    assert_eq!((logs[0].runs().count(), logs[0].complete), (2, false));
    assert!(!is_valid(logs[0].result().unwrap()));
}

#[test]
fn the_runs_before_an_end_of_the_test_are_kept_apart() {
    let wanted = TestSettings { response_deadline_ms: 200, ..five_of_server() };
    let mut system = crate::null::Echo { silent_from: Some(650), ..echo(MS) };
    let log = &play_many(&[wanted], &mut system)[0];
    assert_eq!((log.runs().count(), log.complete, end(log)), (4, false, None));
    let alone: Vec<TestLog> = log.repeated().collect();
    assert_eq!(alone.len(), 3, "not the one that was cut");
    for one in &alone {
        assert!(one.complete && is_valid(one.result().unwrap()));
    }
}

/// Probability of at most `most` of `trials`.
fn at_most(most: u32, trials: u32, probability: f64) -> f64 {
    let mut term = (1.0 - probability).powf(f64::from(trials));
    let mut sum = term;
    for k in 0..most {
        term *= f64::from(trials - k) / f64::from(k + 1) * probability / (1.0 - probability);
        sum += term;
    }
    sum
}

/// Systems on the border: at N streams a query is slow with a probability that
/// grows with N, so that a run passes by chance.
const QUERIES: u32 = 40;
/// At the 90th percentile of 40 queries, index 36: three may skip.
const ALLOWED: u32 = 3;
const TRIALS: u64 = 400;

fn slow_share(streams: u64) -> f64 {
    0.02 * (streams.saturating_sub(4)) as f64
}

/// One test of such a system from 8 streams: what was found, and the runs made.
fn play_border(repetition: Repetition, seed: u64) -> (Option<u64>, usize) {
    let mut rng = Mt19937::new(seed);
    let wanted = TestSettings {
        multi_stream_target_latency_percentile: 0.9,
        repetition,
        ..every_50_ms(8, u64::from(QUERIES))
    };
    let log =
        simulate(
            &wanted,
            &mut Batches::new(|n| {
                if rng.canonical() < slow_share(n as u64) { 75 * MS } else { 20 * MS }
            }),
        );
    let result = log.result().unwrap();
    (is_valid(result).then_some(result.plan.samples_per_query), log.runs().count())
}

/// Standard deviations that a share of so many trials may be off.
const DEVIATIONS: f64 = 4.0;

#[track_caller]
fn assert_share(found: usize, expected: f64) {
    let share = found as f64 / TRIALS as f64;
    let deviation = (expected * (1.0 - expected) / TRIALS as f64).sqrt().max(1e-3);
    assert!((share - expected).abs() < DEVIATIONS * deviation, "{share} for {expected}");
}

#[test]
fn borderline_systems_pass_as_often_as_probability_says() {
    let passes = |streams: u64| at_most(ALLOWED, QUERIES, slow_share(streams));
    // One run, and the minimum of five.
    for (repetition, runs) in [(Repetition::Once, 1), (Repetition::Minimum(5), 5)] {
        let passed = (0..TRIALS).filter(|&seed| play_border(repetition, seed).0.is_some());
        assert_share(passed.count(), passes(8).powi(runs));
    }
    // Five in a row, one stream less after each failure.
    let played: Vec<_> = (0..TRIALS).map(|seed| play_border(confirm(5, Some(1.0)), seed)).collect();
    let mut reached = 1.0;
    let mut runs = 0.0;
    for streams in (1..=8).rev() {
        let one = passes(streams);
        let all = one.powi(5);
        let found = played.iter().filter(|(found, _)| *found == Some(streams)).count();
        assert_share(found, reached * all);
        // Runs until the first failure, five at most.
        runs += reached * (0..5).map(|n| one.powi(n)).sum::<f64>();
        reached *= 1.0 - all;
    }
    let mean = played.iter().map(|(_, runs)| *runs as f64).sum::<f64>() / TRIALS as f64;
    assert!((mean - runs).abs() < 0.1 * runs, "{mean} runs for {runs}");
    let lowest = played.iter().map(|(found, _)| found.unwrap_or(0)).min();
    assert!(lowest >= Some(4), "four streams never fail: {lowest:?}");
}
