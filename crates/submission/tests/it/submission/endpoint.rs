//! Results measured on an endpoint: a generated tree, valid and with single defects.

use std::collections::BTreeSet;
use std::fs;

use dyno_rules::Round;
use dyno_submission::check::{CheckReport, Options, Outcome, Program, check};
use dyno_submission::finding::Severity;
use dyno_submission::table::Column;
use serde_json::Value;

use crate::made::folder::Folder;
use crate::made::submission::system;

const RESULT: &str = "closed/acme/results/box/gpt-oss-120b";
const BOTH: [Program; 2] = [Program::Modular, Program::Strict];

const CONFIG: &str = "\
type: TYPE
version: 0.3.1
model_params:
  streaming: true
settings:
  load_pattern:
    type: poisson
    target_qps: 12.5
  runtime:
    min_duration_ms: 600000
    n_samples_to_issue: 9000
    dataloader_random_seed: 2747215439041700203
    scheduler_random_seed: 16159082839903944936
";
const SUMMARY: &str = r#"{
  "n_samples_issued": 9000, "n_samples_completed": 9000, "n_samples_failed": 0,
  "duration_ns": 720000000000, "qps": 12.5, "tps": 15000.0,
  "latency": {"avg": 9000000000, "early_stopping_percentiles": {"50": 8000000000, "99": 20000000000}},
  "ttft": {"early_stopping_percentiles": {"99": 1500000000, "99.9": 1700000000}},
  "tpot": {"early_stopping_percentiles": {"99": 12000000}},
  "output_sequence_lengths": {"min": 3, "max": 9000, "avg": 1200.5}
}"#;
const SCORES: &str = r#"{"accuracy_scores": [
  {"dataset_type": "accuracy", "score": 83.1, "total_samples": 4395},
  {"dataset_type": "performance", "total_samples": 6396}
]}"#;
const MEASUREMENT: &str = r#"{"input_data_types": "fp4", "retraining": "no",
  "starting_weights_filename": "made", "weight_data_types": "fp4", "weight_transformations": "no"}"#;

fn round() -> &'static Round {
    Round::named("v6.1").unwrap()
}

/// gpt-oss-120b in the closed division, on a datacenter system.
pub fn submission() -> Folder {
    let folder = Folder::new("endpoint");
    let fields = [("system_type", "datacenter"), ("host_networking", "400 Gbit/s Ethernet")];
    let system = system(round(), &fields);
    folder.write("closed/acme/systems/box.json", system);
    folder.write("closed/acme/documentation/calibration.md", "made");
    folder.write("closed/acme/src/gpt-oss-120b/README.md", "made");
    for (scenario, kind) in
        [("Offline", "offline"), ("Server", "online"), ("Interactive", "online")]
    {
        let result = format!("{RESULT}/{scenario}");
        folder.write(&format!("{result}/config.yaml"), CONFIG.replace("TYPE", kind));
        folder.write(&format!("{result}/performance/result_summary.json"), SUMMARY);
        folder.write(&format!("{result}/accuracy/accuracy_results.json"), SCORES);
        folder.write(&format!("{result}/measurements.json"), MEASUREMENT);
        folder.write(&format!("{result}/README.md"), "made");
        folder.write(&format!("{result}/user.conf"), "made");
    }
    folder
}

fn judged(folder: &Folder, program: Program) -> CheckReport {
    let options = Options { forensic: true, ..Options::new(program) };
    check(folder.path(), round(), &options).unwrap()
}

/// Returns the ids and messages of the errors.
fn errors(checked: &CheckReport) -> (BTreeSet<&'static str>, String) {
    let errors = checked.findings.iter().filter(|finding| finding.severity == Severity::Error);
    let text = errors.clone().map(|finding| format!("{finding}\n")).collect();
    (errors.map(|finding| finding.check).collect(), text)
}

fn metrics(checked: &CheckReport) -> Vec<f64> {
    let metric = |outcome: &Outcome| match outcome {
        Outcome::Valid { metric } => *metric,
        Outcome::Invalid => f64::NAN,
    };
    checked.results.values().map(metric).collect()
}

/// Texts of a column, with one row for each result.
fn column(checked: &CheckReport, column: Column) -> Vec<String> {
    checked.rows.iter().map(|row| row.get(column).to_owned()).collect()
}

/// The official table has these values (results.py and checks/performance_check.py b66003e1:560). Its
/// unit is tokens per second for all of them.
#[test]
fn a_result_of_an_endpoint_is_its_rate_of_tokens() {
    let folder = submission();
    for (program, expected, accuracy) in [
        // Interactive has no key of its own, and the client spells Offline in lower case.
        (Program::Modular, [12.5, 9000.0 / 720.0, 15000.0], "83.1"),
        (Program::Strict, [15000.0; 3], "exact_match: 83.1"),
    ] {
        let checked = judged(&folder, program);
        let (_, text) = errors(&checked);
        assert!(checked.is_valid() && !checked.crashes, "{program:?}: {text}");
        assert_eq!(metrics(&checked), expected, "{program:?}");
        assert_eq!(column(&checked, Column::Units), ["Tokens/s"; 3], "{program:?}");
        assert_eq!(column(&checked, Column::Accuracy), [accuracy; 3], "{program:?}");
    }
    // A model without tokens has the rate of its queries.
    for program in BOTH {
        let checked = judged(&qwen("0.79"), program);
        assert!(checked.is_valid(), "{program:?}: {:?}", errors(&checked));
        assert_eq!(metrics(&checked), [12.5; 3], "{program:?}");
    }
}

/// With the name that LoadGen has for it, Offline has a key that no client reports.
#[test]
fn the_spelling_of_the_scenario_selects_the_official_key() {
    let folder = submission();
    folder.edit(&format!("{RESULT}/Offline/config.yaml"), "type: offline", "type: Offline");
    let (ids, text) = errors(&judged(&folder, Program::Modular));
    assert!(ids.contains("performance.keys"), "{text}");
    let checked = judged(&folder, Program::Strict);
    assert!(checked.is_valid(), "{:?}", errors(&checked));
}

/// qwen3-vl in the closed division, with a score of the client.
fn qwen(score: &str) -> Folder {
    let folder = submission();
    let root = folder.path().join("closed/acme");
    let (from, to) = ("gpt-oss-120b", "qwen3-vl-235b-a22b");
    fs::rename(root.join("results/box").join(from), root.join("results/box").join(to)).unwrap();
    fs::rename(root.join("src").join(from), root.join("src").join(to)).unwrap();
    for (scenario, samples) in [("Offline", "48289"), ("Server", "48289"), ("Interactive", "8000")]
    {
        let result = RESULT.replace(from, to) + "/" + scenario;
        let scores = format!("{result}/accuracy/accuracy_results.json");
        folder.edit(&scores, "\"score\": 83.1", &format!("\"score\": {score}"));
        folder.edit(&scores, "4395", samples);
        let summary = format!("{result}/performance/result_summary.json");
        folder.edit(&summary, "\"99\": 20000000000", "\"99\": 1400000000");
    }
    folder
}

/// checks/accuracy_check.py b66003e1 compares the scores of this model alone.
#[test]
fn scores_under_any_name_are_held_against_the_target() {
    for (score, is_enough, written) in [
        ("0.79", true, "0.79"),
        ("0.5", false, ""),
        ("\"0.79\"", true, "0.79"),
        ("\"0.5\"", false, ""),
        ("{\"n\": \"é\", \"f1\": 0.79}", true, "n: \\u00e9  f1: 0.79"),
        ("{\"f1\": 0.5}", false, ""),
        ("{\"hierarchical\": \"0.5\"}", false, ""),
        ("{\"F1_HIERARCHICAL\": 0.79, \"f1\": 0.5}", true, "F1_HIERARCHICAL: 0.79  f1: 0.5"),
    ] {
        for program in BOTH {
            let checked = judged(&qwen(score), program);
            assert_eq!(checked.is_valid(), is_enough, "{program:?}, {score}");
            let (ids, text) = errors(&checked);
            assert_eq!(ids.contains("accuracy.target"), !is_enough, "{program:?}: {text}");
        }
        if is_enough {
            let checked = judged(&qwen(score), Program::Modular);
            assert_eq!(column(&checked, Column::Accuracy), [written; 3]);
        }
    }
}

/// Python takes `true` for 1, and no comparison with NaN is true.
#[test]
fn a_score_that_is_no_finite_number_reaches_no_target() {
    for (score, id, is_official) in [
        ("\"nan\"", "accuracy.target", false),
        ("\"inf\"", "accuracy.target", false),
        ("true", "accuracy.metric", false),
        ("{\"f1\": true}", "accuracy.metric", false),
        ("\"high\"", "accuracy.metric", true),
        ("[0.79]", "accuracy.metric", true),
    ] {
        let folder = qwen(score);
        let (ids, text) = errors(&judged(&folder, Program::Strict));
        assert!(ids.contains(id), "{score}: {text}");
        assert_eq!(judged(&folder, Program::Modular).is_valid(), !is_official, "{score}");
    }
    // The open division has no targets.
    let folder = qwen("\"high\"");
    fs::rename(folder.path().join("closed"), folder.path().join("open")).unwrap();
    folder.set_field("open/acme/systems/box.json", "division", "open");
    for program in BOTH {
        let (ids, text) = errors(&judged(&folder, program));
        assert!(!ids.contains("accuracy.metric"), "{program:?}: {text}");
    }
}

#[test]
fn the_folder_selects_the_bound_on_latency() {
    let folder = qwen("0.79");
    let result = RESULT.replace("gpt-oss-120b", "qwen3-vl-235b-a22b");
    for scenario in ["Interactive", "Server"] {
        // Server may take 12 s, Interactive 1.5 s.
        let summary = format!("{result}/{scenario}/performance/result_summary.json");
        folder.edit(&summary, "\"99\": 1400000000", "\"99\": 2000000000");
    }
    for program in BOTH {
        let checked = judged(&folder, program);
        let (ids, text) = errors(&checked);
        assert_eq!(ids, BTreeSet::from(["performance.latency"]), "{program:?}: {text}");
        assert_eq!(checked.valid(), 2, "{program:?}");
    }
}

/// A run of which the client reports Offline is no Interactive result.
#[test]
fn an_offline_run_is_no_interactive_result_by_the_rules() {
    let folder = submission();
    let config = format!("{RESULT}/Interactive/config.yaml");
    folder.edit(&config, "type: online", "type: offline");
    let (ids, text) = errors(&judged(&folder, Program::Strict));
    assert!(ids.contains("performance.inferred"), "{text}");
    assert!(judged(&folder, Program::Modular).is_valid());
}

#[test]
fn what_the_client_says_is_held_against_the_rules() {
    let (config, summary) = ("config.yaml", "performance/result_summary.json");
    let scores = "accuracy/accuracy_results.json";
    // File, edit, check, and whether the official program finds it, too.
    for (file, from, to, id, is_official) in [
        (
            config,
            "dataloader_random_seed: 27",
            "dataloader_random_seed: 28",
            "performance.seeds",
            true,
        ),
        (config, "scheduler_random_seed: 16159", "other: 1", "performance.seeds", true),
        (
            config,
            "min_duration_ms: 600000",
            "min_duration_ms: 599999",
            "performance.duration",
            true,
        ),
        (config, "min_duration_ms: 600000", "other: 1", "performance.keys", true),
        (config, "type: online", "type: burst", "performance.keys", true),
        (summary, "\"99\": 1500000000", "\"99\": 3000000000", "performance.token_limits", true),
        (summary, "\"99\": 12000000", "\"99\": 80000000", "performance.token_limits", true),
        (summary, "\"tpot\"", "\"other\"", "performance.keys", true),
        (summary, "\"qps\": 12.5", "\"qps\": 13.5", "performance.consistent", false),
        (
            summary,
            "9000, \"n_samples_completed\": 9000, \"n_samples_failed\": 0,\n  \"duration_ns\": 72",
            "125, \"n_samples_completed\": 125, \"n_samples_failed\": 0,\n  \"duration_ns\": 1",
            "performance.consistent",
            false,
        ),
        (
            summary,
            "\"n_samples_failed\": 0",
            "\"n_samples_failed\": 1",
            "performance.errors",
            false,
        ),
        (summary, "\"avg\": 1200.5", "\"avg\": 1100.5", "audit.output_length", true),
        (summary, "}\n}", "}", "endpoint.files", false),
        (scores, "\"score\": 83.1, ", "", "accuracy.metric", true),
        (scores, "83.1", "82.1", "accuracy.target", false),
        (scores, "4395", "4394", "accuracy.samples", true),
        ("measurements.json", "\"retraining\": \"no\"", "\"other\": 1", "measurement.fields", true),
    ] {
        let folder = submission();
        folder.edit(&format!("{RESULT}/Server/{file}"), from, to);
        for program in BOTH {
            let checked = judged(&folder, program);
            let (ids, text) = errors(&checked);
            let finds = is_official || program == Program::Strict;
            assert_eq!(ids.contains(id), finds, "{program:?}, {file}: {to}: {text}");
            // A summary that is not JSON also lacks every fact, which is another finding.
            let counts = !finds && id != "endpoint.files";
            assert_eq!(checked.is_valid(), counts, "{program:?}, {file}: {to}: {text}");
        }
    }
}

#[test]
fn interactive_has_limits_of_its_own() {
    let folder = submission();
    let summary = format!("{RESULT}/Interactive/performance/result_summary.json");
    // Server may take 3 s to the first token, Interactive 2 s.
    folder.edit(&summary, "\"99\": 1500000000", "\"99\": 2500000000");
    for program in BOTH {
        let (ids, text) = errors(&judged(&folder, program));
        assert!(ids.contains("performance.token_limits"), "{program:?}: {text}");
    }
}

#[test]
fn the_settings_of_an_endpoint_are_not_in_a_user_conf() {
    let folder = submission();
    fs::remove_file(folder.path().join(RESULT).join("Server/user.conf")).unwrap();
    for program in BOTH {
        let checked = judged(&folder, program);
        assert!(checked.is_valid(), "{program:?}: {:?}", errors(&checked));
    }
}

#[test]
fn an_audit_of_an_endpoint_is_a_verdict() {
    let folder = submission();
    let file = format!("{RESULT}/Server/audit/audit_accuracy_in_performance_full_test.json");
    let right = r#"{"test": "accuracy_in_performance_full_test", "passed": true}"#;
    for (text, id) in [
        (right.to_owned(), None),
        (right.replace("true", "false"), Some("audit.performance")),
        (right.replace("full", "half"), Some("audit.text")),
        ("{".to_owned(), Some("audit.text")),
    ] {
        folder.write(&file, &text);
        for program in BOTH {
            let checked = judged(&folder, program);
            let (ids, said) = errors(&checked);
            assert_eq!(checked.is_valid(), id.is_none(), "{program:?}: {text}: {said}");
            assert!(id.is_none_or(|id| ids.contains(id)), "{program:?}: {text}: {said}");
        }
    }
}

#[test]
fn what_ends_the_official_program_is_told_and_no_other_model_may_be_measured_so() {
    let folder = submission();
    folder.edit(&format!("{RESULT}/Server/config.yaml"), "type: online", "other: 1");
    let checked = judged(&folder, Program::Modular);
    assert!(checked.crashes && !checked.is_valid());
    for scores in ["[1]", "[{\"total_samples\": \"x\"}]"] {
        let folder = submission();
        let text = format!("{{\"accuracy_scores\": {scores}}}");
        folder.write(&format!("{RESULT}/Server/accuracy/accuracy_results.json"), text);
        assert!(judged(&folder, Program::Modular).crashes, "{scores}");
        assert!(!judged(&folder, Program::Strict).is_valid(), "{scores}");
    }
    let folder = submission();
    let root = folder.path().join("closed/acme");
    fs::rename(root.join("results/box/gpt-oss-120b"), root.join("results/box/llama3.1-405b"))
        .unwrap();
    for program in BOTH {
        let (ids, text) = errors(&judged(&folder, program));
        assert!(ids.contains("result.endpoint"), "{program:?}: {text}");
    }
}

#[test]
fn the_mapping_is_that_of_the_official_program() {
    let Some(path) = crate::shared::find("reference/rules/v6.1.json") else { return };
    let json: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let globals = &json["globals"];
    let ours = round().endpoints.unwrap();
    assert_eq!(globals["endpoints_allowed_models"], serde_json::json!(ours.models));
    assert_eq!(globals["endpoints_compliance_mapping"], serde_json::json!(ours.audits));
    let mappings = globals["endpoints_mappings"].as_object().unwrap();
    assert_eq!(mappings.len(), ours.facts.len());
    let text = |table: &str, path: &str| globals[table][path].as_str().map(str::to_owned);
    for fact in &ours.facts {
        assert_eq!(mappings[&fact.path], fact.key.as_str());
        assert_eq!(text("endpoints_json_alt_paths", &fact.path), fact.other);
        assert_eq!(text("endpoints_yaml_field_map", &fact.path), fact.config);
    }
    let keys = globals["result_field_endpoints"].as_object().unwrap();
    for (scenario, key) in &ours.result_keys {
        assert_eq!(keys[&scenario.name().to_lowercase()], key.as_str());
    }
    let range = (globals["test09_low"].as_f64(), globals["test09_high"].as_f64());
    assert_eq!(range, (Some(ours.output_tokens.0), Some(ours.output_tokens.1)));
    assert_eq!(Round::named("v6.0").unwrap().endpoints, None);
}
