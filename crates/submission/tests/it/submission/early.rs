//! Rounds before v2.0: five runs of Server, streams at a fixed interval, no early stopping.

use std::fs;

use dyno_loadgen::settings::{EarlyStopping, Scenario, TestSettings};
use dyno_rules::Round;
use dyno_submission::check::{CheckReport, Options, Outcome, Program, Skip, check};
use dyno_submission::finding::Severity;
use dyno_submission::layout::Layout;
use dyno_submission::table::Column;
use sha2::{Digest, Sha256};

use super::made;
use crate::made::folder::{Folder, copy};
use crate::made::played::STEADY;

const OUTPUTS: &str = "[\n{ \"seq_id\" : 0, \"qsl_idx\" : 7, \"data\" : \"5F000000\" }\n]\n";
const SERVER: &str = "closed/acme/results/box/resnet50/Server";
const RATES: [&str; 5] = ["105", "101.5", "103", "104", "102"];

/// Returns a detail log of ResNet-50, with a result if it is of a performance run.
fn log(round: &Round, scenario: &str, mode: &str, result: &str) -> String {
    let seeds = round.seeds;
    let (samples, queries) = match scenario {
        "Offline" => ("24576", "1"),
        "MultiStream" => ("12", "270336"),
        _ => ("1", "270336"),
    };
    let mut pairs = vec![
        ("effective_scenario", format!("\"{scenario}\"")),
        ("effective_test_mode", format!("\"{mode}\"")),
        ("sut_name", "\"made\"".to_owned()),
        ("effective_qsl_rng_seed", seeds.qsl.to_string()),
        ("effective_sample_index_rng_seed", seeds.sample_index.to_string()),
        ("effective_schedule_rng_seed", seeds.schedule.to_string()),
        ("effective_performance_sample_count", "1024".to_owned()),
        ("effective_min_query_count", queries.to_owned()),
        ("effective_samples_per_query", samples.to_owned()),
        ("effective_min_duration_ms", "600000".to_owned()),
        ("qsl_reported_total_count", "50000".to_owned()),
    ];
    if mode == "PerformanceOnly" {
        pairs.push(("result_validity", "\"VALID\"".to_owned()));
        pairs.push(("result_90.00_percentile_latency_ns", "900".to_owned()));
        pairs.push(("result_99.00_percentile_latency_ns", "1000".to_owned()));
        pairs.push(("result_99.00_percentile_per_query_latency_ns", "9000".to_owned()));
        pairs.push(("result_mean_latency_ns", "500".to_owned()));
        pairs.push(("result_samples_per_second", result.to_owned()));
        pairs.push(("result_scheduled_samples_per_sec", result.to_owned()));
    }
    pairs.iter().fold(String::new(), |log, (key, value)| log + &made::line(key, value))
}

fn run(folder: &Folder, round: &Round, path: &str, scenario: &str, result: &str) {
    let summary = format!("SUT name : made\nScenario : {scenario}\nResult is : VALID\n");
    let log = log(round, scenario, "PerformanceOnly", result);
    folder.write(&format!("{path}/mlperf_log_detail.txt"), log);
    folder.write(&format!("{path}/mlperf_log_summary.txt"), summary);
}

/// ResNet-50 in the closed division, in Offline and other scenarios.
fn submission(round: &Round, suite: &str, others: &[&str]) -> Folder {
    let folder = Folder::new("early");
    let kind = format!("{{\n  \"system_type\": \"{suite}\",");
    let system = made::system(round).replace("  \"system_type\": \"edge\",\n", "");
    folder.write("closed/acme/systems/box.json", system.replacen('{', &kind, 1));
    folder.write("closed/acme/documentation/calibration.md", "made");
    folder.write("closed/acme/code/resnet50/README.md", "made");
    for scenario in ["Offline"].iter().chain(others).copied() {
        let result = format!("closed/acme/results/box/resnet50/{scenario}");
        let runs = if scenario == "Server" { &RATES[..] } else { &RATES[..1] };
        for (number, rate) in (1..).zip(runs) {
            run(&folder, round, &format!("{result}/performance/run_{number}"), scenario, rate);
        }
        let accuracy = format!("{result}/accuracy");
        let hash: String =
            Sha256::digest(OUTPUTS).iter().map(|byte| format!("{byte:02x}")).collect();
        let said = format!("accuracy=76.100%, good=38050, total=50000\nhash={hash}\n");
        folder.write(&format!("{accuracy}/accuracy.txt"), said);
        folder.write(&format!("{accuracy}/mlperf_log_accuracy.json"), OUTPUTS);
        let detail = log(round, scenario, "AccuracyOnly", "");
        folder.write(&format!("{accuracy}/mlperf_log_detail.txt"), detail);
        folder.write(&format!("{accuracy}/mlperf_log_summary.txt"), "No warnings\n");
        let described = format!("closed/acme/measurements/box/resnet50/{scenario}");
        folder.write(&format!("{described}/box.json"), made::MEASUREMENT);
        for name in ["mlperf.conf", "user.conf", "README.md"] {
            folder.write(&format!("{described}/{name}"), "made");
        }
    }
    folder
}

fn judged(folder: &Folder, round: &'static Round, program: Program) -> CheckReport {
    let options = Options { skip: vec![Skip::Compliance], ..Options::new(program) };
    check(folder.path(), round, &options).unwrap()
}

fn metric(checked: &CheckReport, scenario: &str) -> Option<f64> {
    let found = checked.results.iter().find(|(path, _)| path.ends_with(scenario));
    match found.map(|(_, outcome)| outcome) {
        Some(Outcome::Valid { metric }) => Some(*metric),
        _ => None,
    }
}

fn errors(checked: &CheckReport) -> Vec<String> {
    let errors = checked.findings.iter().filter(|finding| finding.severity == Severity::Error);
    errors.map(|finding| format!("{finding}")).collect()
}

fn round(name: &str) -> &'static Round {
    Round::named(name).unwrap()
}

#[test]
fn the_least_of_five_runs_of_server_is_the_result() {
    for name in ["v0.5", "v0.7"] {
        let folder = submission(round(name), "datacenter", &["Server"]);
        let strict = judged(&folder, round(name), Program::Strict);
        assert!(strict.is_valid(), "{name}: {:#?}", errors(&strict));
        assert_eq!(metric(&strict, "Server"), Some(101.5), "{name}");
        // The checker of these rounds used the last run.
        let mono = judged(&folder, round(name), Program::Mono);
        assert!(mono.is_valid(), "{name}: {:#?}", errors(&mono));
        assert_eq!(metric(&mono, "Server"), Some(102.0), "{name}");
    }
    let folder = submission(round("v1.0"), "datacenter", &["Server"]);
    let mono = judged(&folder, round("v1.0"), Program::Mono);
    assert_eq!(metric(&mono, "Server"), Some(105.0), "{:#?}", errors(&mono));
}

#[test]
fn each_of_the_five_runs_must_be_there_and_count() {
    let round = round("v0.7");
    let folder = submission(round, "datacenter", &["Server"]);
    let third = folder.path().join(format!("{SERVER}/performance/run_3"));
    fs::remove_dir_all(third).unwrap();
    let detail = folder.path().join(format!("{SERVER}/performance/run_4/mlperf_log_detail.txt"));
    let text = fs::read_to_string(&detail).unwrap();
    fs::write(&detail, text.replace("\"VALID\"", "\"INVALID\"")).unwrap();
    let strict = judged(&folder, round, Program::Strict);
    let found = |check: &str, run: &str| {
        let of = |finding: &&dyno_submission::finding::Finding| {
            finding.check == check && finding.path.display().to_string().contains(run)
        };
        strict.findings.iter().any(|finding| of(&finding))
    };
    assert!(found("performance.folder", "run_3"), "{:#?}", strict.findings);
    assert!(found("performance.result", "run_4"), "{:#?}", strict.findings);
    assert_eq!(metric(&strict, "Server"), None);
    assert_eq!(metric(&judged(&folder, round, Program::Mono), "Server"), Some(102.0));
}

#[test]
fn the_best_of_five_runs_is_not_all_of_them() {
    let round = round("v0.7");
    let folder = submission(round, "datacenter", &["Server"]);
    let path = |number| folder.path().join(format!("{SERVER}/performance/run_{number}"));
    for number in 2..=5 {
        fs::remove_dir_all(path(number)).unwrap();
        copy(&path(1), &path(number));
    }
    let strict = judged(&folder, round, Program::Strict);
    let found = errors(&strict);
    let copies = found.iter().filter(|error| error.contains("is a copy of run_1"));
    assert_eq!((copies.count(), metric(&strict, "Server")), (4, None), "{found:#?}");
}

#[test]
fn runs_that_confirm_streams_are_judged_where_they_are_submitted() {
    let round = round("v0.7");
    let folder = submission(round, "edge", &["SingleStream", "MultiStream"]);
    assert_eq!(metric(&judged(&folder, round, Program::Strict), "MultiStream"), Some(12.0));
    let second = "closed/acme/results/box/resnet50/MultiStream/performance/run_2";
    run(&folder, round, second, "MultiStream", "1");
    let detail = folder.path().join(second).join("mlperf_log_detail.txt");
    let text = fs::read_to_string(&detail).unwrap();
    let key = "effective_samples_per_query\", \"value\": ";
    fs::write(&detail, text.replace(&format!("{key}12"), &format!("{key}11"))).unwrap();
    assert_eq!(metric(&judged(&folder, round, Program::Strict), "MultiStream"), Some(11.0));
    fs::write(&detail, text.replace("\"VALID\"", "\"INVALID\"")).unwrap();
    assert_eq!(metric(&judged(&folder, round, Program::Strict), "MultiStream"), None);
    assert_eq!(metric(&judged(&folder, round, Program::Mono), "MultiStream"), Some(12.0));
}

#[test]
fn results_of_rounds_without_early_stopping_are_those_of_their_rules() {
    for name in ["v0.7", "v1.0", "v1.1"] {
        for other in ["SingleStream", "MultiStream"] {
            let folder = submission(round(name), "edge", &[other]);
            let mono = judged(&folder, round(name), Program::Mono);
            let (value, unit) = match other {
                "SingleStream" => (0.0009, "Latency (ms)"),
                _ => (12.0, "Streams"),
            };
            if name == "v1.1" && other == "MultiStream" {
                assert_eq!(metric(&mono, other), None, "v1.1 has no MultiStream");
                continue;
            }
            assert_eq!(metric(&mono, other), Some(value), "{name}: {:#?}", errors(&mono));
            assert_eq!(metric(&mono, "Offline"), Some(105.0), "{name}: {:#?}", errors(&mono));
            let row = mono.rows.iter().find(|row| row.get(Column::Scenario) == other).unwrap();
            assert_eq!(row.get(Column::Units), unit);
        }
    }
}

#[test]
fn the_audits_of_the_first_round_lie_in_a_folder_of_another_name() {
    let round = round("v0.5");
    let folder = submission(round, "datacenter", &["Server"]);
    assert_eq!(Layout::for_round(round.version).compliance(), "audit");
    let missing = |folder: &Folder| {
        let checked = check(folder.path(), round, &Options::new(Program::Strict)).unwrap();
        let of_audits = checked.findings.iter().filter(|f| f.check == "audit.folder");
        of_audits.count()
    };
    assert_eq!(missing(&folder), 2);
    for scenario in ["Offline", "Server"] {
        let audit = format!("closed/acme/audit/box/resnet50/{scenario}/TEST01");
        folder.write(&format!("{audit}/verify_performance.txt"), "TEST PASS\n");
    }
    assert_eq!(missing(&folder), 0);
}

/// A run that the load generator makes by these rules is consistent.
#[test]
fn a_run_that_was_played_without_early_stopping_agrees_with_itself() {
    let scenarios = [Scenario::SingleStream, Scenario::MultiStream, Scenario::Server];
    for name in ["v0.5", "v0.7", "v1.0", "v1.1"] {
        let round = round(name);
        for played in scenarios {
            let suite = if played == Scenario::Server { "datacenter" } else { "edge" };
            let folder = submission(round, suite, &[played.name()]);
            let result = format!("closed/acme/results/box/resnet50/{}", played.name());
            let settings = TestSettings {
                min_duration_ms: 60_000,
                early_stopping: EarlyStopping::Never,
                ..STEADY.settings(round, played)
            };
            let run = folder.path().join(result).join("performance/run_1");
            STEADY.play(&settings, 50_000, &run);
            let strict = judged(&folder, round, Program::Strict);
            let found: Vec<_> = errors(&strict)
                .into_iter()
                .filter(|error| error.contains("derived") || error.contains("consistent"))
                .collect();
            assert!(found.is_empty(), "{name} {}: {found:#?}", played.name());
        }
    }
}

#[test]
fn the_bound_of_translation_is_of_its_own_percentile() {
    let round = round("v0.5");
    let is_late = |p97: &str, p99: &str| {
        let folder = submission(round, "datacenter", &["Server"]);
        for of in ["results", "measurements"] {
            let base = folder.path().join(format!("closed/acme/{of}/box"));
            fs::rename(base.join("resnet50"), base.join("gnmt")).unwrap();
        }
        for number in 1..=5 {
            let run = format!("closed/acme/results/box/gnmt/Server/performance/run_{number}");
            let detail = folder.path().join(run).join("mlperf_log_detail.txt");
            let key = "result_99.00_percentile_latency_ns";
            let text = fs::read_to_string(&detail).unwrap();
            let others = text.lines().filter(|line| !line.contains(key));
            let log = others.fold(String::new(), |log, line| log + line + "\n");
            let last = made::line("result_97.00_percentile_latency_ns", p97);
            fs::write(&detail, log + &last + &made::line(key, p99)).unwrap();
        }
        let found = judged(&folder, round, Program::Strict).findings;
        found.iter().any(|finding| finding.check == "performance.latency")
    };
    assert!(!is_late("200000000", "300000000"));
    assert!(is_late("300000000", "310000000"));
}

/// The checker skips several errors in v0.5, and searches for the word in v0.7 (r0.7:63 and 408).
#[test]
fn the_errors_of_an_early_log_are_those_of_its_round() {
    let line = |text: &str| format!("\"pid\": 1, \"tid\": 1, \"ts\": 1ns : ERROR : {text}\n");
    let ended = "Ending early: Ran out of generated queries to issue before the minimum query count \
                 and test duration were reached.";
    for (line, is_in_v0_5, is_in_v0_7) in [
        (line(ended), false, true),
        (line("Loadgen built with uncommitted changes!"), false, true),
        (line("CAS failed."), false, false),
        (line("Ending early: Max query count reached."), true, true),
        ("the word ERROR\n".to_owned(), false, true),
    ] {
        for (name, expected) in [("v0.5", is_in_v0_5), ("v0.7", is_in_v0_7)] {
            for run in ["performance/run_1", "accuracy"] {
                let folder = submission(round(name), "datacenter", &["Server"]);
                let result = "closed/acme/results/box/resnet50/Offline";
                let log = format!("{result}/{run}/mlperf_log_detail.txt");
                folder.write(&log, folder.read(&log) + &line);
                let found = errors(&judged(&folder, round(name), Program::Strict));
                let is_found = found.iter().any(|error| error.contains(".errors"));
                assert_eq!(is_found, expected, "{name} {run} {line}: {found:#?}");
            }
        }
    }
}

#[test]
fn an_error_that_v0_5_skips_is_not_shown_as_the_cause() {
    let folder = submission(round("v0.5"), "datacenter", &["Server"]);
    let log = "closed/acme/results/box/resnet50/Offline/performance/run_1/mlperf_log_detail.txt";
    let line = |text: &str| format!("\"pid\": 1, \"tid\": 1, \"ts\": 1ns : ERROR : {text}\n");
    let skipped = line("Loadgen built with uncommitted changes!");
    let ended = "Ending early: Max query count reached.";
    folder.write(log, folder.read(log) + &skipped + &line(ended));
    let found = errors(&judged(&folder, round("v0.5"), Program::Strict));
    let error = found.iter().find(|error| error.contains("performance.errors")).unwrap();
    assert!(error.contains(ended) && !error.contains("uncommitted"), "{error}");
}

/// The checker of v0.5 (9c4600ab) reads neither the hash nor the size of the accuracy log. The files of
/// audits are required since August 2020.
#[test]
fn what_v0_7_introduced_rejects_no_result_of_v0_5() {
    type Edit = fn(&Folder, &str);
    let edits: [(&str, Edit); 4] = [
        ("accuracy.hash", |folder, run| {
            folder.write(&format!("{run}/accuracy.txt"), "accuracy=76.100%, good=38050\n");
        }),
        ("accuracy.log_size", |folder, run| {
            folder.write(&format!("{run}/mlperf_log_accuracy.json"), "a".repeat(10_241));
        }),
        ("log.seeds", |folder, run| {
            folder.set(&format!("{run}/mlperf_log_detail.txt"), "effective_qsl_rng_seed", "1");
        }),
        ("audit.folder", |_, _| {}),
    ];
    for (name, expected) in [("v0.5", false), ("v0.7", true)] {
        for (id, edit) in edits {
            let folder = submission(round(name), "datacenter", &["Server"]);
            edit(&folder, "closed/acme/results/box/resnet50/Offline/accuracy");
            let options = Options::new(Program::Strict);
            let checked = check(folder.path(), round(name), &options).unwrap();
            let is_error = errors(&checked).iter().any(|error| error.contains(&format!("[{id}]")));
            assert_eq!(is_error, expected, "{name} {id}: {:#?}", checked.findings);
        }
    }
}

/// The settings of LoadGen have 15 queries/s for the bound of 66 ms.
#[test]
fn the_bound_of_a_stream_is_its_interval() {
    for name in ["v0.5", "v0.7", "v1.0"] {
        let is_late = |latency: &str| {
            let folder = submission(round(name), "edge", &["MultiStream"]);
            for of in ["results", "measurements"] {
                let base = folder.path().join(format!("closed/acme/{of}/box"));
                fs::rename(base.join("resnet50"), base.join("ssd-large")).unwrap();
            }
            let run = "closed/acme/results/box/ssd-large/MultiStream/performance/run_1";
            let log = format!("{run}/mlperf_log_detail.txt");
            folder.set(&log, "result_99.00_percentile_per_query_latency_ns", latency);
            let found = judged(&folder, round(name), Program::Strict).findings;
            found.iter().any(|finding| finding.check == "performance.latency")
        };
        assert!(!is_late("66600000"), "{name}");
        assert!(is_late("66700000"), "{name}");
    }
}
