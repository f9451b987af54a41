//! One, two and four workers come to the same result as a single client.

use dyno_loadgen::clock::{Nanos, WallTime};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::log::{LogFiles, LogSettings};
use dyno_loadgen::run::{Event, RecordRetention, RunLog, TestLog, run};
use dyno_loadgen::settings::{Arrivals, Repetition, Scenario, TestMode, TestSettings};
use dyno_loadgen::verdict::Verdict;

use super::rig::{ByIndex, Numbers, Time, gathered, played, played_with_ramp, tenant};

fn alone(settings: &TestSettings, ramp: Nanos) -> TestLog {
    let mut system = ByIndex::default();
    let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
    run(&mut driver, &[tenant(settings, ramp, &Numbers)], RecordRetention::Every, &mut |_| {})
        .swap_remove(0)
}

/// The log without what belongs to the place and the time of the test.
fn placed(mut log: TestLog) -> TestLog {
    (log.origin_wall, log.sut_name_duration) = (WallTime { unix_ns: 0 }, 0);
    log.process = Default::default();
    for event in &mut log.events {
        match event {
            Event::Message(message) => message.at = 0,
            Event::Loaded { span, .. } => *span = Default::default(),
            Event::Result { at, .. } => *at = 0,
            Event::Run(run) => {
                let RunLog { load, generate, unload, started_at, finished_at, .. } = &mut **run;
                (*load, *generate, *unload) = Default::default();
                (*started_at, *finished_at) = (0, 0);
                run.started_wall = WallTime { unix_ns: 0 };
            }
        }
    }
    log
}

/// The four files of a log, byte for byte.
fn files(log: &TestLog) -> [Vec<u8>; 4] {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        LogSettings { outdir: folder.path().into(), enable_trace: true, ..LogSettings::default() };
    let mut files = LogFiles::open(&settings, None, 0).unwrap();
    files.write(log).unwrap();
    files.paths().map(|path| std::fs::read(path).unwrap())
}

fn server() -> TestSettings {
    TestSettings {
        scenario: Scenario::Server,
        server_target_qps: 2_000.0,
        min_duration_ms: 1_000,
        min_query_count: 500,
        accuracy_log_probability: 0.2,
        qsl_rng_seed: 12,
        sample_index_rng_seed: 34,
        schedule_rng_seed: 56,
        accuracy_log_rng_seed: 78,
        ..TestSettings::default()
    }
}

/// Settings, and the length of the ramp before the load, ns.
fn cases() -> Vec<(&'static str, TestSettings, Nanos)> {
    let gamma = Arrivals::Gamma(0.3);
    let offline = TestSettings {
        scenario: Scenario::Offline,
        offline_expected_qps: 3_001.0,
        min_query_count: 1,
        ..server()
    };
    vec![
        ("server", server(), 0),
        ("gamma", TestSettings { server_arrivals: gamma, ..server() }, 0),
        ("ramp", server(), 301_000_000),
        ("both", TestSettings { mode: TestMode::SubmissionRun, ..server() }, 0),
        ("offline", offline.clone(), 0),
        ("offline accuracy", TestSettings { mode: TestMode::AccuracyOnly, ..offline }, 0),
        ("peak", TestSettings { mode: TestMode::FindPeakPerformance, ..server() }, 0),
        ("repeated", TestSettings { repetition: Repetition::Minimum(3), ..server() }, 0),
    ]
}

#[test]
fn one_two_and_four_workers_write_the_logs_of_a_single_client() {
    let expected: Vec<_> =
        cases().iter().map(|(_, settings, ramp)| files(&placed(alone(settings, *ramp)))).collect();
    for workers in [1, 2, 4] {
        let (coordinator, threads) = gathered(workers, || Time::Virtual);
        coordinator.set_up(&[], &|| true).unwrap();
        for ((name, settings, ramp), expected) in cases().iter().zip(&expected) {
            let log = placed(played_with_ramp(&coordinator, settings, *ramp));
            let got = files(&log);
            for (file, (got, expected)) in
                ["summary", "detail", "accuracy", "trace"].iter().zip(got.iter().zip(expected))
            {
                let is_same = got == expected;
                assert!(is_same, "{name}, {workers} workers: the {file} log differs");
                assert!(!got.is_empty());
            }
        }
        drop(coordinator);
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
    }
}

#[test]
fn workers_in_real_time_issue_the_trace_of_one_and_begin_together() {
    let settings = TestSettings { min_duration_ms: 300, ..server() };
    let trace = alone(&settings, 0).runs().next().unwrap().record.clone();
    let (coordinator, threads) = gathered(3, || Time::Real);
    coordinator.set_up(&[], &|| true).unwrap();
    let log = played(&coordinator, &settings);
    let run = log.runs().next().unwrap();
    assert_eq!(run.record.indices, trace.indices);
    assert_eq!(run.record.scheduled_at, trace.scheduled_at);
    assert_eq!(run.record.missing(), 0);
    let is_early = |(due, at): (&u64, &u64)| at < due;
    assert!(!run.record.scheduled_at.iter().zip(&run.record.issued_at).any(is_early));
    let precision = coordinator.precision();
    assert_eq!(precision.runs, 1);
    assert!(precision.error > 0);
    let judged = dyno_loadgen::log::reports(&log);
    assert!(matches!(judged[0].judgement.verdict, Verdict::Valid), "{:?}", judged[0].judgement);
    drop(coordinator);
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
}

#[test]
fn reports_come_with_the_places_of_their_samples() {
    let (coordinator, threads) = gathered(3, || Time::Virtual);
    coordinator.set_up(&[], &|| true).unwrap();
    for (name, settings, _) in cases() {
        let log = played(&coordinator, &settings);
        let record = &log.runs().last().unwrap().record;
        let shares = coordinator.shares();
        assert_eq!(shares.iter().map(|share| share.worker).collect::<Vec<_>>(), [0, 1, 2]);
        let mut samples = 0;
        for share in &shares {
            let (indices, []) = share.report.as_chunks() else { panic!("{name}") };
            let found = share.places[0].iter().map(|&place| record.indices[place]);
            let expected = indices.iter().map(|index| u32::from_le_bytes(*index));
            assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{name}");
            samples += indices.len();
        }
        assert_eq!(samples, record.indices.len(), "{name}");
    }
    drop(coordinator);
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
}
