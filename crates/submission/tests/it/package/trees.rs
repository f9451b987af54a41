//! Packaging of run directories as submissions.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use dyno_loadgen::config::{Conf, ConfType};
use dyno_loadgen::settings::{Scenario, Settings, TestMode, TestSettings};
use dyno_rules::{Round, RuleScenario, Suite};
use dyno_submission::check::{Options, Program, check};
use dyno_submission::entry::DivisionFolder;
use dyno_submission::finding::Severity;
use dyno_submission::package::{
    Availability, Description, Fields, Infer, MARKER, PackageError, PackageRequest, PackageSummary,
    capture, package,
};
use serde_json::Value;

use crate::made::folder::Folder;
use crate::made::played::{SAMPLES, STEADY};
use crate::made::submission::description;

const DESCRIPTION: &str = r#"
[system]
cooling = "air"
accelerators_per_node = 0

[measurement]
retraining = "no"
"#;

pub fn asked<'a>(round: &'a Round, run: &Path) -> PackageRequest<'a> {
    PackageRequest {
        round,
        division: DivisionFolder::Closed,
        submitter: "Us".into(),
        system: "box".into(),
        benchmark: "resnet".into(),
        stands_for: None,
        suite: Suite::Edge,
        availability: Availability::Available,
        infer: Infer::Nothing,
        captured: Fields::from([("host_memory_capacity".to_owned(), "8 GB".into())]),
        description: Description::read(DESCRIPTION).unwrap(),
        runs: vec![run.to_owned()],
    }
}

pub fn open<'a>(round: &'a Round, run: &Path) -> PackageRequest<'a> {
    PackageRequest {
        division: DivisionFolder::Open,
        benchmark: "own".into(),
        stands_for: Some("resnet".into()),
        ..asked(round, run)
    }
}

/// Creates a run directory as `dyno run` does: both tests of each scenario, and the summary.
pub fn run_directory(round: &Round, scenarios: &[Scenario], root: &Path) {
    let mut tests = Vec::new();
    for &scenario in scenarios {
        let performance = STEADY.settings(round, scenario);
        let accuracy = TestSettings { mode: TestMode::AccuracyOnly, ..performance.clone() };
        let name = scenario.name();
        STEADY.play(&accuracy, SAMPLES, &root.join(name).join("accuracy"));
        STEADY.play(&performance, SAMPLES, &root.join(name).join("performance"));
        fs::write(root.join(name).join("performance/records.bin"), "x").unwrap();
        tests.push(serde_json::json!({
            "folder": format!("{name}/accuracy"),
            "accuracy": {"metric": "top-1", "correct": 900, "scored": 1_024},
        }));
        tests.push(serde_json::json!({
            "folder": format!("{name}/performance"), "accuracy": null,
        }));
    }
    let summary = serde_json::json!({"command": ["run", "--profile", "rules"], "tests": tests});
    fs::write(root.join("summary.json"), summary.to_string()).unwrap();
}

/// Returns the relative paths of all files.
pub fn files(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else {
                found.insert(path.to_str().unwrap().to_owned());
            }
        }
    }
    found
}

pub fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

const EDGE: [Scenario; 3] = [Scenario::SingleStream, Scenario::MultiStream, Scenario::Offline];

#[test]
fn up_to_v5_1_each_kind_of_file_has_a_folder_of_its_own() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("apart");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    run_directory(round, &EDGE, &run);
    let packaged = package(&asked(round, &run), &out).unwrap();
    let mut expected = BTreeSet::from([
        "closed/Us/systems/box.json".to_owned(),
        "closed/Us/code/resnet/README.md".to_owned(),
        "closed/Us/documentation/calibration.md".to_owned(),
    ]);
    for scenario in ["SingleStream", "MultiStream", "Offline"] {
        let of = format!("box/resnet/{scenario}");
        for name in ["README.md", "user.conf", &format!("box_{scenario}.json")] {
            expected.insert(format!("closed/Us/measurements/{of}/{name}"));
        }
        let log = |kind| format!("mlperf_log_{kind}");
        for name in [log("accuracy.json"), log("detail.txt"), log("summary.txt")] {
            expected.insert(format!("closed/Us/results/{of}/accuracy/{name}"));
            expected.insert(format!("closed/Us/results/{of}/performance/run_1/{name}"));
        }
        expected.insert(format!("closed/Us/results/{of}/accuracy/accuracy.txt"));
    }
    assert_eq!(files(&out), expected);
    let results = [RuleScenario::SingleStream, RuleScenario::MultiStream, RuleScenario::Offline];
    assert_eq!(packaged.results, results.map(|scenario| (scenario, None)));
    // The closed division requires two audits for each scenario.
    assert_eq!(packaged.doubts.len(), 6, "{:?}", packaged.doubts);
    assert_eq!(packaged.doubts[0], "SingleStream: TEST01 is missing: dyno audit TEST01");
    let text =
        fs::read_to_string(out.join("closed/Us/results/box/resnet/Offline/accuracy/accuracy.txt"))
            .unwrap();
    assert!(text.starts_with("accuracy=87.891%, good=900, total=1024\nAccuracy: mean = 0.87891\n"));
    assert!(text.lines().last().unwrap().starts_with("hash="), "{text}");
    let log = out.join("closed/Us/results/box/resnet/Offline/accuracy/mlperf_log_accuracy.json");
    assert_eq!(fs::metadata(log).unwrap().len(), 8_199);
}

#[test]
fn from_v6_0_a_result_has_everything_in_one_folder() {
    let round = Round::named("v6.0").unwrap();
    let scratch = Folder::new("together");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    run_directory(round, &[Scenario::Offline], &run);
    let audit = run.join("Offline/TEST01");
    fs::create_dir_all(audit.join("performance/run_1")).unwrap();
    fs::write(audit.join("verify_performance.txt"), "TEST FAIL\n").unwrap();
    for name in ["mlperf_log_detail.txt", "mlperf_log_summary.txt"] {
        let from = run.join("Offline/performance").join(name);
        fs::copy(from, audit.join("performance/run_1").join(name)).unwrap();
    }
    fs::create_dir_all(audit.join("accuracy")).unwrap();
    fs::write(audit.join("accuracy/mlperf_log_accuracy.json"), [b' '; 20_000]).unwrap();
    let asked = PackageRequest { suite: Suite::Edge, ..open(round, &run) };
    let packaged = package(&asked, &out).unwrap();
    let is_told = |note: &String| note.contains("verify_accuracy.txt");
    assert!(packaged.notes.iter().any(is_told), "{:?}", packaged.notes);
    let at = "open/Us/results/box/own/Offline";
    let found = files(&out);
    for name in [
        "measurements.json",
        "user.conf",
        "README.md",
        "accuracy/accuracy.txt",
        "performance/run_1/mlperf_log_summary.txt",
        "TEST01/verify_performance.txt",
        "TEST01/performance/run_1/mlperf_log_detail.txt",
        "TEST01/accuracy/accuracy.txt",
    ] {
        assert!(found.contains(&format!("{at}/{name}")), "{name} is not in {found:#?}");
    }
    assert!(found.contains("open/Us/src/own/README.md"));
    let others = ["open/Us/measurements", "open/Us/compliance", "open/Us/code"];
    assert!(others.iter().all(|folder| !out.join(folder).exists()));
    let log = out.join(at).join("TEST01/accuracy/mlperf_log_accuracy.json");
    assert_eq!(fs::metadata(log).unwrap().len(), 8_199);
    assert_eq!(json(&out.join("open/Us/model_mapping.json"))["own"], "resnet");
}

#[test]
fn an_own_model_keeps_what_it_stands_for() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("mapped");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    run_directory(round, &[Scenario::Offline], &run);
    let mapping = out.join("open/Us/model_mapping.json");
    fs::create_dir_all(mapping.parent().unwrap()).unwrap();
    fs::write(&mapping, "{\"own\": \"retinanet\"}").unwrap();
    let error = package(&open(round, &run), &out).unwrap_err();
    assert!(matches!(error, PackageError::MappedAlready { .. }), "{error}");
    assert!(fs::read_to_string(&mapping).unwrap().contains("retinanet"));
}

#[test]
fn a_run_that_was_cut_short_is_told() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("cut-short");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    run_directory(round, &[Scenario::Offline], &run);
    let detail = run.join("Offline/performance/mlperf_log_detail.txt");
    let text = fs::read_to_string(&detail).unwrap();
    let lines = text.lines().filter(|line| !line.contains("\"result_validity\""));
    fs::write(&detail, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let packaged = package(&open(round, &run), &out).unwrap();
    assert!(packaged.doubts.iter().any(|doubt| doubt.contains("no verdict")));

    let log = run.join("Offline/accuracy/mlperf_log_accuracy.json");
    // The log is cut in the middle, directly after an entry, and with a bracket added after it.
    let whole = fs::read_to_string(&log).unwrap();
    let (entries, _) = whole.rsplit_once(",\n").unwrap();
    let key = "\"qsl_idx\" : ";
    let of_first = |line: &str| match line.split_once(key) {
        Some((before, after)) => {
            format!("{before}{key}0{}\n", &after[after.find(',').unwrap()..])
        }
        None => format!("{line}\n"),
    };
    for (text, expected) in [
        (whole[..whole.len() / 2].to_owned(), "the file ends early"),
        (entries.to_owned(), "the file ends early"),
        (format!("{entries}\n]\n"), "has answers to 1023 samples"),
        // One sample is issued repeatedly.
        (whole.lines().map(of_first).collect::<String>(), "has answers to 1 samples"),
        (format!("{whole}{whole}"), "expected nothing after `]`"),
    ] {
        fs::write(&log, text).unwrap();
        let error = package(&open(round, &run), &scratch.path().join("other")).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn what_a_human_must_say_is_marked_and_listed() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("marks");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    run_directory(round, &[Scenario::Offline], &run);
    let packaged = package(&open(round, &run), &out).unwrap();
    let system = json(&out.join("open/Us/systems/box.json"));
    let fields = system.as_object().unwrap();
    for field in &round.system_fields.required {
        assert!(fields.contains_key(field), "{field}");
    }
    for field in &round.system_fields.meaningful {
        assert_ne!(fields[field], "", "{field}");
    }
    // Values come from the flags, the description and the machine; some are unknown.
    assert_eq!(system["system_type"], "edge");
    assert_eq!(
        (&system["cooling"], &system["accelerators_per_node"]),
        (&"air".into(), &"0".into())
    );
    assert_eq!(system["host_memory_capacity"], "8 GB");
    assert!(system["framework"].as_str().unwrap().starts_with(MARKER));
    let listed: BTreeSet<_> = packaged
        .missing_fields
        .iter()
        .map(|fill| (fill.path.clone(), fill.field.clone()))
        .collect();
    let marked = fields.iter().filter(|(_, value)| value.to_string().contains(MARKER)).count();
    let in_system = listed.iter().filter(|(path, _)| path.ends_with("box.json")).count();
    assert_eq!((marked > 5, in_system), (true, marked));
    let measurement = "open/Us/measurements/box/own/Offline/box_Offline.json";
    assert_eq!(json(&out.join(measurement))["retraining"], "no");
    assert!(listed.contains(&(measurement.into(), "weight_data_types".into())));
    assert!(listed.contains(&("open/Us/documentation/calibration.md".into(), "text".into())));
}

/// Creates a SingleStream result of a custom model with this many samples in the accuracy run.
pub fn single_stream(round: &Round, samples: u64, run: &Path) {
    // The single-file checker of v5.1 requires it of 3D U-Net in the open division, too.
    let settings = TestSettings {
        sample_concatenate_permutation: true,
        ..STEADY.settings(round, Scenario::SingleStream)
    };
    let accuracy = TestSettings {
        mode: TestMode::AccuracyOnly,
        accuracy_sample_count_override: samples,
        ..settings.clone()
    };
    STEADY.play(&settings, SAMPLES, &run.join("performance"));
    STEADY.play(&accuracy, SAMPLES, &run.join("accuracy"));
    fs::write(run.join("accuracy/accuracy.txt"), "Accuracy: mean = 0.96111\n").unwrap();
}

#[test]
fn a_data_set_of_ones_own_is_told_in_the_open_division() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("own-data");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    single_stream(round, 540, &run);
    let asked = PackageRequest {
        stands_for: Some("3d-unet-99".into()),
        captured: capture(&run),
        description: description(&[]),
        ..open(round, &run)
    };
    package(&asked, &out).unwrap();
    // The official programs ignore the division here: one warns, the other fails.
    for (program, severity) in [
        (Program::Strict, Severity::Warning),
        (Program::Mono, Severity::Warning),
        (Program::Modular, Severity::Error),
    ] {
        let checked = check(&out, round, &Options::new(program)).unwrap();
        assert_eq!(checked.is_valid(), severity == Severity::Warning, "{program:?}");
        // The runs of this test are simulated.
        let others = checked.findings.iter().filter(|found| found.check != "log.simulated");
        let others: Vec<_> = others.collect();
        let [finding] = others.as_slice() else { panic!("{:#?}", checked.findings) };
        assert_eq!((finding.check, finding.severity), ("accuracy.samples", severity));
        let text = finding.to_string();
        assert!(text.contains("540") && text.contains("43"), "{text}");
    }
}

#[test]
fn a_completed_tree_passes_every_check_and_marks_are_told() {
    // The complete accuracy run on the data set of a benchmark with this many samples.
    for (round, program) in [
        ("v5.1", Program::Strict),
        ("v5.1", Program::Mono),
        ("v5.1", Program::Modular),
        ("v6.0", Program::Strict),
        ("v6.0", Program::Modular),
    ] {
        let round = Round::named(round).unwrap();
        let scratch = Folder::new(&format!("passes-{}-{program:?}", round.version));
        let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
        single_stream(round, 43, &run);
        // A machine that provides only its counts.
        let machine = scratch.path().join("machine");
        fs::create_dir_all(machine.join("sys/bus/pci/devices")).unwrap();
        let complete = PackageRequest {
            stands_for: Some("3d-unet-99".into()),
            infer: Infer::Missing,
            captured: capture(&machine),
            description: description(&[]),
            ..open(round, &run)
        };
        let packaged = package(&complete, &out).unwrap();
        assert_eq!((packaged.missing_fields, packaged.doubts), (vec![], vec![]));
        let checked = check(&out, round, &Options::new(program)).unwrap();
        // The runs of this test are simulated.
        let found = checked.findings.iter().filter(|found| found.check != "log.simulated");
        let found: Vec<String> = found.map(ToString::to_string).collect();
        assert_eq!(found, Vec::<String>::new(), "{program:?} {}", round.version);
        assert!(checked.is_valid() && checked.valid() == 2, "{program:?}: {checked:?}");

        let marked = PackageRequest {
            description: Description::default(),
            benchmark: "other".into(),
            ..complete
        };
        let out = scratch.path().join("marked");
        let missing_fields = package(&marked, &out).unwrap().missing_fields;
        // Checkers do not read the page of the code.
        let marks = missing_fields.iter().filter(|fill| !fill.path.ends_with("README.md")).count();
        let checked = check(&out, round, &Options::new(program)).unwrap();
        let told = checked.findings.iter().filter(|f| f.check == "submission.to_fill").count();
        assert_eq!(told, if program == Program::Strict { marks } else { 0 });
        assert!(checked.is_valid(), "a mark is a warning: {:#?}", checked.findings);
    }
}

#[test]
fn edge_results_are_inferred_when_asked_for() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("inferred");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    run_directory(round, &[Scenario::SingleStream], &run);
    let error = package(&asked(round, &run), &out).unwrap_err();
    let missing = vec![RuleScenario::MultiStream, RuleScenario::Offline];
    assert_eq!(error, PackageError::ScenariosMissing { missing, can_be_inferred: true });
    assert!(!out.exists());
    let inferring = PackageRequest { infer: Infer::Missing, ..asked(round, &run) };
    let packaged = package(&inferring, &out).unwrap();
    let from = Some(RuleScenario::SingleStream);
    let results = [
        (RuleScenario::SingleStream, None),
        (RuleScenario::MultiStream, from),
        (RuleScenario::Offline, from),
    ];
    assert_eq!(packaged.results, results);
    let detail = "performance/run_1/mlperf_log_detail.txt";
    let of =
        |scenario| fs::read(out.join("closed/Us/results/box/resnet").join(scenario).join(detail));
    assert_eq!(of("MultiStream").unwrap(), of("SingleStream").unwrap());
    assert_eq!(of("Offline").unwrap(), of("SingleStream").unwrap());
    let readme = out.join("closed/Us/measurements/box/resnet/Offline/README.md");
    let readme = fs::read_to_string(readme).unwrap();
    assert!(readme.contains("from the SingleStream run"), "{readme}");
    assert!(readme.contains("Simulated in virtual time: the run measured no system."), "{readme}");
}

#[test]
fn a_tree_takes_further_results_and_keeps_what_it_has() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("further");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    run_directory(round, &[Scenario::Offline], &run);
    package(&open(round, &run), &out).unwrap();
    let second = PackageRequest { benchmark: "other".into(), ..open(round, &run) };
    package(&second, &out).unwrap();
    let mapping = json(&out.join("open/Us/model_mapping.json"));
    assert_eq!((&mapping["own"], &mapping["other"]), (&"resnet".into(), &"resnet".into()));
    // Packaging again fails and leaves no files.
    let before = files(&out);
    let error = package(&second, &out).unwrap_err();
    assert!(matches!(error, PackageError::Exists { .. }), "{error}");
    assert_eq!(files(&out), before);
}

#[test]
fn what_does_not_make_a_submission_is_told_and_leaves_nothing() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("refused");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    run_directory(round, &EDGE, &run);
    let asked = asked(round, &run);
    let empty = scratch.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let refused: [(PackageRequest<'_>, &str); 8] = [
        (PackageRequest { submitter: "A B".into(), ..asked.clone() }, "submitter"),
        (PackageRequest { system: ".box".into(), ..asked.clone() }, "system"),
        (PackageRequest { benchmark: "resnet51".into(), ..asked.clone() }, "has no benchmark"),
        (
            PackageRequest {
                suite: Suite::Datacenter,
                benchmark: "retinanet".into(),
                ..asked.clone()
            },
            "does not have",
        ),
        (
            PackageRequest { benchmark: "rgat".into(), ..asked.clone() },
            "not a benchmark of the suite",
        ),
        (PackageRequest { runs: vec![empty], ..asked.clone() }, "no test"),
        (PackageRequest { runs: vec![run.clone(), run.clone()], ..asked.clone() }, "at most"),
        (PackageRequest { runs: vec![scratch.path().join("absent")], ..asked.clone() }, "absent"),
    ];
    for (asked, expected) in refused {
        let error = package(&asked, &out).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    fs::remove_file(run.join("summary.json")).unwrap();
    let error = package(&asked, &out).unwrap_err();
    assert!(matches!(error, PackageError::NotScored { .. }), "{error}");
    fs::remove_dir_all(run.join("Offline/accuracy")).unwrap();
    let error = package(&asked, &out).unwrap_err();
    assert!(matches!(error, PackageError::PartMissing { .. }), "{error}");
    let left: Vec<_> = fs::read_dir(scratch.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 2, "run and empty: {left:?}");
}

#[test]
fn a_run_by_the_rules_of_interactive_is_one_of_interactive() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("interactive");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    run_directory(round, &[Scenario::Server], &run);
    let mut summary = json(&run.join("summary.json"));
    summary["rules"] =
        serde_json::json!({"round": "v5.1", "benchmark": "llama2-70b-99", "interactive": true});
    fs::write(run.join("summary.json"), summary.to_string()).unwrap();
    let asked = PackageRequest {
        stands_for: Some("llama2-70b-99".into()),
        suite: Suite::Datacenter,
        ..open(round, &run)
    };
    // Dyno scored classes, of which this benchmark has none.
    let error = package(&asked, &out).unwrap_err();
    assert!(matches!(&error, PackageError::MetricMissing { metric, .. } if metric == "ROUGE1"));
    assert!(!out.exists());
    let text = "{'rouge1': 44.4, 'rouge2': 22.1, 'rougeL': 28.7, 'tokens_per_sample': 294.4}\n";
    fs::write(run.join("Server/accuracy/accuracy.txt"), text).unwrap();
    assert_eq!(package(&asked, &out).unwrap().results, [(RuleScenario::Interactive, None)]);
    assert!(out.join("open/Us/results/box/own/Interactive/performance/run_1").is_dir());
}

#[test]
fn audits_of_v0_5_lie_below_audit() {
    let round = Round::named("v0.5").unwrap();
    let scratch = Folder::new("first");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    run_directory(round, &[Scenario::Offline], &run);
    let audit = run.join("audit/Offline/TEST04-A");
    fs::create_dir_all(&audit).unwrap();
    fs::write(audit.join("verify_performance.txt"), "TEST PASS\n").unwrap();
    package(&open(round, &run), &out).unwrap();
    let found = files(&out);
    let audits: Vec<_> = found.iter().filter(|path| path.contains("TEST04-A")).collect();
    assert_eq!(audits, ["open/Us/audit/box/own/Offline/TEST04-A/verify_performance.txt"]);
}

/// In v0.5 any combination of benchmark and scenario could be submitted, and inference was not
/// allowed.
#[test]
fn a_round_without_suites_takes_any_scenario_in_the_closed_division() {
    let round = Round::named("v0.5").unwrap();
    let scratch = Folder::new("suites");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    run_directory(round, &[Scenario::SingleStream], &run);
    let asked = PackageRequest { infer: Infer::Missing, ..asked(round, &run) };
    assert_eq!(package(&asked, &out).unwrap().results, [(RuleScenario::SingleStream, None)]);
    assert!(out.join("closed/Us/results/box/resnet/SingleStream/performance/run_1").is_dir());
}

#[test]
fn five_server_runs_are_numbered_where_the_round_has_five() {
    let round = Round::named("v0.7").unwrap();
    let scratch = Folder::new("five");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    run_directory(round, &[Scenario::Server], &run);
    for number in 1..=5 {
        let to = run.join(format!("Server/performance/run_{number}"));
        fs::create_dir_all(&to).unwrap();
        for name in ["mlperf_log_detail.txt", "mlperf_log_summary.txt"] {
            fs::copy(run.join("Server/performance").join(name), to.join(name)).unwrap();
        }
    }
    // `dyno run` also writes a combined log in the parent folder, which is not a sixth run.
    let asked = PackageRequest { suite: Suite::Datacenter, ..open(round, &run) };
    let PackageSummary { results, .. } = package(&asked, &out).unwrap();
    assert_eq!(results, [(RuleScenario::Server, None)]);
    let performance = out.join("open/Us/results/box/own/Server/performance");
    assert!(performance.join("run_5/mlperf_log_detail.txt").is_file());
    assert!(out.join("open/Us/measurements/box/own/Server/mlperf.conf").is_file());
    let later = Round::named("v1.0").unwrap();
    let error = package(&PackageRequest { round: later, ..asked }, &scratch.path().join("later"));
    assert!(matches!(error, Err(PackageError::TooMany { most: 1, .. })), "{error:?}");
}

#[test]
fn of_runs_that_confirm_streams_one_is_submitted() {
    let round = Round::named("v0.7").unwrap();
    let scratch = Folder::new("confirmed");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    run_directory(round, &[Scenario::MultiStream], &run);
    for number in 1..=5 {
        let to = run.join(format!("MultiStream/performance/run_{number}"));
        fs::create_dir_all(&to).unwrap();
        for name in ["mlperf_log_detail.txt", "mlperf_log_summary.txt"] {
            fs::copy(run.join("MultiStream/performance").join(name), to.join(name)).unwrap();
        }
    }
    let PackageSummary { results, .. } = package(&open(round, &run), &out).unwrap();
    assert_eq!(results, [(RuleScenario::MultiStream, None)]);
    let performance = out.join("open/Us/results/box/own/MultiStream/performance");
    assert!(performance.join("run_1/mlperf_log_detail.txt").is_file());
    assert!(!performance.join("run_2").exists());
}

#[test]
fn the_user_conf_means_what_was_run() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("conf");
    for &scenario in Scenario::ALL {
        let run = scratch.path().join(scenario.name());
        run_directory(round, &[scenario], &run);
        let detail = run.join(scenario.name()).join("performance/mlperf_log_detail.txt");
        let (detail, _) = dyno_loadgen::log::read::read_detail_file(&detail).unwrap();
        let named = RuleScenario::named(scenario.name()).unwrap();
        let text = dyno_submission::package::user_conf(&detail, named);
        let conf = Conf::parse(&text, Path::new("user.conf")).unwrap();
        conf.refuse_ignored().unwrap();
        let expected = STEADY.settings(round, scenario);
        let mut settings = Settings::default();
        settings.values.scenario = scenario;
        conf.apply(&mut settings, "resnet", scenario.name(), ConfType::User);
        let relevant = |s: &dyno_loadgen::settings::TestSettings| {
            let own = match scenario {
                Scenario::SingleStream => s.single_stream_expected_latency_ns,
                Scenario::MultiStream => s.multi_stream_expected_latency_ns,
                Scenario::Server => s.server_target_qps + s.server_target_latency_ns as f64,
                Scenario::Offline => s.offline_expected_qps,
            };
            (own, s.min_duration_ms, s.min_query_count)
        };
        assert_eq!(relevant(&settings.values), relevant(&expected), "{text}");
    }
}
