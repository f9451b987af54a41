//! Query traces equal those of LoadGen 6.0.17, bit for bit.
//!
//! `testdata/traces/README.md` describes the origin of the golden cases. With
//! `DYNO_PEER_TRACES` set to a directory, the cases in it are compared too
//! (`cargo xtask peers loadgen` makes hundreds of them with the wheel).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use dyno_loadgen::clock::{Nanos, WallTime};
use dyno_loadgen::config::{Conf, ConfType};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::qsl::SampleIndex;
use dyno_loadgen::run::{RecordRetention, RunLog, run};
use dyno_loadgen::settings::{FIELDS, Scenario, Settings, TestSettings};
use dyno_loadgen::trace::{Trace, loadable_sets};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::null::{Echo, NullLibrary, tenant};

/// The settings of a case; its fields have the names of the Python module.
fn settings(case: &Value) -> TestSettings {
    let mut settings = TestSettings::default();
    for (name, value) in case["settings"].as_object().unwrap() {
        let name = match name.as_str() {
            "ttft_latency" => "server_ttft_latency",
            "tpot_latency" => "server_tpot_latency",
            other => other,
        };
        let field = FIELDS.iter().find(|f| f.name == name).unwrap_or_else(|| panic!("{name}"));
        let text = value.as_str().map_or_else(|| value.to_string(), ToString::to_string);
        (field.set)(&mut settings, &text).unwrap_or_else(|e| panic!("{name} = {text}: {e}"));
    }
    settings
}

fn sha256_of(indices: &[SampleIndex]) -> String {
    let mut text = String::new();
    for (i, index) in indices.iter().enumerate() {
        write!(text, "{}{index}", if i == 0 { "" } else { "," }).unwrap();
    }
    let mut hex = String::new();
    for byte in Sha256::digest(text) {
        write!(hex, "{byte:02x}").unwrap();
    }
    hex
}

fn list<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

/// Where a case read its settings from a conf file, Dyno reads the same from it.
fn check_from_config(case: &Value, name: &str) {
    let Some(conf) = case.get("from_config") else { return };
    let text = |key: &str| conf[key].as_str().unwrap();
    let (model, scenario) = (text("model"), text("scenario"));
    let mut got = Settings::default();
    Conf::built_in().apply(&mut got, model, scenario, ConfType::BuiltIn);
    let user = Conf::parse(text("text"), Path::new("user.conf")).unwrap();
    user.apply(&mut got, model, scenario, ConfType::User);
    let want = settings(case);
    // These the harness sets itself.
    for field in FIELDS.iter().filter(|f| !["scenario", "mode"].contains(&f.name)) {
        assert_eq!((field.get)(&got.values), (field.get)(&want), "{name}: {}", field.name);
    }
}

/// Plays the case in virtual time against a system that answers at once, and
/// compares all that the case states.
fn check(path: &Path) {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let case: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    check_from_config(&case, &name);
    let size = |key: &str| usize::try_from(case[key].as_u64().unwrap()).unwrap();
    let library = NullLibrary::new(size("qsl_total"), size("qsl_performance"));
    let tenants = [tenant(&settings(&case), &library)];

    let mut system = Echo::default();
    let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
    let log = run(&mut driver, &tenants, RecordRetention::Every, &mut |_| {}).swap_remove(0);

    let phases = case["phases"].as_array().unwrap();
    let runs: Vec<&RunLog> = log.runs().collect();
    assert_eq!(runs.len(), phases.len(), "{name}: number of runs");
    for (at, (run, phase)) in runs.iter().zip(phases).enumerate() {
        let context = format!("{name}, run {at}");
        let first: Vec<SampleIndex> = list(&phase["loaded_set_first"]);
        assert_eq!(run.loaded[..first.len()], first, "{context}: load order");
        assert_eq!(run.loaded.len() as u64, phase["loaded_set_len"], "{context}: set length");
        assert_eq!(sha256_of(&run.loaded), phase["loaded_set_sha256"], "{context}: set");
        assert_eq!(run.generated_queries, phase["generated_query_count"], "{context}");
        assert_eq!(
            run.generated_samples_per_query, phase["generated_samples_per_query"],
            "{context}"
        );
        assert_eq!(run.generated_duration, phase["generated_query_duration_ns"], "{context}");
        assert_eq!(run.record.first_sample, phase["first_sample_seq_id"], "{context}");

        let want: Vec<Vec<SampleIndex>> = list(&phase["issued"]);
        let got: Vec<&[SampleIndex]> =
            run.record.indices.chunks(run.record.samples_per_query).collect();
        if run.plan.scenario() == Scenario::SingleStream || !run.plan_is_time_bound() {
            assert_eq!(run.record.query_count() as u64, phase["queries_issued"], "{context}");
        }
        let common = want.len().min(got.len());
        assert!(common > 0 && got[..common] == want[..common], "{context}: issue order");
        if let Some(deltas) = phase.get("scheduled_delta_ns") {
            let deltas: Vec<Nanos> = list(deltas);
            assert_eq!(run.record.scheduled_at, deltas, "{context}: schedule");
        }
    }

    let want: Vec<u64> = list(&case["accuracy_log_seq_ids"]);
    let mut got: Vec<u64> = runs
        .iter()
        .flat_map(|r| r.record.responses.iter().map(|x| x.sequence + r.record.first_sample))
        .collect();
    got.sort_unstable();
    assert_eq!(got, want, "{name}: accuracy log");
    assert_eq!(system.flushes.len() as u64, case["flushes"], "{name}: flushes");
}

trait TimeBound {
    fn plan_is_time_bound(&self) -> bool;
}

impl TimeBound for RunLog {
    /// Whether the number of queries issued depends on how fast the system is.
    fn plan_is_time_bound(&self) -> bool {
        let closed = matches!(self.plan.scenario(), Scenario::SingleStream | Scenario::MultiStream);
        closed && !self.accuracy && self.plan.target_duration > 0
    }
}

fn cases(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap_or_else(|e| panic!("{}: {e}", directory.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    paths.sort();
    paths
}

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/traces")
}

#[test]
fn golden_cases_are_reproduced() {
    let cases = cases(&testdata());
    assert_eq!(cases.len(), 21, "golden cases");
    for path in cases {
        check(&path);
    }
}

#[test]
fn peers_cases_are_reproduced() {
    let Some(directory) = std::env::var_os("DYNO_PEER_TRACES") else {
        eprintln!("skipped: DYNO_PEER_TRACES is not set; run `cargo xtask peers loadgen`");
        return;
    };
    let cases = cases(Path::new(&directory));
    assert!(!cases.is_empty(), "no cases in DYNO_PEER_TRACES");
    for path in &cases {
        check(path);
    }
    eprintln!("{} cases of the wheel reproduced", cases.len());
}

/// The trace drawn query by query, keeping nothing, gives the bytes of the
/// trace that a run holds whole.
#[test]
fn a_trace_drawn_in_bounded_memory_has_the_same_bytes() {
    for path in cases(&testdata()) {
        let case: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let size = |key: &str| usize::try_from(case[key].as_u64().unwrap()).unwrap();
        let library = NullLibrary::new(size("qsl_total"), size("qsl_performance"));
        let plan = tenant(&settings(&case), &library).plan;
        let phase = &case["phases"].as_array().unwrap()[0];
        let accuracy = phase["mode"] == "AccuracyOnly";
        let set = loadable_sets(&plan, accuracy, size("qsl_total")).swap_remove(0);
        let want: Vec<Vec<SampleIndex>> = list(&phase["issued"]);

        let mut trace = Trace::new(&plan, &set, accuracy);
        let mut one_query = Vec::with_capacity(trace.samples_per_query());
        let capacity = one_query.capacity();
        for query in &want {
            one_query.clear();
            trace.next_query(&mut one_query).unwrap();
            assert_eq!(&one_query, query, "{}", path.display());
        }
        assert_eq!(one_query.capacity(), capacity, "memory grew");
    }
}
