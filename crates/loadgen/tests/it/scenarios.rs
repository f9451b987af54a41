//! What each scenario, pacing and end condition does, in virtual time.

use std::sync::Arc;

use dyno_loadgen::clock::{Nanos, WallTime};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::metrics::{Definitions, Metrics, Rates};
use dyno_loadgen::record::Record;
use dyno_loadgen::run::{RecordRetention, RunLog, TestLog, run};
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{
    Arrivals, EarlyStopping, Scenario, TestMode, TestSettings, TraceRules,
};
use dyno_loadgen::verdict::judge;
use proptest::prelude::*;

use crate::null::{Echo, NullLibrary, tenant};

const MS: Nanos = 1_000_000;

pub fn settings(scenario: Scenario) -> TestSettings {
    TestSettings {
        scenario,
        min_duration_ms: 0,
        sample_index_rng_seed: 3,
        qsl_rng_seed: 4,
        schedule_rng_seed: 5,
        ..TestSettings::default()
    }
}

pub fn play_many(all: &[TestSettings], system: &mut Echo) -> Vec<TestLog> {
    let libraries: Vec<_> = all.iter().map(|_| NullLibrary::new(100, 20)).collect();
    let tenants: Vec<_> = all.iter().zip(&libraries).map(|(s, l)| tenant(s, l)).collect();
    run(
        &mut VirtualTime::new(system, WallTime { unix_ns: 0 }),
        &tenants,
        RecordRetention::Every,
        &mut |_| {},
    )
}

pub fn play(settings: &TestSettings, system: &mut Echo) -> RunLog {
    play_many(std::slice::from_ref(settings), system)[0].runs().last().unwrap().clone()
}

pub fn echo(latency: Nanos) -> Echo {
    Echo { latency, ..Echo::default() }
}

#[test]
fn samples_of_a_multistream_query_are_contiguous_in_load_order() {
    let mut system = echo(MS);
    let wanted =
        TestSettings { multi_stream_samples_per_query: 7, ..settings(Scenario::MultiStream) };
    let run = play(&wanted, &mut system);
    for (_, _, samples) in &system.queries {
        assert!(run.loaded.windows(7).any(|window| window == samples), "{samples:?}");
    }
    assert!(system.queries.len() >= 100);
}

#[test]
fn an_offline_query_repeats_the_set_in_load_order() {
    let mut system = echo(MS);
    let run =
        play(&TestSettings { min_query_count: 50, ..settings(Scenario::Offline) }, &mut system);
    let want: Vec<_> = run.loaded.iter().cycle().take(50).copied().collect();
    assert_eq!(system.queries, [(0, 0, want)]);
    assert_eq!(run.ended, EndReason::Naturally);
}

#[test]
fn single_stream_issues_when_the_last_query_is_complete() {
    let mut system = echo(2 * MS);
    let wanted = TestSettings { min_duration_ms: 400, ..settings(Scenario::SingleStream) };
    let run = play(&wanted, &mut system);
    let times: Vec<Nanos> = system.queries.iter().map(|q| q.0).collect();
    let want: Vec<Nanos> = (0..=200).map(|i| i * 2 * MS).collect();
    assert_eq!(times, want, "ends at the first query issued at or after the minimum duration");
    assert_eq!(run.ended, EndReason::Naturally);
}

#[test]
fn end_conditions_are_told_apart() {
    let single = settings(Scenario::SingleStream);
    let server = TestSettings { server_target_qps: 1_000.0, ..settings(Scenario::Server) };
    let ended = |settings: &TestSettings, latency| play(settings, &mut echo(latency)).ended;

    // Expected latency 1 ms, true latency 0.1 ms: for 100 ms the trace covers 200 ms.
    let ran_out = TestSettings { min_duration_ms: 100, ..single.clone() };
    assert_eq!(ended(&ran_out, MS / 10), EndReason::RanOut);
    let goes_on = TestSettings { continue_trace: true, ..ran_out };
    let run = play(&goes_on, &mut echo(MS / 10));
    assert_eq!((run.ended, run.record.query_count()), (EndReason::Naturally, 1_001));
    assert_eq!(run.generated_queries, 201);

    let few = TestSettings { max_query_count: 5, ..single.clone() };
    assert_eq!(ended(&few, MS), EndReason::MaxQueryCount { issued: 5 });
    let short = TestSettings { max_duration_ms: 10, ..single };
    assert_eq!(ended(&short, 3 * MS), EndReason::MaxDuration { at: 12 * MS });
    assert_eq!(ended(&server, MS), EndReason::TraceIssued);
    let narrow = TestSettings { server_max_async_queries: 3, ..server };
    assert_eq!(
        ended(&narrow, 1_000 * MS),
        EndReason::TooManyOutstanding { issued: 4, outstanding: 4 }
    );
}

#[test]
fn a_silent_system_ends_by_the_deadline_with_what_is_missing() {
    for scenario in [Scenario::SingleStream, Scenario::Server, Scenario::Offline] {
        let wanted = TestSettings {
            response_deadline_ms: 50,
            server_target_qps: 10_000.0,
            ..settings(scenario)
        };
        let mut system = Echo { silent_from: Some(10), ..echo(MS) };
        let run = play(&wanted, &mut system);
        let EndReason::Deadline { missing } = run.ended else {
            panic!("{scenario}: {:?}", run.ended)
        };
        assert_eq!(missing, run.record.missing() as u64, "{scenario}");
        assert!(missing > 0, "{scenario}");
    }
}

#[test]
fn coalescing_hands_over_all_that_is_due() {
    let wanted = TestSettings {
        server_target_qps: 1e5,
        server_coalesce_queries: true,
        server_arrivals: Arrivals::Burst(8),
        min_query_count: 400,
        ..settings(Scenario::Server)
    };
    let mut system = echo(MS);
    let run = play(&wanted, &mut system);
    assert!(system.queries.iter().all(|q| q.2.len() >= 8), "a burst is one call");
    assert_eq!(system.queries.iter().map(|q| q.2.len()).sum::<usize>(), 400);
    let flat: Vec<_> = system.queries.iter().flat_map(|q| q.2.clone()).collect();
    assert_eq!(flat, run.record.indices, "in the order of the trace");
    assert_eq!(run.record.query_count(), 400);
}

#[test]
fn fixed_concurrency_keeps_as_many_in_flight() {
    let wanted = TestSettings {
        server_arrivals: Arrivals::Concurrency(4),
        min_duration_ms: 100,
        server_target_qps: 10_000.0,
        ..settings(Scenario::Server)
    };
    let mut system = echo(2 * MS);
    let record = play(&wanted, &mut system).record;
    let in_flight = |at: Nanos| {
        let issued = record.issued_at.iter().filter(|&&t| t <= at).count();
        issued - record.completed_at.iter().filter(|&&t| t <= at).count()
    };
    for at in (0..98).map(|ms| ms * MS + MS / 2) {
        assert_eq!(in_flight(at), 4, "at {at}");
    }
    assert!(record.scheduled_at.is_empty(), "due when issued");
}

#[test]
fn a_closed_loop_issues_nothing_after_its_duration_and_has_its_rate() {
    // Rounds that fit the duration, and rounds that do not.
    for (latency, last) in [(10 * MS, 20 * MS), (13 * MS, 26 * MS), (20 * MS, 20 * MS)] {
        let wanted = TestSettings {
            server_arrivals: Arrivals::Concurrency(8),
            min_duration_ms: 30,
            min_query_count: 1,
            continue_trace: true,
            ..settings(Scenario::Server)
        };
        let run = play(&wanted, &mut echo(latency));
        assert_eq!(run.ended, EndReason::Naturally);
        assert_eq!(run.record.issued_at.last(), Some(&last));
        let metrics = Metrics::with_definitions(Definitions::Native, &run.record, &run.plan);
        let Rates::Server { completed, .. } = metrics.rates else { panic!() };
        let expected = 8.0 / (latency as f64 / 1e9);
        assert!((completed / expected - 1.0).abs() < 1e-9, "{completed}, not {expected}");
        assert!(judge(&metrics, &run.plan, run.ended).min_duration_met);
    }
}

fn gaps(record: &Record) -> Vec<f64> {
    record.scheduled_at.windows(2).map(|w| (w[1] - w[0]) as f64).collect()
}

fn mean_and_cv(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    (mean, variance.sqrt() / mean)
}

#[test]
fn arrival_processes_have_their_rate_and_burstiness() {
    // Coefficient of variation of the gaps: 1 / sqrt(shape) for gamma; in
    // bursts of b, b - 1 gaps of 0 for one exponential of mean b: sqrt(2b - 1).
    for (arrivals, cv) in [
        (Arrivals::Poisson, 1.0),
        (Arrivals::Constant, 0.0),
        (Arrivals::Gamma(0.25), 2.0),
        (Arrivals::Gamma(4.0), 0.5),
        (Arrivals::Burst(5), 3.0),
    ] {
        let wanted = TestSettings {
            server_target_qps: 1_000.0,
            min_query_count: 100_000,
            server_arrivals: arrivals.clone(),
            ..settings(Scenario::Server)
        };
        let got = mean_and_cv(&gaps(&play(&wanted, &mut echo(MS)).record));
        assert!((got.0 / 1e6 - 1.0).abs() < 0.03, "{arrivals:?}: mean gap {}", got.0);
        assert!((got.1 - cv).abs() < 0.05 * (1.0 + cv), "{arrivals:?}: variation {}", got.1);
    }
}

#[test]
fn a_replayed_trace_issues_at_the_recorded_times() {
    let times: Arc<[Nanos]> = [0, 5, 5, 1_000, 70_000].into();
    let wanted = TestSettings {
        server_arrivals: Arrivals::Replay(times.clone()),
        min_query_count: 5,
        ..settings(Scenario::Server)
    };
    let run = play(&wanted, &mut echo(MS));
    assert_eq!(run.record.scheduled_at, *times);
    assert_eq!(run.record.issued_at, *times);
}

#[test]
fn a_replayed_trace_of_unique_samples_keeps_their_order() {
    let count =
        play(&settings(Scenario::Server), &mut echo(MS)).record.indices.iter().max().unwrap() + 1;
    let times: Arc<[Nanos]> = (0..u64::from(count)).map(|n| n * 10).collect();
    let wanted = TestSettings {
        server_arrivals: Arrivals::Replay(times.clone()),
        performance_issue_unique: true,
        performance_sample_count_override: count.into(),
        ..settings(Scenario::Server)
    };
    let run = play(&wanted, &mut echo(MS));
    assert_eq!(run.record.indices, (0..count).collect::<Vec<_>>());
    // At other times than recorded ones, the order is a shuffled one.
    let shuffled = TestSettings { server_arrivals: Arrivals::Poisson, ..wanted };
    let run = play(&shuffled, &mut echo(MS));
    assert_eq!(run.record.indices.len(), count as usize);
    assert!(!run.record.indices.is_sorted());
}

#[test]
fn tenants_have_the_traces_that_they_have_alone() {
    let server = |seed, qps| TestSettings {
        server_target_qps: qps,
        schedule_rng_seed: seed,
        sample_index_rng_seed: seed,
        ..settings(Scenario::Server)
    };
    let all = [server(1, 500.0), settings(Scenario::SingleStream), server(9, 2_000.0)];
    let mut system = echo(MS);
    let together = play_many(&all, &mut system);
    for (at, settings) in all.iter().enumerate() {
        let alone = play(settings, &mut echo(MS));
        let tenant = together[at].runs().last().unwrap();
        assert_eq!(tenant.record, alone.record, "tenant {at}");
        assert!(system.queries.iter().any(|q| q.1 == at));
    }
    let times: Vec<Nanos> = system.queries.iter().map(|q| q.0).collect();
    assert!(times.is_sorted(), "one clock for all");
}

#[test]
fn tenants_are_judged_each_by_its_own_bound() {
    let bound = |ns| TestSettings {
        server_target_qps: 100.0,
        min_query_count: 2_000,
        server_target_latency_ns: ns,
        ..settings(Scenario::Server)
    };
    let logs = play_many(&[bound(2 * MS), bound(MS / 2)], &mut echo(MS));
    let met: Vec<_> = logs
        .iter()
        .map(|log| {
            let run = log.result().unwrap();
            let metrics = dyno_loadgen::metrics::Metrics::from_record(&run.record, &run.plan);
            dyno_loadgen::verdict::judge(&metrics, &run.plan, run.ended).performance_met
        })
        .collect();
    assert_eq!(met, [Some(true), Some(false)]);
}

#[test]
fn accuracy_issues_every_sample_and_unloads_what_it_loads() {
    for scenario in Scenario::ALL {
        let library = NullLibrary::new(103, 20);
        let wanted = TestSettings { mode: TestMode::AccuracyOnly, ..settings(*scenario) };
        let mut system = echo(MS);
        let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
        let log =
            run(&mut driver, &[tenant(&wanted, &library)], RecordRetention::Every, &mut |_| {})
                .swap_remove(0);
        let mut issued: Vec<_> = log.runs().flat_map(|r| r.record.indices.clone()).collect();
        issued.sort_unstable();
        issued.dedup();
        assert_eq!(issued, (0..103).collect::<Vec<_>>(), "{scenario}");
        let logged: usize = log.runs().map(|r| r.record.responses.len()).sum();
        let samples: usize = log.runs().map(|r| r.record.indices.len()).sum();
        assert_eq!(logged, samples, "{scenario}: every response is logged");
        assert_eq!(*library.loads.lock().unwrap(), *library.unloads.lock().unwrap());
        assert_eq!(system.flushes.len(), 6, "{scenario}: once a set");
    }
}

#[test]
fn rounds_up_to_5_1_draw_the_set_from_the_whole_library() {
    let old = TestSettings { trace_rules: TraceRules::UpTo5_1, ..settings(Scenario::Offline) };
    let loaded = play(&old, &mut echo(MS)).loaded;
    assert_eq!(loaded.len(), 20);
    assert!(loaded.iter().any(|&sample| sample >= 20), "{loaded:?}");
    let now = play(&settings(Scenario::Offline), &mut echo(MS)).loaded;
    assert!(now.iter().all(|&sample| sample < 20), "{now:?}");
    // The old set begins with the accuracy order, which is a shuffle of all.
    let accuracy = TestSettings { mode: TestMode::AccuracyOnly, ..old };
    let logs = play_many(&[accuracy], &mut echo(MS));
    assert_eq!(logs[0].runs().next().unwrap().loaded, loaded);
}

#[test]
fn extend_goes_on_until_the_percentile_is_certain() {
    let extend = |scenario| TestSettings {
        early_stopping: EarlyStopping::Extend,
        min_query_count: 1,
        server_target_qps: 1_000.0,
        ..settings(scenario)
    };
    // The fewest queries at which one may be discarded, by the rules' table.
    let single = play(&extend(Scenario::SingleStream), &mut echo(MS));
    assert_eq!(single.record.query_count(), 64);
    let multi = play(&extend(Scenario::MultiStream), &mut echo(MS));
    assert_eq!(multi.record.query_count(), 662);

    // No query is over: 459 suffice at 99 %. The look at the end of the trace
    // counts only queries whose fate is known, so a few more are issued.
    let wanted = TestSettings { min_duration_ms: 100, ..extend(Scenario::Server) };
    let server = play(&wanted, &mut echo(MS));
    let queries = server.record.query_count();
    assert!((459..470).contains(&queries), "{queries}");
    assert_eq!(server.ended, EndReason::TraceIssued);

    // Every query is over: ends at the cap.
    let hopeless = TestSettings { max_duration_ms: 1_000, ..wanted };
    let server = play(&hopeless, &mut echo(200 * MS));
    assert!(matches!(server.ended, EndReason::MaxDuration { .. }), "{:?}", server.ended);
}

fn any_settings() -> impl Strategy<Value = TestSettings> {
    let scenario = prop::sample::select(Scenario::ALL);
    let arrivals = prop::sample::select(vec![
        Arrivals::Poisson,
        Arrivals::Gamma(0.5),
        Arrivals::Burst(3),
        Arrivals::Concurrency(5),
    ]);
    (scenario, arrivals, 1..200_u64, 0..60_u64, any::<(bool, bool, bool)>(), any::<u64>()).prop_map(
        |(scenario, server_arrivals, queries, duration, (concatenate, unique, coalesce), seed)| {
            TestSettings {
                scenario,
                server_arrivals,
                min_query_count: queries,
                min_duration_ms: duration,
                sample_concatenate_permutation: concatenate,
                performance_issue_unique: unique,
                server_coalesce_queries: coalesce,
                server_target_qps: 2_000.0,
                sample_index_rng_seed: seed,
                schedule_rng_seed: seed,
                ..settings(scenario)
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_issued_is_completed_and_repeats(wanted in any_settings(), latency in 0..3 * MS) {
        let run = play(&wanted, &mut echo(latency));
        let record = &run.record;
        prop_assert_eq!(record.missing(), 0);
        prop_assert_eq!(record.indices.len(), record.completed_at.len());
        prop_assert_eq!(record.query_count() * record.samples_per_query, record.indices.len());
        prop_assert!(record.issued_at.is_sorted());
        for q in 0..record.query_count() {
            prop_assert!(record.scheduled(q) <= record.issued_at[q]);
        }
        for (sample, &done) in record.completed_at.iter().enumerate() {
            prop_assert!(done >= record.issued_at[sample / record.samples_per_query]);
        }
        prop_assert_eq!(&run, &play(&wanted, &mut echo(latency)), "same seed, same bytes");
    }
}

#[test]
fn a_system_keeps_its_time_and_its_work_from_run_to_run() {
    let wanted = TestSettings {
        mode: TestMode::AccuracyOnly,
        accuracy_sample_count_override: 40,
        ..settings(Scenario::SingleStream)
    };
    let mut system = echo(MS);
    let logs = play_many(&[wanted], &mut system);
    assert_eq!(logs[0].runs().count(), 2);
    let times: Vec<Nanos> = system.queries.iter().map(|q| q.0).collect();
    assert_eq!(times, (0..40).map(|i| i * MS).collect::<Vec<_>>());
    let second = logs[0].runs().last().unwrap();
    assert_eq!((second.started_at, second.record.issued_at[0]), (20 * MS, 0));
}

/// Answers each query, and a sample of an earlier run with it.
struct WrongIdSystem(Echo);

impl dyno_loadgen::sut::SimulatedSystem for WrongIdSystem {
    fn name(&self) -> &str {
        "confused"
    }
    fn issue(&mut self, now: Nanos, query: &dyno_loadgen::sut::SimulatedQuery<'_>) {
        self.0.issue(now, query);
    }
    fn next_event(&self) -> Option<Nanos> {
        self.0.next_event()
    }
    fn advance(
        &mut self,
        now: Nanos,
        completions: &mut Vec<dyno_loadgen::sut::SimulatedCompletion>,
    ) {
        self.0.advance(now, completions);
        for at in 0..completions.len() {
            for id in [completions[at].id.sequence(), u64::MAX] {
                let id = dyno_loadgen::sut::ResponseId(id);
                let outcome = completions[at].outcome;
                completions.push(dyno_loadgen::sut::SimulatedCompletion {
                    id,
                    first_token_at: None,
                    outcome,
                });
            }
        }
    }
    fn flush(&mut self, now: Nanos) {
        self.0.flush(now);
    }
}

#[test]
fn foreign_ids_are_counted_in_virtual_time_too() {
    let library = NullLibrary::new(100, 20);
    let wanted = settings(Scenario::SingleStream);
    let mut system = WrongIdSystem(echo(MS));
    let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
    let log = run(&mut driver, &[tenant(&wanted, &library)], RecordRetention::Every, &mut |_| {})
        .swap_remove(0);
    let misuse = log.runs().last().unwrap().record.misuse;
    // The first of them has the reserved id 0, which is of no run.
    assert_eq!((misuse.stale, misuse.unknown), (99, 101));
}
