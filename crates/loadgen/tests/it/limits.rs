//! Settings at the ends of their ranges.

use dyno_loadgen::plan::{Library, MAX_TRACE_SAMPLES, Plan, SettingsProblem};
use dyno_loadgen::run::TestLog;
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{Arrivals, Scenario, TestMode, TestSettings};

use crate::real_time;
use crate::scenarios::{echo, play, play_many, settings};

#[test]
fn times_beyond_the_clock_saturate() {
    // A deadline that is never reached.
    let patient = TestSettings { response_deadline_ms: u64::MAX, ..settings(Scenario::Server) };
    let patient = TestSettings { server_target_qps: 1_000.0, ..patient };
    assert_eq!(play(&patient, &mut echo(1_000)).ended, EndReason::TraceIssued);
    let wanted = TestSettings {
        response_deadline_ms: u64::MAX,
        ..real_time::settings(Scenario::Offline, 10)
    };
    real_time::assert_sound(&real_time::play(&wanted, real_time::answer).record);

    // An accuracy run has no duration, whatever a performance run would have.
    let accuracy = TestSettings {
        mode: TestMode::AccuracyOnly,
        min_duration_ms: u64::MAX,
        ..settings(Scenario::SingleStream)
    };
    assert_eq!(play(&accuracy, &mut echo(1_000)).ended, EndReason::TraceIssued);

    // An expected latency of ages: the trace is only an estimate.
    let slow = TestSettings {
        single_stream_expected_latency_ns: 1e300,
        min_query_count: 10,
        ..settings(Scenario::SingleStream)
    };
    let run = play(&slow, &mut echo(1_000));
    assert_eq!((run.ended, run.record.query_count()), (EndReason::Naturally, 10));
}

#[test]
fn traces_that_no_run_can_hold_are_refused_and_never_begun() {
    let library = Library { total: 100, performance: 100 };
    let long =
        TestSettings { min_query_count: MAX_TRACE_SAMPLES + 1, ..settings(Scenario::Offline) };
    assert!(Plan::resolve(&long, library).is_err());
    // Closed loops with whole nanoseconds between their expected arrivals.
    for qps in [2e9, f64::INFINITY] {
        let wanted = TestSettings {
            server_arrivals: Arrivals::Concurrency(4),
            server_target_qps: qps,
            min_duration_ms: 1,
            ..settings(Scenario::Server)
        };
        let (_, problems) = Plan::resolve_as_reference(&wanted, library);
        assert!(problems.iter().any(SettingsProblem::stops), "{qps}");
    }
}

#[test]
fn a_same_index_beyond_a_short_accuracy_set_falls_back_to_its_first_sample() {
    for scenario in Scenario::ALL {
        let wanted = TestSettings {
            mode: TestMode::AccuracyOnly,
            performance_issue_same: true,
            performance_issue_same_index: 15,
            accuracy_sample_count_override: 43,
            multi_stream_samples_per_query: 2,
            ..settings(*scenario)
        };
        let logs = play_many(&[wanted], &mut echo(1_000));
        let last = logs[0].runs().last().unwrap();
        assert_eq!(last.loaded.len() - usize::from(*scenario == Scenario::MultiStream), 3);
        assert!(last.record.indices.iter().all(|i| last.loaded.contains(i)), "{scenario}");
        assert_eq!(last.record.indices[0], last.loaded[0], "{scenario}");
    }
}

#[test]
fn a_tenant_with_fewer_accuracy_sets_has_fewer_runs() {
    let accuracy = |samples| TestSettings {
        mode: TestMode::AccuracyOnly,
        accuracy_sample_count_override: samples,
        ..settings(Scenario::SingleStream)
    };
    let logs = play_many(&[accuracy(60), accuracy(20)], &mut echo(1_000));
    let runs: Vec<_> = logs.iter().map(|log| log.runs().count()).collect();
    assert_eq!(runs, [3, 1]);
    assert!(logs.iter().flat_map(TestLog::runs).all(|run| run.record.query_count() == 20));
    assert!(logs.iter().all(|log| log.complete));
}
