//! Logs of tests in virtual time agree with what happened.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use dyno_loadgen::clock::{Nanos, WallTime};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::log::read::{
    TraceReader, disagreements, open_accuracy, read_detail_file, read_summary, record_of,
    samples_of,
};
use dyno_loadgen::log::{LogFiles, LogSettings, reports};
use dyno_loadgen::record::Outcome;
use dyno_loadgen::run::{Event, RecordRetention, TestLog, run};
use dyno_loadgen::settings::{Repetition, Scenario, TestMode, TestSettings};
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};
use serde_json::Value as Json;

use crate::null::{NullLibrary, tenant};

/// One worker with a queue that answers each sample after a millisecond, with
/// three tokens.
#[derive(Default)]
struct Worker {
    free_at: Nanos,
    queue: VecDeque<(Nanos, ResponseId)>,
}

const SERVICE: Nanos = 1_000_003;

impl SimulatedSystem for Worker {
    fn name(&self) -> &str {
        "worker"
    }
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        if self.queue.is_empty() {
            self.free_at = now;
        }
        for i in 0..query.indices.len() as u64 {
            self.free_at += SERVICE;
            self.queue.push_back((self.free_at, ResponseId(query.first.0 + i)));
        }
    }
    fn next_event(&self) -> Option<Nanos> {
        self.queue.front().map(|(at, _)| *at)
    }
    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        let (_, id) = self.queue.pop_front().unwrap();
        let first_token_at = Some(now - SERVICE / 2);
        completions.push(SimulatedCompletion {
            id,
            first_token_at,
            outcome: Outcome::Ok { tokens: 3 },
        });
    }
}

/// Plays a test, writes its logs and reads them all back.
fn check(name: &str, settings: &TestSettings) -> TestLog {
    let library = NullLibrary::new(50, 20);
    let mut worker = Worker::default();
    let origin = WallTime { unix_ns: 1_795_223_776_000_000_000 };
    let mut driver = VirtualTime::new(&mut worker, origin);
    let log = run(&mut driver, &[tenant(settings, &library)], RecordRetention::Every, &mut |_| {})
        .swap_remove(0);

    let outdir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("played").join(name);
    fs::create_dir_all(&outdir).unwrap();
    let mut files =
        LogFiles::open(&LogSettings { outdir, ..LogSettings::default() }, None, 1).unwrap();
    files.write(&log).unwrap();
    let [summary, detail, accuracy, trace] = files.paths();

    let text = fs::read_to_string(detail).unwrap();
    for line in text.lines() {
        serde_json::from_str::<Json>(line.strip_prefix(":::MLLOG ").unwrap()).unwrap();
    }
    let (detail, problems) = read_detail_file(detail).unwrap();
    assert_eq!(problems, [], "{name}");
    let text = fs::read_to_string(summary).unwrap();
    let (summary, problems) = read_summary(&text);
    assert_eq!(problems, [], "{name}");
    assert_eq!(disagreements(&summary, &detail), [], "{name}");
    assert_eq!(summary.errors, Some(detail.errors().count() as u64), "{name}");
    let valid = reports(&log).last().map(|r| if r.is_valid() { "VALID" } else { "INVALID" });
    assert_eq!(summary.value("Result is"), valid, "{name}");

    let logged: usize = log.runs().map(|run| run.record.responses.len()).sum();
    let entries: Vec<_> = open_accuracy(accuracy).unwrap().map(Result::unwrap).collect();
    assert_eq!(entries.len(), logged, "{name}");

    let trace = fs::read(trace).unwrap();
    serde_json::from_slice::<Json>(&trace).unwrap();
    let (samples, problems) = samples_of(TraceReader::new(&trace[..]));
    assert_eq!(problems, [], "{name}");
    for run in log.runs() {
        let record = &run.record;
        let last = record.first_sample + record.indices.len() as u64;
        let own = |seq| (record.first_sample..last).contains(&seq);
        let of_run: Vec<_> = samples.iter().filter(|s| own(s.sample_seq)).copied().collect();
        let scheduled = !record.scheduled_at.is_empty();
        let back = record_of(&of_run, record.samples_per_query, run.started_at, scheduled).unwrap();
        assert_eq!(back.indices, record.indices, "{name}");
        assert_eq!(back.scheduled_at, record.scheduled_at, "{name}");
        assert_eq!(back.issued_at, record.issued_at, "{name}");
        assert_eq!(back.completed_at, record.completed_at, "{name}");
    }
    log
}

fn settings(scenario: Scenario, mode: TestMode) -> TestSettings {
    TestSettings {
        scenario,
        mode,
        min_duration_ms: 200,
        server_target_qps: 300.0,
        offline_expected_qps: 1_000.0,
        server_target_latency_ns: 30_000_000,
        ..TestSettings::default()
    }
}

#[test]
fn every_scenario_and_mode_leaves_logs_that_agree() {
    for scenario in Scenario::ALL {
        for mode in [TestMode::SubmissionRun, TestMode::AccuracyOnly, TestMode::PerformanceOnly] {
            for use_token_latencies in [false, true] {
                let name = format!("{scenario}-{mode}-{use_token_latencies}");
                let settings = TestSettings { use_token_latencies, ..settings(*scenario, mode) };
                let log = check(&name, &settings);
                assert_eq!(log.result().is_some(), mode != TestMode::AccuracyOnly, "{name}");
            }
        }
    }
}

#[test]
fn a_search_for_the_peak_reports_its_best_run() {
    let search = TestSettings {
        server_find_peak_qps_decimals_of_precision: 0,
        min_duration_ms: 5_000,
        ..settings(Scenario::Server, TestMode::FindPeakPerformance)
    };
    let log = check("find-peak", &search);
    let found = log.result().unwrap().plan.target_qps;
    // The worker does 1,000 samples a second; 5 s and 30 ms of queue allow a
    // little more.
    assert!((900.0..1_020.0).contains(&found), "{found}");
    let told = format!("FindPeakPerformance: Found peak performance field: {found:.6}");
    assert!(log.events.iter().any(|e| matches!(e, Event::Message(m) if m.text == told)));
}

#[test]
fn inferred_tokens_are_told_in_both_logs() {
    for scenario in [Scenario::Server, Scenario::Offline] {
        let inferred = TestSettings {
            infer_token_latencies: true,
            token_latency_scaling_factor: 7,
            ..settings(scenario, TestMode::PerformanceOnly)
        };
        check(&format!("inferred-{scenario}"), &inferred);
    }
}

#[test]
fn a_fixed_interval_is_told_in_the_words_of_the_releases_that_had_it() {
    let at_20_hz = TestSettings {
        multi_stream_target_qps: 20.0,
        multi_stream_samples_per_query: 60,
        min_duration_ms: 3_000,
        repetition: Repetition::Minimum(2),
        ..settings(Scenario::MultiStream, TestMode::PerformanceOnly)
    };
    let log = check("fixed-interval", &at_20_hz);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("played/fixed-interval");
    let summary = fs::read_to_string(folder.join("mlperf_log_summary.txt")).unwrap();
    // 60 samples of 1 ms need two intervals of 50 ms.
    for text in [
        "Mode     : PerformanceOnly\nSamples per query : 60\nResult is : INVALID\n  Performance \
         constraints satisfied : NO\n  Min duration satisfied : Yes\n  Min queries satisfied : \
         Yes\nRecommendations:\n * Reduce samples per query to improve latency.\n\n====",
        "\nIntervals between each IssueQuery:  \"qps\" : 20, \"ms\" : 50\n50.00 percentile : 2\n",
        "99.90 percentile : 2\n\nPer-query latency:  \"target_ns\" : 50000000, \"target_ms\" : 50\n\
         50.00 percentile latency (ns)   : 60000180\n",
        "\n\nPer-sample latency:\nMin latency (ns)                : 1000003\n",
        "\ntarget_qps : 20\ntarget_latency (ns): 50000000\nmax_async_queries : 1\n",
    ] {
        assert!(summary.contains(text), "{text:?} in {summary}");
    }
    let (detail, _) = read_detail_file(&folder.join("mlperf_log_detail.txt")).unwrap();
    assert_eq!(detail.number("requested_multi_stream_target_qps"), Some(20.0));
    assert_eq!(detail.whole("effective_target_latency_ns"), Some(50_000_000));
    assert_eq!(detail.whole("result_99.00_percentile_num_intervals_between_queries"), Some(2));
    assert_eq!(detail.flag("result_perf_constraints_met"), Some(false));
    let run = log.result().unwrap();
    let queries = run.record.query_count() as u64;
    assert_eq!(detail.whole("dyno_skipping_queries"), Some(queries));
    // Recounted from the due times in the trace; ticks are truncated
    // to whole ns.
    let due = &run.record.scheduled_at;
    let skipped = |pair: &[Nanos]| (pair[1] - pair[0] + 1) / 50_000_000 - 1;
    let recounted = due.windows(2).map(skipped).sum::<Nanos>() + 1;
    assert_eq!(detail.whole("dyno_skipped_intervals"), Some(recounted));
}
