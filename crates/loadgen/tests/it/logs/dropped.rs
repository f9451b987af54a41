//! Tests of many runs: which records stay in memory, and that no log misses the
//! others.

use std::fs;
use std::path::Path;

use dyno_loadgen::clock::WallTime;
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::log::{LogFiles, LogSettings};
use dyno_loadgen::run::{RecordRetention, TestLog, run};
use dyno_loadgen::settings::{Repetition, TestMode, TestSettings};

use crate::interval::{Batches, every_50_ms};
use crate::null::{NullLibrary, tenant};

/// At most 9 streams pass.
fn play(keep: RecordRetention, settings: &TestSettings) -> TestLog {
    let library = NullLibrary::new(1_000, 1_000);
    let mut system = Batches::new(|streams| streams as u64 * 5_000_000 + 1_000);
    let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
    run(&mut driver, &[tenant(settings, &library)], keep, &mut |_| {}).swap_remove(0)
}

/// Per run its number of streams, and whether its record is there.
fn kept(log: &TestLog) -> Vec<(u64, bool)> {
    let kept = |run: &dyno_loadgen::run::RunLog| {
        assert_eq!(run.dropped.is_some(), run.record.issued_at.is_empty());
        (run.plan.samples_per_query, run.dropped.is_none())
    };
    log.runs().map(kept).collect()
}

/// Summary and detail log.
fn texts(name: &str, log: &TestLog) -> [String; 2] {
    let outdir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dropped").join(name);
    fs::create_dir_all(&outdir).unwrap();
    let settings = LogSettings { outdir, enable_trace: false, ..LogSettings::default() };
    let mut files = LogFiles::open(&settings, None, 1).unwrap();
    files.write(log).unwrap();
    let [summary, detail, ..] = files.paths();
    [summary, detail].map(|path| fs::read_to_string(path).unwrap())
}

#[test]
fn only_records_of_runs_that_can_be_the_result_stay_in_memory() {
    let peak = TestMode::FindPeakPerformance;
    let confirm = |runs| Repetition::Confirm { runs, decrement: None };
    let settings =
        |streams, repetition, mode| TestSettings { repetition, mode, ..every_50_ms(streams, 40) };
    let (dropped, left) = (|n| (n, false), |n| (n, true));
    for (name, settings, expected) in [
        (
            "lowered",
            settings(12, confirm(5), TestMode::PerformanceOnly),
            [[12, 11, 10].map(dropped).to_vec(), [9; 5].map(left).to_vec()].concat(),
        ),
        (
            "found",
            settings(1, confirm(2), peak),
            [[1, 2, 4, 8, 16, 12, 10, 9].map(dropped).to_vec(), [9; 2].map(left).to_vec()].concat(),
        ),
        // The last one that passed.
        (
            "searched",
            settings(1, Repetition::Once, peak),
            [[1, 2, 4, 8, 16, 12, 10].map(dropped).to_vec(), vec![left(9)]].concat(),
        ),
        // What passed is not the last one.
        (
            "below",
            settings(3, Repetition::Once, peak),
            vec![dropped(3), dropped(6), dropped(12), left(9), dropped(10)],
        ),
        ("failed", settings(12, Repetition::Minimum(5), TestMode::PerformanceOnly), vec![left(12)]),
    ] {
        let (some, all) =
            (play(RecordRetention::Results, &settings), play(RecordRetention::Every, &settings));
        assert_eq!(kept(&some), expected, "{name}");
        assert!(kept(&all).iter().all(|(_, is_kept)| *is_kept), "{name}");
        // Dropped records change neither log.
        assert_eq!(some.result(), all.result(), "{name}");
        assert!(some.repeated().eq(all.repeated()), "{name}");
        assert_eq!(texts("some", &some), texts("all", &all), "{name}");
    }
}

#[test]
fn responses_that_are_to_be_logged_are_kept_with_their_records() {
    let wanted = TestSettings {
        repetition: Repetition::Confirm { runs: 5, decrement: None },
        accuracy_log_probability: 1.0,
        ..every_50_ms(12, 40)
    };
    let log = play(RecordRetention::Results, &wanted);
    assert!(kept(&log).iter().all(|(_, is_kept)| *is_kept));
    assert_eq!(kept(&log).len(), 8);
}
